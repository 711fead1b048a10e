"""Keep freed memory in the process.

Steps of a run need about the same amount of memory, one after the other. By default the C library returns large blocks
to the system, which has to clear every page again for the next step: up to a third of the time of a short run.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache

KEPT = 256 << 20
"""Bytes at the end of the heap that are not returned."""

LARGEST_BLOCK = 32 << 20
"""Only blocks of more bytes are returned one by one; the C library accepts no larger limit."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of the parameters of `mallopt`."""

_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Environment variables by which users decide the same."""


@cache
def keep_freed_memory() -> bool:
    """Keep freed memory from now on; return whether the C library does, and users did not decide otherwise."""
    if any(name in os.environ for name in _SETTINGS):
        return False
    with suppress(OSError, AttributeError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        return bool(set_option(_MMAP_THRESHOLD, LARGEST_BLOCK) and set_option(_TRIM_THRESHOLD, KEPT))
    return False
