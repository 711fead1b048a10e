"""The graph of all stages of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.expressions.nodes import Expression
from tidegate.runtime.stage import FromStage, FromStream, Stage


@dataclass(frozen=True)  # no slots: what follows from a graph is computed once and cached
class StageGraph:
    """All stages of a program, with the columns and rows that they need from each source stream."""

    stages: tuple[Stage, ...]
    declared: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Columns of streams of which more columns are decoded than the stages read, by stream.

    In a live graph these are all columns: which rows are bad must not depend on what else runs.
    """
    memo: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What readers of the graph computed of it and need again; it can always be computed again."""

    @cached_property
    def by_number(self) -> Mapping[int, Stage]:
        """The stages by number. In a live graph, numbers have gaps."""
        return {stage.number: stage for stage in self.stages}

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.by_number)

    def stages_at(self, level: int) -> tuple[Stage, ...]:
        return tuple(s for s in self.stages if s.level == level)

    def parts(self, levels: range) -> tuple[tuple[Stage, ...], ...]:
        """Group the stages of some levels into parts that feed each other, each in running order."""
        part_of: dict[int, list[Stage]] = {}
        for stage in (s for level in levels for s in self.stages_at(level)):
            below = (part_of.get(f.stage) for f in stage.feeds if isinstance(f, FromStage))
            merged = sorted({s.number: s for part in below if part for s in part}.values(), key=_running_order)
            merged.append(stage)
            part_of |= dict.fromkeys((s.number for s in merged), merged)
        return tuple({id(part): tuple(part) for part in part_of.values()}.values())

    @cached_property
    def levels(self) -> int:
        return 1 + max((s.level for s in self.stages), default=0)

    @cached_property
    def readers(self) -> Mapping[str, tuple[Stage, ...]]:
        """Stages that read a source stream, by stream, in the order of first use."""
        found: dict[str, tuple[Stage, ...]] = {}
        for stage in self.stages:
            for stream in dict.fromkeys(feed.stream for feed in stage.feeds if isinstance(feed, FromStream)):
                found[stream] = (*found.get(stream, ()), stage)
        return found

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Source streams in the order of first use."""
        return tuple(self.readers)

    @cached_property
    def stream_readers(self) -> tuple[tuple[str, Stage], ...]:
        """Stages that pass on elements of a source stream to other stages, each with its stream."""
        first = ((stage, stage.feeds[0]) for stage in self.stages if stage.level == 0 and stage.addresses)
        return tuple((feed.stream, stage) for stage, feed in first if isinstance(feed, FromStream))

    def row_conditions(self, stream: str) -> tuple[Expression, ...]:
        """Return for each reader of a stream the condition on the rows that it needs."""
        return tuple(f.wanted for s in self.readers[stream] for f in s.feeds if isinstance(f, FromStream))

    def columns(self, stream: str) -> frozenset[str]:
        """Return the columns of a stream that any stage reads, or that are decoded anyway."""
        return self.declared.get(stream) or self._columns[stream]

    @cached_property
    def _columns(self) -> Mapping[str, frozenset[str]]:
        return {
            stream: frozenset(name for stage in stages for name in stage.port_schemas[0].names)
            for stream, stages in self.readers.items()
        }


def _running_order(stage: Stage) -> tuple[int, int]:
    return stage.level, stage.number
