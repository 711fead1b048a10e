"""Decorators that compile loops to machine code and keep their types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

Stamp = tuple[tuple[str, int, int], ...]
"""Path, time of change and size of files."""

_PHYSICAL = Path(__file__).parents[2]


def _stamp_of(files: Iterable[Path]) -> Stamp:
    return tuple((str(each), each.stat().st_mtime_ns, each.stat().st_size) for each in sorted(files))


_KERNELS_STAMP = _stamp_of(_PHYSICAL.glob("*/kernels/*.py"))


def hash_of(stamp: Stamp) -> str:
    """Return a short hash of a stamp, the same in every process."""
    return sha256(repr(stamp).encode()).hexdigest()[:16]


def compiled(function: Function) -> Function:
    """Compile at the first call, cache the result on disk, and release the GIL while it runs."""
    return _tie_cache_to_sources(njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """Compile into the callers: a call of its own would count references of all its arrays."""
    return _tie_cache_to_sources(njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function))


def _tie_cache_to_sources(machine_code: Any) -> Any:
    """Tie the cache on disk to the sources of all kernels, and to those next to the function.

    Numba checks only the source of the function itself, not of functions that are compiled into it, and would run old
    machine code after a change of those.
    """
    if hasattr(machine_code, "_cache"):  # not if compilation is disabled
        own = Path(machine_code.py_func.__code__.co_filename)
        more = () if own.is_relative_to(_PHYSICAL) else _stamp_of(own.parent.glob("*.py"))
        index = machine_code._cache._cache_file  # noqa: SLF001 - there is no public way
        index._source_stamp = _KERNELS_STAMP + more  # noqa: SLF001
        # Numba reads the rest of an index only if the version is the same. Without this, an index that names a class
        # that has gone since, as after an upgrade, would be an error rather than out of date.
        index._version = f"{numba.__version__} {hash_of(index._source_stamp)}"  # noqa: SLF001
    return machine_code
