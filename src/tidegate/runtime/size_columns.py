"""Lower queries whose results have columns with the sizes in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.algebra.plan import WHOLE, Granularity, Plan, Window, walk
from tidegate.algebra.size_columns import SizeColumn, adaptable_nodes_in_order
from tidegate.optimizer.quality import size_key
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.lower import lower
from tidegate.physical.relation.coalesce import CoalesceOperator
from tidegate.physical.relation.size_columns import SizeColumnsOperator, SizeSource
from tidegate.physical.watermark_cuts import is_cut
from tidegate.time import CHRONON


def lower_with_sizes(plan: Plan, own: Plan, columns: Sequence[SizeColumn], emit: Emit) -> PhysicalPlan:
    """Return the physical plan of a query with columns on top that say which sizes were in force.

    The query's `own` plan has its windows where they were written. `plan` is the one that runs; it may have subplans of
    other queries, in the same places.
    """
    below = lower(plan, emit=Emit.SETTLED)
    sources = tuple(_source_of(column, plan, own) for column in columns)
    sized = Apply(SizeColumnsOperator(below.schema, sources, sum(_steps_of_time(plan))), (below,))
    if emit is Emit.SETTLED or not is_cut(plan):
        return sized
    return Apply(CoalesceOperator(sized.schema, WHOLE), (sized,))


def _source_of(column: SizeColumn, plan: Plan, own: Plan) -> SizeSource:
    pairs = zip(adaptable_nodes_in_order(own), adaptable_nodes_in_order(plan), strict=True)
    keys = dict.fromkeys(size_key(running) for written, running in pairs if column.is_of(written))
    return SizeSource(column.name, tuple(key for key in keys if key is not None), column.best, column.is_coarse)


def _steps_of_time(plan: Plan) -> Iterator[int]:
    """Yield by how much each operator may move a watermark to a later time."""
    for node in walk(plan):
        match node:
            case Window(slide=slide) if slide > CHRONON:
                yield slide
            case Granularity(size=size, coarsest=coarsest):
                yield max(size, coarsest or 0)
