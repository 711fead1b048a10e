"""Changes that wait for the moment between two steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_SECONDS_BETWEEN_LOOKS = 0.5
"""Interval at which a statement that waits for the run looks whether the run has failed."""


class ChangeQueue:
    """Changes in the order in which threads have submitted them; the thread of the run applies them."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], object], Future[object]]] = deque()

    def submit(self, change: Callable[[], T], wake: Callable[[], None], check: Callable[[], None]) -> T:
        """Add a change, wake the run and wait for the change; `check` raises an error if the run has ended."""
        future: Future[object] = Future()
        self._waiting.append((change, future))
        wake()
        while True:
            with suppress(TimeoutError):
                return future.result(_SECONDS_BETWEEN_LOOKS)  # type: ignore[return-value]
            check()

    def apply(self, is_fatal: Callable[[], bool]) -> None:
        """Apply all changes; an error goes to the thread that waits for it and, if it is fatal, to the caller, too."""
        while self._waiting:
            change, future = self._waiting.popleft()
            try:
                future.set_result(change())
            except Exception as error:
                future.set_exception(error)
                if is_fatal():
                    raise

    def refuse(self, error: Exception) -> None:
        """Refuse all changes that wait."""
        while self._waiting:
            _, future = self._waiting.popleft()
            future.set_exception(error)
