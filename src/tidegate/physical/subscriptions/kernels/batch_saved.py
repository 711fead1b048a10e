"""What is written of a piece of the batch method, so that a step writes little.

What never changes is one part. What changes is written as of some moment, and after it only what has
changed since then: rows and their new aims here, elements in the log of the tracker. When that has
grown to a share of the whole, the whole is written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.journal import Journal, journal_from

LEFT = -1
"""The aim of a query that is complete or terminated."""

_CHANGES = ("row", "aim")


def _no_changes() -> Journal:
    return Journal(_CHANGES)


@dataclass(slots=True, eq=False)
class Saved:
    """Parts of a piece that are written, as far as they are true."""

    same: dict[str, Columns]
    """What never changes."""
    start: int
    """Where in the log the elements begin that are not in what is written."""
    totals: Columns | None = None
    aims: Columns | None = None
    """The aim of every query once upon a time, from when on there are changes."""
    changes: Journal = field(default_factory=_no_changes)

    def copy(self) -> Saved:
        return replace(self, changes=self.changes.copy())

    def note(self, rows: Ints, aims: Ints) -> None:
        """These rows have other aims; if most have, all are written again."""
        if self.aims is None or not len(rows):
            return
        self.changes.append(rows, aims)
        if 4 * len(self.changes) > len(self.aims["aim"]):
            self.aims = None

    def leave(self, rows: Ints) -> None:
        if self.aims is not None:
            self.note(rows, np.full(len(rows), LEFT))

    def to_columns(self) -> dict[str, Columns]:
        totals = {} if self.totals is None else {"totals": self.totals}
        aims = {} if self.aims is None else {"aims": self.aims}
        return {**self.same, **totals, **aims, **self.changes.to_columns("changes")}

    def begin(self, aims: Ints, gone: Mask) -> None:
        """Write all aims, from which changes begin."""
        self.aims, self.changes = {"aim": np.where(gone, LEFT, aims)}, _no_changes()


def saved_from(parts: Mapping[str, Columns], same: tuple[str, ...], start: int) -> tuple[Saved, Ints]:
    """What was written of a piece, and the aims of its queries."""
    changes = journal_from("changes", _CHANGES, parts)
    aims = np.array(parts["aims"]["aim"], np.int64)
    for chunk in changes.chunks:  # one after the other: the last change of a row is true
        aims[chunk.columns["row"]] = chunk.columns["aim"]
    kept = {name: parts[name] for name in same if name in parts}
    return Saved(kept, start, parts.get("totals"), parts["aims"], changes), aims
