"""Ctrl-C and SIGTERM: the first signal stops a run after the current step, the second at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

HANDLED = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Context manager that handles both signals.

    The first signal is only recorded while `running` is set: an exception in the middle of a call to
    Spark would break its connection. Before that there is no step to finish, and the first signal ends
    the process.
    """

    def __init__(self, before_the_end: Callable[[], None]) -> None:
        self._before_the_end = before_the_end
        self.received: signal.Signals | None = None
        self.running = False
        """True if queries run, so that the first signal lets the current step finish."""

    @property
    def exit_code(self) -> int:
        """Exit code of a stopped run: that of a process ended by SIGTERM, or 0 after Ctrl-C."""
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
        # The progress line hides the cursor of a terminal: show it again.
        os.write(2, b"\x1b[?25h\r\x1b[Kstopped\n" if sys.stderr.isatty() else b"stopped\n")
        self._before_the_end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
