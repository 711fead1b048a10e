"""List sources for the next step while a step runs, where listing takes long.

A listing should be recent: what appears after it waits for one step more. So a source that is listed in no time is
listed right before a step. Others are listed towards the end of the step before, as far as that can be foreseen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from tidegate.errors import DataError
from tidegate.runtime.spark.step_ranges import RangeQueue

SLOW = 0.01
"""Seconds of a listing above which it is made ahead."""

_MARGIN = 1.5
"""A listing starts this many times its duration before the expected end of a step."""


class ListingAhead:
    """Lists the sources of queues in a thread, while jobs run."""

    def __init__(self) -> None:
        self._job_seconds = 0.0

    @contextmanager
    def during_job(self, queues: Iterable[RangeQueue], *, growing: bool) -> Iterator[None]:
        """List what can be listed ahead while the job in the block runs; both have ended after it."""
        slow = [queue for queue in queues if queue.listing_seconds > SLOW]
        began, is_over = perf_counter(), threading.Event()
        thread = threading.Thread(target=self._list, args=(slow, is_over, growing), name="tidegate-listing")
        if slow:
            thread.start()
        try:
            yield
        finally:
            is_over.set()
            if slow:
                thread.join()
        self._job_seconds = perf_counter() - began

    def _list(self, queues: list[RangeQueue], is_over: threading.Event, growing: bool) -> None:  # noqa: FBT001
        needed = sum(queue.listing_seconds for queue in queues)
        if is_over.wait(max(0.0, self._job_seconds - _MARGIN * needed)):
            return
        for queue in queues:
            try:
                queue.list_ahead(growing=growing)
            except DataError:  # the listing before the next step raises it, if it is still so
                return
