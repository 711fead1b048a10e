"""Find the plans whose results stateful operators cut at watermarks."""

from __future__ import annotations

from tidegate.algebra.count_windows import count_window_below
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Plan,
    SemiJoin,
    SetOperation,
    Union,
    inputs,
)
from tidegate.algebra.properties import is_chronon
from tidegate.algebra.similarity_join import SimilarityJoin


def is_cut(plan: Plan) -> bool:
    """Return whether stateful operators in a plan may cut its results at watermarks.

    Elements that are valid for a single chronon are never cut.

    Examples
    --------
    >>> from tidegate.algebra.plan import Scan, Window
    >>> from tidegate.expressions.nodes import TRUE
    >>> from tidegate.schema import Schema
    >>> stream = Window(Scan("bid", Schema.of()), 10)
    >>> is_cut(Join(stream, stream, TRUE)), is_cut(Join(stream, Distinct(stream), TRUE))
    (False, True)
    """
    if is_chronon(plan):
        return False
    match plan:
        case Aggregate() | Distinct() | Limit() | SetOperation() | SemiJoin():
            return True
        case CountWindow(rows=rows, slide=slide):
            return rows is not None or slide != 1
        case KeyedJoin(inputs=many):
            return any(count_window_below(each) is not None or is_cut(each) for each in many)
        case Join() | SimilarityJoin() | Filter() | Map() | Union() | Granularity():
            return any(is_cut(each) for each in inputs(plan))
    return False
