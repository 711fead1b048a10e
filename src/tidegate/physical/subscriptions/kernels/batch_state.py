"""Convert the state of the batch method to named parts and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.physical.common.arrays import Columns
from tidegate.physical.common.kernels.journal import Journal, journal_from, reuse_if_equal
from tidegate.physical.subscriptions.kernels import batch_boxes, batch_cells
from tidegate.physical.subscriptions.kernels.batch_boxes import BoxPiece
from tidegate.physical.subscriptions.kernels.batch_cells import CellPiece
from tidegate.physical.subscriptions.kernels.batch_model import BatchSettings
from tidegate.physical.subscriptions.kernels.boxes import Boxes

Piece = CellPiece | BoxPiece

SMALL = ("tracker", "pieces", "fresh")
"""Parts that are compared with those saved last time."""


@dataclass(frozen=True, slots=True)
class BatchTrackerKind:
    """Parameters of a tracker."""

    dimensions: int
    keyed: bool
    repeats: bool

    @property
    def has_cells(self) -> bool:
        """Return whether ranges are intervals, possibly of a key; a key alone counts as an interval."""
        return self.dimensions == 1 or (self.dimensions == 2 and self.keyed)


def empty_log(dimensions: int) -> Journal:
    return Journal(_log_names(dimensions))


def _log_names(dimensions: int) -> tuple[str, ...]:
    return (*(f"place{axis}" for axis in range(dimensions)), "weight")


def forget_unused(log: Journal, pieces: Sequence[Piece]) -> None:
    """Drop elements that no piece needs."""
    log.drop(min((piece.start for piece in pieces if piece.start is not None), default=log.end))


def to_columns(
    kind: BatchTrackerKind,
    pushed: int,
    fresh: Boxes,
    pieces: Sequence[Piece],
    log: Journal,
    written: Mapping[str, Columns],
) -> tuple[dict[str, Columns], dict[str, Columns]]:
    """Return all parts, and the small ones among them."""
    large: dict[str, Columns] = {}
    for piece in pieces:
        large |= {f"piece {piece.number} {name}": columns for name, columns in piece.to_columns(log).items()}
    forget_unused(log, pieces)
    numbers = {"number": [piece.number for piece in pieces], "start": [piece.start or 0 for piece in pieces]}
    now = {
        "tracker": {
            "dimensions": np.array([kind.dimensions]),
            "keyed": np.array([kind.keyed]),
            "repeats": np.array([kind.repeats]),
            "pushed": np.array([pushed]),
            "seen": np.array([log.end]),
        },
        "pieces": {name: np.array(column, np.int64) for name, column in numbers.items()},
        "fresh": _columns_of(fresh),
    }
    small = {name: reuse_if_equal(written.get(name), columns) for name, columns in now.items()}
    return {**small, **large, **log.to_columns("log")}, small


def from_columns(
    parts: Mapping[str, Columns], settings: BatchSettings
) -> tuple[BatchTrackerKind, int, Boxes, list[Piece], Journal]:
    columns = parts["tracker"]
    kind = BatchTrackerKind(int(columns["dimensions"][0]), bool(columns["keyed"][0]), bool(columns["repeats"][0]))
    log = journal_from("log", _log_names(kind.dimensions), parts, int(columns["seen"][0]))
    pieces: list[Piece] = []
    for number, start in zip(parts["pieces"]["number"].tolist(), parts["pieces"]["start"].tolist(), strict=True):
        prefix = f"piece {number} "
        own = {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}
        if kind.has_cells:
            pieces.append(batch_cells.restore_piece(number, own, start, log, settings, repeats=kind.repeats))
        else:
            more = {"keyed": kind.keyed, "repeats": kind.repeats}
            pieces.append(batch_boxes.restore_piece(number, own, start, log, settings, **more))
    return kind, int(columns["pushed"][0]), _restore_boxes(parts["fresh"], kind.dimensions), pieces, log


def _columns_of(boxes: Boxes) -> Columns:
    ends = {f"low{axis}": row for axis, row in enumerate(boxes.low)}
    ends |= {f"high{axis}": row for axis, row in enumerate(boxes.high)}
    return {"id": boxes.id, "threshold": boxes.threshold, "missing": boxes.missing, **ends}


def _restore_boxes(columns: Columns, dimensions: int) -> Boxes:
    low, high = (np.stack([columns[f"{end}{axis}"] for axis in range(dimensions)]) for end in ("low", "high"))
    ids, threshold, missing = (np.array(columns[name], np.int64) for name in ("id", "threshold", "missing"))
    return Boxes(ids, low, high, threshold, missing)
