"""Warnings on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tidegate.errors import TidegateWarning


class Warnings:
    """Printer that shows each warning once, or raises the first as an error if `strict`."""

    def __init__(self, *, strict: bool = False, as_json: bool = False) -> None:
        self.strict, self.as_json = strict, as_json
        self.shown: set[TidegateWarning] = set()

    def show(self, found: Iterable[TidegateWarning]) -> None:
        for warning in found:
            if self.strict:
                raise warning.as_error()
            if warning not in self.shown:
                self.shown.add(warning)
                print(warning.as_json() if self.as_json else warning.render(), file=sys.stderr)
