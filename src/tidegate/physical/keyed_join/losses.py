"""What constraints that do not hold make a join miss, counted for a sample of keys.

Beside the join there is a small one, of a share of the keys, that forgets nothing. If all streams have a common key,
all of a result have the same one: *results* of the sampled keys that the small join finds and the join does not are
missing. Else there are two small joins for each edge alone, of the sampled keys of that edge, of which the second
forgets what the join forgets, and *pairs* of parent and child are compared: every missing result has a missing pair,
and where one stream leads directly to all others, a pair is part of at most one result; there, not more results are
missing than pairs. In other graphs a pair may be part of any number of results.

A key is sampled by a hash of its code; sampled keys are counted in `GROUPS` groups by the same hash. The groups of
all steps and buckets are added up, so the estimate depends neither on cuts nor on buckets. With share p, and m
missing in the sample,

    estimate = m / p                                      its mean is what is missing, whatever is missing
    spread   = (1 - p) * G / (G - 1) * sum over G groups of (m of the group - m / G)²
    d        = max(spread / m, the same of what was found without constraints, 1 - p)
    n        = m / d
    low      = n * (1 - 1 / (9 n) - z / (3 √n))³ * d / p                 z = 1.96
    high     = (n + 1) * (1 - 1 / (9 (n + 1)) + z / (3 √(n + 1)))³ * d / p

Results of one key are missing together, so it is keys that are sampled, not results: d says how many results are
like one, and n how many there are of those, which are rare and thus Poisson. The interval is Byar's for n. If nothing
is missing in the sample, the estimate is 0 and high is 3.7 d / p. It holds in about 95 of 100 runs; with a share
of 1 all three are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.hashing import Hashes, hash_columns
from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Arrivals, Constraints, Moment
from tidegate.physical.keyed_join.kernels.monitor import Limits, chosen_keys
from tidegate.physical.keyed_join.monitor import NO_PARTS, Parts

GROUPS = 32
"""Sampled keys are counted in so many groups: enough to see how they differ, few enough to report each step."""

Lost = tuple[list[int], list[int]]
"""For each group, what was found without constraints, and what of it is missing."""

_NONE: Lost = ([0] * GROUPS, [0] * GROUPS)

_PAIR = Graph(("parent", "child"), (Edge(0, 1),))
"""An edge as a graph of its own."""

_Z = 1.96
"""Of a normal distribution, 95 % are not farther from the middle than so many deviations."""


@dataclass(slots=True, eq=False)
class Sample:
    """The small joins between two steps as parts of state, and as they are, if they have been made from these."""

    parts: Parts = field(default_factory=lambda: NO_PARTS)
    joins: dict[str, SynopsisJoin] = field(default_factory=dict)


class Common(NamedTuple):
    """Codes of the key that all streams have in common: of new elements by stream, and of the step's results."""

    new: Mapping[int, Ints]
    results: Ints


def observe(
    sample: Sample,
    join: SynopsisJoin,
    batch: Mapping[int, Arrivals],
    moment: Moment,
    constraints: Constraints,
    common: Common | None,
    edges: Iterable[int],
    share: float,
) -> Facts:
    """Let the small joins take the step that the join has taken; what is reported.

    `edges` are those on which constraints are, or may be, made use of. With a common key it is reported, too, how
    many elements of each stream would be waiting if nothing was forgotten.
    """
    if share <= 0:
        # Nothing is counted, but results may be missing all the same: who reads the report must know that.
        return {"lost": {"results": _NONE} if common is not None else {"pairs": {str(edge): _NONE for edge in edges}}}
    small = _Small(sample)
    if common is not None:
        some = {stream: _sampled(arrivals, common.new[stream], share) for stream, arrivals in batch.items()}
        everything = small.join("all.", join.graph, same=_same(join))
        found = _by_group(everything, some, moment, Constraints(keeps_no=constraints.keeps_no))
        told: Facts = {
            "lost": {"results": _missing(found, _sampled_groups(common.results, share))},
            "waiting": [size.unknown / share for size in everything.sizes()],
        }
    else:
        told = {"lost": {"pairs": {str(e): _pairs(small, join, e, batch, moment, constraints, share) for e in edges}}}
    small.save()
    return told


def added(before: Facts, reports: Iterable[Facts]) -> Facts:
    """What has been counted so far, with what is reported of one step."""
    total = {kind: dict(counts) for kind, counts in _kinds(before).items()}
    for report in reports:
        for kind, counts in _kinds(report.get("lost", {})).items():
            own = total.setdefault(kind, {})
            for name, (found, missing) in counts.items():
                so_far = own.get(name, _NONE)
                own[name] = (_sum(so_far[0], found), _sum(so_far[1], missing))
    return {kind: counts[""] if kind == "results" else counts for kind, counts in total.items()}


def estimated(counted: Facts, share: float) -> Facts:
    """What is missing in all, estimated from what was counted in the sample; nothing where nothing can be missing.

    Without a sample the estimate is None, and so is the upper bound: they are not known.
    """
    for kind, counts in _kinds(counted).items():
        if share <= 0:
            return {"of": kind, "estimate": None, "low": 0.0, "high": None, "share": share}
        found = _all_of(each[0] for each in counts.values())
        missing = _all_of(each[1] for each in counts.values())
        low, middle, high = interval(found, missing, share)
        return {"of": kind, "estimate": middle, "low": low, "high": high, "share": share, "found": sum(found) / share}
    return {}


def interval(found: Sequence[int], missing: Sequence[int], share: float) -> tuple[float, float, float]:
    """Low, estimate and high of what is missing in all, from groups of the sample.

    Examples
    --------
    >>> [round(each) for each in interval([5] * 32, [0] * 32, 0.1)]
    [0, 0, 33]
    >>> interval([5] * 32, [1] * 32, 1.0)
    (32.0, 32.0, 32.0)
    """
    lost = max(sum(missing), 0)
    if share >= 1:
        return float(lost), float(lost), float(lost)
    alike = (1 - share) * max(_alike(missing), _alike(found), 1.0)
    several = lost / alike
    low = several * max(1 - 1 / (9 * several) - _Z / (3 * sqrt(several)), 0.0) ** 3 if lost else 0.0
    high = (several + 1) * (1 - 1 / (9 * (several + 1)) + _Z / (3 * sqrt(several + 1))) ** 3
    return low * alike / share, lost / share, high * alike / share


def _alike(counts: Sequence[int]) -> float:
    """How many of those that are counted come together, by how much groups differ."""
    total = sum(counts)
    middle = total / GROUPS
    spread = sum((each - middle) ** 2 for each in counts) * GROUPS / (GROUPS - 1)
    return spread / total if total > 0 else 0.0


@dataclass(slots=True, eq=False)
class _Small:
    """The small joins of a step, by how the names of their parts begin."""

    sample: Sample
    used: dict[str, SynopsisJoin] = field(default_factory=dict)

    def join(
        self,
        name: str,
        graph: Graph,
        watched: frozenset[int] = frozenset(),
        same: Sequence[Mapping[int, int]] | None = None,
    ) -> SynopsisJoin:
        """A small join as it was after the last step."""
        known = self.sample.joins.get(name)
        if known is None:
            own = {n.removeprefix(name): part for n, part in self.sample.parts.items() if n.startswith(name)}
            its: dict[str, Any] = {"exact": False, "watched": watched, "same": same}
            known = SynopsisJoin.from_columns(own, graph, **its) if own else SynopsisJoin.empty(graph, **its)
        self.used[name] = known
        return known

    def save(self) -> None:
        """Let the sample have the small joins as they are now, but for the order of keys, which the join knows."""
        self.sample.joins = self.used
        self.sample.parts = {
            f"{name}{part}": columns
            for name, join in self.used.items()
            for part, columns in join.to_columns().items()
            if not part.startswith("order.")
        }


def _same(join: SynopsisJoin) -> list[dict[int, int]]:
    """For each stream, which edges have the same key, as the join has it."""
    return [
        {int(name.removeprefix("key")): int(kept.removeprefix("key")) for name, kept in table.layout.same.items()}
        for table in join.tables
    ]


def _pairs(
    small: _Small,
    join: SynopsisJoin,
    edge: int,
    batch: Mapping[int, Arrivals],
    moment: Moment,
    constraints: Constraints,
    share: float,
) -> Lost:
    """The pairs of an edge."""
    some, now = _pair_batch(join.graph, edge, batch, moment, share)
    everything = small.join(f"edge{edge}.kept.", _PAIR)
    forgetful = small.join(f"edge{edge}.lean.", _PAIR, frozenset({0}) if edge in join.watched else frozenset())
    # The order of all keys, not only of those in the sample.
    forgetful.orders = {
        f"{side}0": join.orders[f"{side}{edge}"] for side in Edge._fields if f"{side}{edge}" in join.orders
    }
    found = _by_group(everything, some, now, Constraints())
    return _missing(found, _by_group(forgetful, some, now, _of_edge(edge, constraints)))


def _missing(found: Sequence[int], less: Sequence[int]) -> Lost:
    """For each group, what is found without constraints, and what of it is not found with them."""
    return list(found), [all_ - some for all_, some in zip(found, less, strict=True)]


def _by_group(join: SynopsisJoin, batch: Mapping[int, Arrivals], moment: Moment, constraints: Constraints) -> list[int]:
    """How many results each group has; the row of an element is its group."""
    answer = join.step(batch, moment, constraints)
    return _counts(answer.combinations.rows[0])


def _of_edge(edge: int, constraints: Constraints) -> Constraints:
    """The constraints of an edge, for a graph that has no other."""

    def own(bounds: Mapping[int, Any]) -> dict[int, Any]:
        return {0: bounds[edge]} if edge in bounds else {}

    return Constraints(
        own(constraints.arriving),
        own(constraints.clustered),
        own(constraints.ordered_parents),
        own(constraints.ordered_children),
    )


def _pair_batch(
    graph: Graph, edge: int, batch: Mapping[int, Arrivals], moment: Moment, share: float
) -> tuple[dict[int, Arrivals], Moment]:
    """The sampled elements of the two streams of an edge, and the moment of these two."""
    streams = graph.edges[edge]
    some = {}
    for place, stream in enumerate(streams):
        if stream in batch:
            own = replace(batch[stream], keys={0: batch[stream].keys[edge]})
            some[place] = _sampled(own, own.keys[0], share)
    whole = ((each.name, getattr(moment, each.name)) for each in fields(moment))
    of_two: dict[str, Any] = {name: v if v is None else [v[stream] for stream in streams] for name, v in whole}
    return some, Moment(**of_two)


def _sampled(arrivals: Arrivals, codes: Ints, share: float) -> Arrivals:
    """The elements with sampled keys, with their groups as rows."""
    key = hash_columns([pa.array(codes)])
    some = np.flatnonzero(chosen_keys(key, Limits(share=share)))
    columns = (arrivals.start[some], arrivals.end[some], arrivals.number[some], _groups(key[some]))
    passes: Mask | None = None if arrivals.passes is None else arrivals.passes[some]
    return Arrivals({edge: keys[some] for edge, keys in arrivals.keys.items()}, *columns, passes)


def _sampled_groups(codes: Ints, share: float) -> list[int]:
    """How many of some results have sampled keys, for each group."""
    key = hash_columns([pa.array(codes)])
    return _counts(_groups(key[chosen_keys(key, Limits(share=share))]))


def _groups(key: Hashes) -> Ints:
    return (key % np.uint64(GROUPS)).astype(np.int64)


def _counts(groups: Ints) -> list[int]:
    return [int(n) for n in np.bincount(groups, minlength=GROUPS)]


def _kinds(counted: Facts) -> dict[str, dict[str, Any]]:
    """Counts by name, of results or of pairs."""
    return {kind: {"": counts} if kind == "results" else counts for kind, counts in counted.items()}


def _all_of(several: Iterable[Sequence[int]]) -> list[int]:
    return [sum(group) for group in zip(*several, strict=True)]


def _sum(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
