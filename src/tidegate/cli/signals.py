"""Ctrl-C and SIGTERM: the first one stops a run after its step, the second one at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

HANDLED = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Handlers of both signals within a `with` block.

    Handlers only take notes: an exception that arrives in the middle of a call to Spark would
    break its connection. Until `running` is set there is nothing to finish, and the first signal
    ends the process.
    """

    def __init__(self, before_the_end: Callable[[], None]) -> None:
        self._before_the_end = before_the_end
        self.received: signal.Signals | None = None
        self.running = False
        """Whether there is a step that can be finished."""

    @property
    def exit_code(self) -> int:
        """The exit code of a run that was stopped: as if SIGTERM had ended it, but 0 after Ctrl-C."""
        return 128 + signal.SIGTERM if self.received is signal.SIGTERM else 0

    def __enter__(self) -> Self:
        self._before = {each: signal.signal(each, self._receive) for each in HANDLED}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        is_first, self.received = self.received is None, signal.Signals(number)
        if is_first and self.running:
            return
        # A terminal whose last line was kept up to date has no cursor.
        os.write(2, b"\x1b[?25h\r\x1b[Kstopped\n" if sys.stderr.isatty() else b"stopped\n")
        self._before_the_end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
