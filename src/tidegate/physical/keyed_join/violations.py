"""Declared constraints that were seen to be broken, as far as that is known.

With cold storage: a row comes back because of one that has just arrived, and the two are farther apart than a
reference in time between them allows; if no other constraint is ever in force, they are in any case. Without it:
results or pairs of the sample are missing, and only one constraint can be the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate.algebra.keyed_join import Kind
from tidegate.catalog.constraints import USED
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.model import Arrivals, Bound, Constraints
from tidegate.physical.keyed_join.monitor import name_of
from tidegate.physical.keyed_join.verdicts import Candidate

BROKEN = "broken"
"""Where reports and orders have, by name (`watching.name_of`), how many rows came too late."""


class CameBack:
    """Elements of a stream that were cold: when they start, and their keys by edge."""

    def __init__(self, start: Ints, keys: Mapping[int, Ints]) -> None:
        self.start, self.keys = start, keys

    def late(self, edge: int, new: Arrivals, apart: int | None) -> int:
        """How many new elements have the key of one of these, and start so much later than it, or at any time."""
        order = np.lexsort((self.start, self.keys[edge]))  # of several with the same key, the first is found
        known, start = self.keys[edge][order], self.start[order]
        places = np.minimum(np.searchsorted(known, new.keys[edge]), len(known) - 1)
        same: npt.NDArray[np.bool_] = known[places] == new.keys[edge]
        if apart is not None:
            same &= new.start - start[places] > apart
        return int(same.sum())


def came_late(
    graph: Graph,
    constraints: Constraints,
    batch: Mapping[int, Arrivals],
    returned: Mapping[int, CameBack],
    *,
    declared: bool,
) -> Facts:
    """How many rows of a step break a constraint by which others had been let go; by name.

    `declared` says that no others are ever made use of.
    """
    told: dict[str, int] = {}
    in_force = _in_force(constraints)
    is_alone = declared and sum((b.rows is not None) + (b.time is not None) for b in in_force.values()) == 1
    for (edge, kind), bound in in_force.items():
        parent, child = graph.edges[edge]
        gone, new = (parent, child) if kind in (Kind.ARRIVING, Kind.ORDERED_CHILDREN) else (child, parent)
        in_time = bound.time if kind is Kind.ARRIVING and bound.rows is None else None
        if gone in returned and new in batch and (in_time is not None or is_alone):
            told[name_of(edge, kind)] = returned[gone].late(edge, batch[new], in_time)
    return {BROKEN: {name: count for name, count in told.items() if count}}


def added(before: Mapping[str, int], reports: Sequence[Facts]) -> dict[str, int]:
    """How many rows have broken constraints so far."""
    total = dict(before)
    for report in reports:
        for name, count in report.get(BROKEN, {}).items():
            total[name] = total.get(name, 0) + count
    return total


def said(
    candidates: Sequence[Candidate], judged: Sequence[Facts], late: Mapping[str, int], lost: Facts, *, alone: bool
) -> list[Facts]:
    """What is said of constraints, with those that were broken; `alone`: none but those that are declared count."""
    used = [each["reach"] is not None for each in judged]
    is_missing = alone and sum(used) == 1 and _missing(lost)
    told = []
    for each, facts, is_used in zip(candidates, judged, used, strict=True):
        rows = late.get(each.name, 0)
        why = f"{rows} row{'' if rows == 1 else 's'} came too late" if rows else "results are missing"
        is_broken = is_used and each.declared is not None and (rows or is_missing)
        told.append({**facts, "in_use": f"{USED}, but it was broken: {why}", "late": rows} if is_broken else facts)
    return told


def _missing(lost: Facts) -> bool:
    """Whether anything of the sample is missing."""
    counts: list[Any] = [lost["results"]] if "results" in lost else list(lost.get("pairs", {}).values())
    return any(sum(missing) > 0 for _, missing in counts)


def _in_force(constraints: Constraints) -> dict[tuple[int, Kind], Bound]:
    by_kind = {
        Kind.ARRIVING: constraints.arriving,
        Kind.CLUSTERED: constraints.clustered,
        Kind.ORDERED_PARENTS: constraints.ordered_parents,
        Kind.ORDERED_CHILDREN: constraints.ordered_children,
    }
    return {(edge, kind): bound for kind, bounds in by_kind.items() for edge, bound in bounds.items()}
