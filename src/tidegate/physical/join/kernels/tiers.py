"""Runs of both sides of a join as chunks, few enough to search and rarely rewritten.

New elements become a run of their own. When there are many runs, the newest are merged, together with the next older
one as long as it is not much larger. So a row is rewritten a number of times that grows with the logarithm of the state
(O'Neil et al. 1996, log-structured merge trees).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.physical.join.kernels.runs import Run, merge_runs

DIRECTORY = "runs"
_DIRECTORY_SCHEMA = pa.schema(
    [
        ("side", pa.int8()),
        ("number", pa.int64()),
        ("longest", pa.int64()),
        ("last_end", pa.int64()),
        ("stale", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Tiers:
    """Rules for merging runs."""

    few: int = 6
    """Number of runs of a side up to which none are merged."""

    ratio: int = 2
    """Ratio of sizes up to which an older run is merged with newer ones."""

    most_rows: int = 1 << 22
    """Number of rows that a merged run may have at most; it bounds the time of one merge."""


TIERS = Tiers()


@dataclass(frozen=True, slots=True, eq=False)
class StoredRun:
    """Run and its number, which is unique on its side among the runs kept at one time."""

    number: int
    run: Run


Side = tuple[StoredRun, ...]
"""Runs of one side, oldest first."""


def load_runs(chunks: Mapping[str, pa.RecordBatch]) -> tuple[Side, Side]:
    """Return the runs of the left and the right side."""
    sides: tuple[list[StoredRun], list[StoredRun]] = ([], [])
    if DIRECTORY in chunks:
        for side, number, *figures in zip(*(c.to_pylist() for c in chunks[DIRECTORY].columns), strict=True):
            rows, groups = (chunks[name] for name in _chunk_names(side, number))
            sides[side].append(StoredRun(number, Run(rows, groups, *figures)))
    return tuple(sides[0]), tuple(sides[1])


def save_runs(left: Side, right: Side) -> dict[str, pa.RecordBatch]:
    """Return the chunks from which `load_runs` restores these runs."""
    chunks: dict[str, pa.RecordBatch] = {}
    entries = []
    for side, stored in ((0, left), (1, right)):
        for each in stored:
            run = each.run
            chunks |= zip(_chunk_names(side, each.number), (run.rows, run.groups), strict=True)
            entries.append((side, each.number, run.longest, run.last_end, run.stale))
    if entries:
        columns = [pa.array(c, t) for c, t in zip(zip(*entries, strict=True), _DIRECTORY_SCHEMA.types, strict=True)]
        chunks[DIRECTORY] = pa.RecordBatch.from_arrays(columns, schema=_DIRECTORY_SCHEMA)
    return chunks


def update_side(side: Side, new: Run | None, watermark: int, tiers: Tiers) -> Side:
    """Return the runs after new elements have arrived, without those that have expired at the watermark."""
    number = 1 + max((each.number for each in side), default=-1)
    arrived = [] if new is None else [StoredRun(number, new)]
    live = [each for each in (*side, *arrived) if each.run.last_end > watermark]
    newest = count_to_merge([len(each.run) for each in live], tiers)
    kept = _compact(live[: len(live) - newest], number + 1, watermark)
    if not newest:
        return tuple(kept)
    merged = merge_runs([each.run for each in live[-newest:]], watermark)
    return (*kept, *_stored_runs(number, merged))


def count_to_merge(sizes: Sequence[float], tiers: Tiers) -> int:
    """Return how many of the newest runs to merge."""
    if len(sizes) <= tiers.few:
        return 0
    count, rows = 1, sizes[-1]
    for size in reversed(sizes[:-1]):
        if rows + size > tiers.most_rows or (size > tiers.ratio * rows and count > 1):
            break
        count, rows = count + 1, rows + size
    return count if count > 1 else 0


def _compact(side: Iterable[StoredRun], number: int, watermark: int) -> list[StoredRun]:
    """Rewrite runs that have mostly expired; their other rows may stay valid for long."""
    kept: list[StoredRun] = []
    for each in side:
        if each.run.stale > watermark:
            kept.append(each)
        else:
            kept += _stored_runs(number + len(kept), merge_runs([each.run], watermark))
    return kept


def _stored_runs(number: int, run: Run | None) -> list[StoredRun]:
    return [] if run is None else [StoredRun(number, run)]


def _chunk_names(side: int, number: int) -> tuple[str, str]:
    stem = f"{('left', 'right')[side]}-{number}"
    return f"{stem}-rows", f"{stem}-groups"
