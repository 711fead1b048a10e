"""Decorators of loops that run as machine code, with their types kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

_SOURCES = [(p.name, p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(Path(__file__).parent.rglob("*.py"))]


def compiled(function: Function) -> Function:
    """Compile at the first call, keep the result on disk, and let other threads run meanwhile."""
    return _kept(njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """Compile into those who call it: a call of its own would count references of all its arrays."""
    return _kept(njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function))


def _kept(machine_code: Any) -> Any:
    """Let what is kept on disk be valid as long as no kernel's source changes.

    Numba looks at the source of the function alone, not of those that are compiled into it, and would
    run old machine code after a change of those.
    """
    if hasattr(machine_code, "_cache"):  # not where compilation is switched off
        machine_code._cache._cache_file._source_stamp = _SOURCES  # noqa: SLF001 - there is no public way
    return machine_code
