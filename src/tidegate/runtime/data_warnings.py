"""Facts about the files of a stream, and the warnings that follow from them; the same in every runtime."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from tidegate.connectors.decode import DecodedBatch
from tidegate.errors import TidegateWarning
from tidegate.expressions.parse.times import format_timestamps
from tidegate.schema import Type
from tidegate.time import MICROSECONDS

KEPT_FILES = 1000
"""Maximum number of files of a stream whose facts are kept."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts about the rows of one file that were read so far."""

    rows: int = 0
    late: int = 0
    late_from: int | None = None
    """The earliest time of a late row."""
    latest: int | None = None
    lacking: tuple[str, ...] = ()
    """Columns that no row has."""
    is_whole: bool = False
    """True if the file was read from its beginning."""

    @staticmethod
    def of(ingested: DecodedBatch) -> FileFacts:
        lacking = tuple(sorted(ingested.lacking)) if ingested.rows else ()
        return FileFacts(ingested.rows, ingested.late, ingested.late_from, ingested.latest, lacking, ingested.is_begin)

    def combine(self, more: FileFacts) -> FileFacts:
        """Merge with the facts about more rows of the same file."""
        if not self.rows or not more.rows:
            lacking = self.lacking or more.lacking
        else:
            lacking = tuple(c for c in self.lacking if c in more.lacking)
        return FileFacts(
            self.rows + more.rows,
            self.late + more.late,
            _least((self.late_from, more.late_from)),
            _greatest((self.latest, more.latest)),
            lacking,
            self.is_whole or more.is_whole,
        )

    @property
    def is_mostly_late(self) -> bool:
        return 2 * self.late > self.rows


FactsByFile = dict[str, dict[str, FileFacts]]
"""Facts by stream and file."""


def note_facts(found: FactsByFile, stream: str, ingested: DecodedBatch) -> None:
    """Add the facts about a raw batch."""
    if ingested.file is not None:
        files, facts = found.setdefault(stream, {}), FileFacts.of(ingested)
        files[ingested.file] = files[ingested.file].combine(facts) if ingested.file in files else facts


def merge_facts(founds: Iterable[FactsByFile]) -> FactsByFile:
    """Merge the facts of all tasks and threads of a step, which may have read parts of the same file."""
    merged: FactsByFile = {}
    for found in founds:
        for stream, files in found.items():
            known = merged.setdefault(stream, {})
            for name, facts in files.items():
                known[name] = known[name].combine(facts) if name in known else facts
    return merged


FactsReport = dict[str, dict[str, dict[str, Any]]]
"""Facts by stream and file as plain JSON."""


def to_report(found: FactsByFile) -> FactsReport:
    """Return the facts that the driver needs: of the file with the largest time, and of files with problems."""
    report: FactsReport = {}
    for stream, files in found.items():
        furthest = _furthest_file(files.items())
        report[stream] = {
            name: asdict(facts)
            for name, facts in files.items()
            if facts.late or facts.lacking or (furthest is not None and name == furthest[1])
        }
    return report


def from_report(report: FactsReport) -> FactsByFile:
    """Return the facts of a report."""
    return {
        stream: {name: FileFacts(**{**each, "lacking": tuple(each["lacking"])}) for name, each in files.items()}
        for stream, files in report.items()
    }


@dataclass(slots=True)
class FileWatch:
    """Facts about the files of all streams, and the files that have advanced the watermarks."""

    known: FactsByFile = field(default_factory=dict)
    leaders: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The largest time of each stream, and the file that has it."""
    _causes: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """The leader when rows of a file began to be late, by stream and file."""
    _pending: dict[tuple[str, str], None] = field(default_factory=dict)
    _warned: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, found: FactsByFile) -> None:
        """Add the facts of a step."""
        for stream, files in found.items():
            known = self.known.setdefault(stream, {})
            for name, facts in files.items():
                if facts.late and stream in self.leaders:
                    self._causes.setdefault((stream, name), self.leaders[stream])
                known[name] = known.pop(name).combine(facts) if name in known else facts
                self._pending[stream, name] = None
            furthest = _furthest_file(files.items())
            if furthest is not None and (stream not in self.leaders or furthest[0] > self.leaders[stream][0]):
                self.leaders[stream] = furthest
            for name in list(known)[:-KEPT_FILES]:
                del known[name]

    def warnings(self, stream: str | None = None, *, but: Iterable[str] = ()) -> Iterator[TidegateWarning]:
        """Yield warnings about the files of one stream or of all, except files in `but`, which are still being read."""
        reading = set(but)
        for whose, name in list(self._pending):
            if (stream is None or whose == stream) and name not in reading:
                del self._pending[whose, name]
                facts = self.known[whose].get(name, FileFacts())
                if facts.late:
                    yield from self._late_warnings(whose, name, facts)
                if facts.lacking:
                    yield from self._lacking_warnings(whose, name, facts)

    def _late_warnings(self, stream: str, name: str, facts: FileFacts) -> Iterator[TidegateWarning]:
        cause = self._causes.get((stream, name))
        if facts.is_mostly_late and cause is not None and facts.late_from is not None and self._is_new(stream):
            yield _late_warning(stream, name, facts, cause, facts.late_from)

    def _lacking_warnings(self, stream: str, name: str, facts: FileFacts) -> Iterator[TidegateWarning]:
        for column in facts.lacking if facts.is_whole else ():
            if self._is_new(stream, column):
                message = f"stream '{stream}': no row of {name} has the key '{column}', so the column is NULL there"
                yield TidegateWarning("W311", message, hint="check that the column is spelt as in the file")

    def _is_new(self, *what: str) -> bool:
        is_new = what not in self._warned
        self._warned.add(what)
        return is_new


def _late_warning(stream: str, name: str, facts: FileFacts, cause: tuple[int, str], late_from: int) -> TidegateWarning:
    time, leader = cause
    instant = format_timestamps(pa.array([time], pa.int64()).cast(Type.TIMESTAMP.arrow))[0].as_py()
    who = "earlier rows of the same file" if leader == name else leader
    message = (
        f"stream '{stream}': {facts.late:,} of {facts.rows:,} rows of {name} are late, "
        f"because {who} moved the watermark on: its times go up to {instant}"
    )
    hint = f"declare DELAY {_whole_duration(time - late_from)} or more, or sort the rows by time"
    hint += "" if leader == name else ", or declare a stream for each file and combine them with UNION ALL"
    return TidegateWarning("W310", message, hint=hint)


def _whole_duration(micros: int) -> str:
    """Format a duration for DELAY, rounded up to a whole unit.

    Examples
    --------
    >>> _whole_duration(90_000_001), _whole_duration(1)
    ('2 MINUTES', '1 MICROSECOND')
    """
    unit, size = next((u, s) for u, s in reversed(MICROSECONDS.items()) if micros >= s or s == 1)
    amount = math.ceil(micros / size)
    return f"{amount} {unit.upper()}" + ("" if amount == 1 else "S")


def _furthest_file(files: Iterable[tuple[str, FileFacts]]) -> tuple[int, str] | None:
    return max(((facts.latest, name) for name, facts in files if facts.latest is not None), default=None)


def _least(values: Iterable[int | None]) -> int | None:
    return min((v for v in values if v is not None), default=None)


def _greatest(values: Iterable[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)
