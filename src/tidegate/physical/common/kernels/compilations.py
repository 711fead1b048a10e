"""The compilations that are running now, for messages to those who wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

COMPILATIONS: list[Callable[..., Any]] = []
"""Functions that are being compiled, each of which waits for the next."""


def is_compiling() -> bool:
    """Return whether machine code is being made, rather than loaded from the cache on disk."""
    return bool(COMPILATIONS)
