"""Omitted readings by stream: how many elements alerts got of each of their streams, and how many they dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from tidegate.physical.common.operator import OmitsElements
from tidegate.runtime.figures import OperatorFigures, OperatorPlace, add_counts, figures_of_operators
from tidegate.runtime.graph_parts import users_of_operators, users_of_outlets
from tidegate.runtime.stage import FromStream, Node, Port, Stage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.values import value

OMISSION_COLUMNS = pa.schema(
    {
        "query": pa.string(),
        "stream": pa.string(),
        "alias": pa.string(),
        "rows": pa.int64(),
        "omitted": pa.int64(),
        "share": pa.float64(),
    }
)


@value
class Omission:
    """What alerts omitted of a stream under an alias; `query` is None if several queries share it."""

    query: str | None
    stream: str
    alias: str
    rows: int
    omitted: int

    @property
    def share(self) -> float | None:
        return self.omitted / self.rows if self.rows else None

    @property
    def row(self) -> dict[str, Any]:
        """The omission as a row of `OMISSION_COLUMNS`."""
        return {name: getattr(self, name) for name in OMISSION_COLUMNS.names}

    def describe(self) -> str:
        """Describe the omission.

        Examples
        --------
        >>> Omission(None, "humidity", "h", 600_000, 598_796).describe()
        'humidity h: 598,796 of 600,000 omitted (99.8 %)'
        """
        name = self.stream if self.alias in ("", self.stream) else f"{self.stream} {self.alias}"
        share = "" if self.share is None else f" ({100 * self.share:.1f} %)"
        return f"{name}: {self.omitted:,} of {self.rows:,} omitted{share}"


def omissions_of(graph: StageGraph, figures: Mapping[OperatorPlace, OperatorFigures]) -> list[Omission]:
    """Return what alerts omitted, in the order of streams as alerts read them."""
    counts: dict[tuple[str | None, str, str], tuple[int, ...]] = {}
    by_operator, none = figures_of_operators(figures), OperatorFigures()
    known = graph.memo.get("omitting")
    if known is None:
        known = graph.memo["omitting"] = tuple(_omitting_operators(graph))
    for stage, number, owner in known:
        node = stage.nodes[number]
        operator, own = node.operator, by_operator.get((stage.number, number), none)
        assert isinstance(operator, OmitsElements)
        omitted = add_counts(own.omitted_of_inputs, (0,) * len(node.inputs))
        for alias, below, count in zip(operator.aliases, node.inputs, omitted, strict=True):
            key = owner, ", ".join(sorted(_streams_below(graph, stage, below))), alias
            # The first operator that omits sees all elements of the stream; what follows it sees those that are left.
            rows = own.rows_in if operator.is_first else 0
            counts[key] = add_counts(counts.get(key, (0, 0)), (rows, count))
    found = (Omission(*key, rows, count) for key, (rows, count) in counts.items())
    return [each for each in found if each.rows or each.omitted]


def _omitting_operators(graph: StageGraph) -> Iterator[tuple[Stage, int, str | None]]:
    """Yield the operators that omit elements, with the query that alone uses them."""
    users = users_of_outlets(graph)
    for stage in sorted(graph.stages, key=lambda each: (each.level, each.number)):
        used_by = users_of_operators(stage, users[stage.number])
        for number, node in enumerate(stage.nodes):
            if isinstance(node.operator, OmitsElements):
                yield stage, number, next(iter(used_by[number])) if len(used_by[number]) == 1 else None


def _streams_below(graph: StageGraph, stage: Stage, node: Node | Port) -> frozenset[str]:
    """Return the source streams that an operator or a port reads."""
    if isinstance(node, Node):
        return frozenset().union(*(_streams_below(graph, stage, each) for each in node.inputs))
    feed = stage.feeds[node.index]
    if isinstance(feed, FromStream):
        return frozenset([feed.stream])
    sender = graph.by_number[feed.stage]
    return _streams_below(graph, sender, sender.outlets[feed.outlet].root)
