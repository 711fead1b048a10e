"""Declared constraints that are known to be broken.

With cold storage: an element returns because of a new one, and the two are farther apart than a reference in time
between them allows. If no other constraint is ever in force, any return counts. Without cold storage: results or pairs
of the sample are missing, and only one constraint can be the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.catalog.constraints import USED
from tidegate.physical.common.arrays import Ints
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints, StreamArrivals
from tidegate.physical.keyed_join.monitor import constraint_name
from tidegate.physical.keyed_join.report import KeyedJoinReport, LossSample
from tidegate.physical.keyed_join.verdicts import Candidate, ConstraintVerdict


class ReturnedElements:
    """Elements of a stream that were cold: their starts, and their keys by edge."""

    def __init__(self, start: Ints, keys: Mapping[int, Ints]) -> None:
        self.start, self.keys = start, keys

    def count_late(self, edge: int, new: StreamArrivals, apart: int | None) -> int:
        """Count new elements with the key of one of these that start more than `apart` after it, or at any time."""
        order = np.lexsort((self.start, self.keys[edge]))  # of several with the same key, the first is found
        known, start = self.keys[edge][order], self.start[order]
        places = np.minimum(np.searchsorted(known, new.keys[edge]), len(known) - 1)
        same: npt.NDArray[np.bool_] = known[places] == new.keys[edge]
        if apart is not None:
            same &= new.start - start[places] > apart
        return int(same.sum())


def count_late_rows(
    graph: Graph,
    constraints: Constraints,
    batch: Mapping[int, StreamArrivals],
    returned: Mapping[int, ReturnedElements],
    *,
    declared: bool,
) -> dict[str, int]:
    """Count by name the rows of a step that break a constraint by which others had left.

    `declared` says that only declared constraints are ever used.
    """
    late: dict[str, int] = {}
    in_force = _bounds_in_force(constraints)
    is_alone = declared and sum((b.rows is not None) + (b.time is not None) for b in in_force.values()) == 1
    for (edge, kind), bound in in_force.items():
        parent, child = graph.edges[edge]
        gone, new = (
            (parent, child) if kind in (ConstraintKind.ARRIVING, ConstraintKind.ORDERED_CHILDREN) else (child, parent)
        )
        in_time = bound.time if kind is ConstraintKind.ARRIVING and bound.rows is None else None
        if gone in returned and new in batch and (in_time is not None or is_alone):
            late[constraint_name(edge, kind)] = returned[gone].count_late(edge, batch[new], in_time)
    return {name: count for name, count in late.items() if count}


def add_late_counts(before: Mapping[str, int], reports: Sequence[KeyedJoinReport]) -> dict[str, int]:
    """Add the reports of a step to the number of rows that broke each constraint."""
    total = dict(before)
    for report in reports:
        for name, count in report.broken.items():
            total[name] = total.get(name, 0) + count
    return total


def mark_broken(
    candidates: Sequence[Candidate],
    verdicts: Sequence[ConstraintVerdict],
    late: Mapping[str, int],
    lost: LossSample | None,
    *,
    alone: bool,
) -> tuple[ConstraintVerdict, ...]:
    """Return the verdicts, with a note on constraints that were broken. `alone`: only declared ones are used."""
    is_missing = alone and sum(each.reach is not None for each in verdicts) == 1 and _has_missing(lost)
    marked = []
    for candidate, verdict in zip(candidates, verdicts, strict=True):
        rows = late.get(candidate.name, 0)
        why = f"{rows} row{'' if rows == 1 else 's'} arrived too late" if rows else "results are missing"
        is_declared_and_used = verdict.reach is not None and candidate.declared is not None
        is_broken = is_declared_and_used and (rows or is_missing)
        note = f"{USED}, but it was broken: {why}"
        marked.append(replace(verdict, in_use=note, late=rows) if is_broken else verdict)
    return tuple(marked)


def _has_missing(lost: LossSample | None) -> bool:
    """Return whether any result or pair of the sample is missing."""
    return lost is not None and any(sum(each.missing) > 0 for each in lost.counts)


def _bounds_in_force(constraints: Constraints) -> dict[tuple[int, ConstraintKind], Bound]:
    by_kind = {
        ConstraintKind.ARRIVING: constraints.arriving,
        ConstraintKind.CLUSTERED: constraints.clustered,
        ConstraintKind.ORDERED_PARENTS: constraints.ordered_parents,
        ConstraintKind.ORDERED_CHILDREN: constraints.ordered_children,
    }
    return {(edge, kind): bound for kind, bounds in by_kind.items() for edge, bound in bounds.items()}
