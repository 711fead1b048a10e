"""Machine code by Numba: compiled once, then loaded from a cache on disk. To import this module is to import Numba."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from typing import Any

import numba
from numba import types
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from tidegate.physical.common.kernels.compilations import COMPILATIONS

Stamp = tuple[tuple[str, int, int], ...]
"""Path, time of change and size of files."""


def make_dispatcher(function: Callable[..., Any], stamp: Stamp, options: Mapping[str, bool]) -> Any:
    """Return the dispatcher of a function; its cache on disk is valid for the files in the stamp."""
    dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if hasattr(dispatcher, "_cache"):  # not if compilation is disabled
        dispatcher._cache = _KernelCache(function, stamp)  # noqa: SLF001 - there is no public way
        dispatcher.get_call_template = partial(_find_call, dispatcher.get_call_template)
    return dispatcher


def _find_call(find: Callable[[Any, Any], Any], arguments: Sequence[Any], names: Mapping[str, Any]) -> Any:
    """Find the machine code for a call from another kernel.

    Numba gives a constant a type of its own, and would compile a kernel again for each constant that it is called with.
    """
    return find(tuple(types.unliteral(each) for each in arguments), names)


class _KernelCache(FunctionCache):  # type: ignore[misc]  # Numba is untyped
    """Cache that is tied to the sources of all kernels, and that does not prepare Numba to compile.

    Numba itself checks only the source of the function, not of functions that are compiled into it, and would run old
    machine code after a change of those. And before it looks into the cache, it imports and installs all that a
    compilation may need. That takes longer than to load the machine code, which needs only the memory management.
    """

    def __init__(self, function: Callable[..., Any], stamp: Stamp) -> None:
        super().__init__(function)
        index = self._cache_file
        index._source_stamp = stamp  # noqa: SLF001 - there is no public way
        # Numba reads the rest of an index only if the version is the same. Without this, an index that names a class
        # that has gone since, as after an upgrade, would be an error rather than out of date.
        index._version = f"{numba.__version__} {_hash_of(stamp)}"  # noqa: SLF001

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


@cache
def _hash_of(stamp: Stamp) -> str:
    """Return a short hash of a stamp, the same in every process."""
    return sha256(repr(stamp).encode()).hexdigest()[:16]


class _Compilations(event.Listener):  # type: ignore[misc]
    def on_start(self, event: Any) -> None:
        COMPILATIONS.append(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        COMPILATIONS.pop()


event.register("numba:compile", _Compilations())
