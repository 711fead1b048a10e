"""Plans that only tables feed."""

from __future__ import annotations

from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    Coalesce,
    Distinct,
    Filter,
    Join,
    Limit,
    Map,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    Union,
    Validity,
    walk,
)
from tidegate.algebra.similarity_join import SimilarityJoin

_OPERATORS = (
    Filter
    | Map
    | Union
    | Join
    | KeyedJoin
    | SimilarityJoin
    | SemiJoin
    | SetOperation
    | Aggregate
    | Distinct
    | Limit
    | Coalesce
)


def is_made_of_tables(plan: Plan) -> bool:
    """Return whether the rows of a plan follow from tables alone, so that they change only when a table changes.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> table, stream = (Scan("s", Schema.of(), validity=v) for v in (Validity.RELATION, Validity.INSTANT))
    >>> is_made_of_tables(Distinct(table)), is_made_of_tables(Union((table, stream)))
    (True, False)
    """
    return all(
        node.validity is Validity.RELATION if isinstance(node, Scan) else isinstance(node, _OPERATORS)
        for node in walk(plan)
    )
