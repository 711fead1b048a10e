"""Run independent pieces of work in threads; kernels and Arrow release the GIL while they work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


FEWEST_ROWS = 10_000
"""Work over fewer rows is done sooner in one thread than in several, which wait for each other."""


def map_in_threads(function: Callable[[T], R], items: Sequence[T], *, rows: int) -> list[R]:
    """Return the results of a function, in the order of the items, which have `rows` rows in all.

    The first error, in that order, is raised.
    """
    if len(items) < 2 or rows < FEWEST_ROWS or core_count() < 2:
        return [function(item) for item in items]
    return list(_threads().map(function, items))


@cache
def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(core_count(), thread_name_prefix="tidegate-work")
