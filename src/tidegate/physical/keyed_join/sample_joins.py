"""Small joins of a sample of keys, which run along with a join to show which results it misses.

A hash of a key's code decides whether it is sampled; other bits of it, the *mark*, are the row of its elements. The
last bits of a mark are the group of the key. The others decide which keys stay when the sample is halved: in joins over
unbounded windows nothing else would limit its size. A result found after n halvings counts as 2ⁿ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.hashing import Hashes, hash_columns
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Constraints, Moment, StreamArrivals
from tidegate.physical.keyed_join.kernels.monitor import Limits, is_in_sample
from tidegate.physical.keyed_join.monitor import NO_PARTS, Parts

GROUPS = 32
"""Number of groups of sampled keys: enough to see how they differ, few enough to report each step."""

MOST_HALVINGS = 26
"""Bits of a mark that decide which keys stay."""

_MARKS = np.uint64(GROUPS << MOST_HALVINGS)


class KeySample(NamedTuple):
    """A share of the keys, which has been halved some times since the beginning."""

    share: float
    halvings: int = 0

    @property
    def share_now(self) -> float:
        return self.share / float(1 << self.halvings)

    def has_marks(self, marks: Ints) -> Mask:
        """Return which marks are those of keys that have stayed."""
        mask: Mask = (marks // GROUPS) & (2**self.halvings - 1) == 0
        return mask

    def marks_of(self, codes: Ints) -> tuple[Ints, Ints]:
        """Return the positions of the codes of sampled keys, and their marks."""
        key = hash_columns([pa.array(codes)])
        some = np.flatnonzero(is_in_sample(key, Limits(share=self.share)))
        marks = _marks_of_keys(key[some])
        stays = self.has_marks(marks)
        return some[stays], marks[stays]

    def count_by_group(self, marks: Ints) -> list[int]:
        """Return for each group the number of results with these marks, each counted twice for each halving."""
        return [int(n) << self.halvings for n in np.bincount(marks % GROUPS, minlength=GROUPS)]


@dataclass(slots=True, eq=False)
class JoinSample:
    """Small joins between two steps, as parts of the state, and decoded if they have been."""

    parts: Parts = field(default_factory=lambda: NO_PARTS)
    joins: dict[str, SynopsisJoin] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SampleJoins:
    """Small joins of a step, by the name prefix of their parts."""

    sample: JoinSample
    keys: KeySample
    used: dict[str, SynopsisJoin] = field(default_factory=dict)

    def load_join(
        self,
        name: str,
        graph: Graph,
        watched: frozenset[int] = frozenset(),
        same: Sequence[Mapping[int, int]] | None = None,
    ) -> SynopsisJoin:
        """Return a small join as it was after the last step, without the keys that have not stayed."""
        known = self.sample.joins.get(name)
        if known is None:
            own = {n.removeprefix(name): part for n, part in self.sample.parts.items() if n.startswith(name)}
            its: dict[str, Any] = {"exact": False, "watched": watched, "same": same}
            known = SynopsisJoin.from_columns(own, graph, **its) if own else SynopsisJoin.empty(graph, **its)
        if self.keys.halvings:
            known.keep_rows(self.keys.has_marks)
        self.used[name] = known
        return known

    def sample_arrivals(self, arrivals: StreamArrivals, codes: Ints) -> StreamArrivals:
        """Return the elements with sampled keys, with the marks of these as rows."""
        some, marks = self.keys.marks_of(codes)
        columns = (arrivals.start[some], arrivals.end[some], arrivals.number[some], marks)
        passes: Mask | None = None if arrivals.passes is None else arrivals.passes[some]
        return StreamArrivals({edge: keys[some] for edge, keys in arrivals.keys.items()}, *columns, passes)

    def results_by_group(
        self, join: SynopsisJoin, batch: Mapping[int, StreamArrivals], moment: Moment, constraints: Constraints
    ) -> list[int]:
        """Run a step of a small join; return the number of results of each group."""
        return self.keys.count_by_group(join.step(batch, moment, constraints).combinations.rows[0])

    @property
    def size(self) -> int:
        """Return the number of elements of all small joins."""
        return sum(size.yes + size.unknown + size.no for join in self.used.values() for size in join.sizes())

    def save(self) -> None:
        """Store the small joins in the sample, except the order of keys, which the join has."""
        self.sample.joins = self.used
        self.sample.parts = {
            f"{name}{part}": columns
            for name, join in self.used.items()
            for part, columns in join.to_columns().items()
            if not part.startswith("order.")
        }


def _marks_of_keys(key: Hashes) -> Ints:
    return (key % _MARKS).astype(np.int64)
