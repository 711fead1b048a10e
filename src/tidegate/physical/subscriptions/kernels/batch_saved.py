"""Saved parts of a piece of the batch method, arranged so that a step writes little.

Data that never changes is one part. Data that changes is saved as of some moment, followed by the changes since then:
rows and their new aims here, elements in the log of the tracker. When the changes have grown to a share of the whole,
the whole is saved again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.journal import Journal, journal_from

GONE_AIM = -1
"""Aim of a subscription that is complete or terminated."""

_CHANGES = ("row", "aim")


def _no_changes() -> Journal:
    return Journal(_CHANGES)


@dataclass(slots=True, eq=False)
class SavedParts:
    """Saved parts of a piece that are still valid."""

    constant: dict[str, Columns]
    """Parts that never change."""
    start: int
    """Position in the log of the first element that is not included in the saved parts."""
    totals: Columns | None = None
    aims: Columns | None = None
    """Aims of all subscriptions when they were last saved; `changes` has those changed since."""
    changes: Journal = field(default_factory=_no_changes)

    def copy(self) -> SavedParts:
        return replace(self, changes=self.changes.copy())

    def note_aims(self, rows: Ints, aims: Ints) -> None:
        """Record new aims of these rows; if there are many changes, let all aims be saved again."""
        if self.aims is None or not len(rows):
            return
        self.changes.append(rows, aims)
        if 4 * len(self.changes) > len(self.aims["aim"]):
            self.aims = None

    def mark_gone(self, rows: Ints) -> None:
        if self.aims is not None:
            self.note_aims(rows, np.full(len(rows), GONE_AIM))

    def to_columns(self) -> dict[str, Columns]:
        totals = {} if self.totals is None else {"totals": self.totals}
        aims = {} if self.aims is None else {"aims": self.aims}
        return {**self.constant, **totals, **aims, **self.changes.to_columns("changes")}

    def save_aims(self, aims: Ints, gone: Mask) -> None:
        """Save all aims; later changes refer to them."""
        self.aims, self.changes = {"aim": np.where(gone, GONE_AIM, aims)}, _no_changes()


def restore_saved_parts(parts: Mapping[str, Columns], same: tuple[str, ...], start: int) -> tuple[SavedParts, Ints]:
    """Return the saved parts of a piece, and the aims of its subscriptions."""
    changes = journal_from("changes", _CHANGES, parts)
    aims = np.array(parts["aims"]["aim"], np.int64)
    for chunk in changes.chunks:  # in order: the last change of a row is valid
        aims[chunk.columns["row"]] = chunk.columns["aim"]
    kept = {name: parts[name] for name in same if name in parts}
    return SavedParts(kept, start, parts.get("totals"), parts["aims"], changes), aims
