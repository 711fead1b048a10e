"""Keep the positions in sources so that a record grows with what has changed, not with all files ever read.

A record has the positions of the parts that changed of late. Those of all other parts are in *position files*,
which are written once. Each has more than twice as many parts as the next one, so there are few, and a part is written
again only when a file of about the same size joins its own. A record names its position files; of the positions of one
part, the newest counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from tidegate.connectors.ranges import PartProgress, SourcePosition
from tidegate.values import value

MOST_RECENT = 100
"""Number of parts whose positions are in the record itself; beyond it, they become a file."""

Positions = Mapping[str, SourcePosition]
"""Positions by stream."""

PartName = tuple[str, str]
"""Stream and part."""


@value
class PositionFile:
    """A file of positions, and the parts whose positions it has."""

    name: str
    parts: frozenset[PartName]


@value
class PositionLog:
    """Where the positions after a step are written: in files, the oldest first, and those of recent parts."""

    positions: Positions = field(default_factory=dict)
    files: tuple[PositionFile, ...] = ()
    recent: frozenset[PartName] = frozenset()

    def after(self, positions: Positions, name: str) -> PositionLog:
        """Return the log after another step; it may have a new file, with the given name."""
        changed = changed_parts(self.positions, positions)
        if changed is None:  # a file cannot say that a part is gone
            return PositionLog().after(positions, name)
        recent = self.recent | changed
        if len(recent) <= MOST_RECENT:
            return PositionLog(positions, self.files, recent)
        kept = list(self.files)
        while kept and len(kept[-1].parts) <= 2 * len(recent):
            recent |= kept.pop().parts
        return PositionLog(positions, (*kept, PositionFile(name, recent)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(each.name for each in self.files)


def changed_parts(before: Positions, after: Positions) -> frozenset[PartName] | None:
    """Return the parts whose positions have changed; None if a part is gone."""
    changed: list[PartName] = []
    for stream, position in before.items():
        if position.parts and (stream not in after or not position.parts.keys() <= after[stream].parts.keys()):
            return None
    for stream, position in after.items():
        known = before[stream].parts if stream in before else {}
        changed += [(stream, part) for part, each in position.parts.items() if not _is_same(known.get(part), each)]
    return frozenset(changed)


def _is_same(one: PartProgress | None, other: PartProgress) -> bool:
    # Most positions are the same objects as before.
    return one is other or one == other


def select_parts(positions: Positions, parts: Collection[PartName]) -> dict[str, SourcePosition]:
    """Return the positions of some parts; all streams are there, maybe without parts."""
    found: dict[str, dict[str, PartProgress]] = {stream: {} for stream in positions}
    for stream, part in sorted(parts):
        found[stream][part] = positions[stream].parts[part]
    return {stream: SourcePosition(some) for stream, some in found.items()}


def parts_of(positions: Positions) -> frozenset[PartName]:
    """Return all parts of some positions."""
    return frozenset((stream, part) for stream, position in positions.items() for part in position.parts)


def merge_positions(streams: Iterable[str], written: Iterable[Positions]) -> dict[str, SourcePosition]:
    """Return the positions in some streams, written one after the other: of each part, the last one counts."""
    found: dict[str, dict[str, PartProgress]] = {stream: {} for stream in streams}
    for positions in written:
        for stream in positions.keys() & found.keys():
            found[stream] |= positions[stream].parts
    return {stream: SourcePosition(parts) for stream, parts in found.items()}
