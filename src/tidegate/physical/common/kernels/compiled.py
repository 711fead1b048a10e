"""Decorators that compile loops to machine code and keep their types.

Numba is imported, and the machine code of a function made or loaded, when the function is first called. So a program
that calls no kernel does not wait for Numba, and one that calls a few does not wait for the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

Stamp = tuple[tuple[str, int, int], ...]
"""Path, time of change and size of files."""

_PHYSICAL = str(Path(__file__).parents[2])


def compiled(function: Function) -> Function:
    """Compile at the first call, cache the result on disk, and release the GIL while it runs."""
    return cast("Function", Kernel(function))


def inlined(function: Function) -> Function:
    """Compile into the callers: a call of its own would count references of all its arrays."""
    return cast("Function", Kernel(function, forceinline=True))


class Kernel:
    """Function that becomes machine code at its first call, also if another kernel is the caller."""

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        update_wrapper(self, function)
        self.function, self.options = function, options
        # Noted now: these are the sources that are imported, whatever changes until the first call.
        self.stamp = _stamp_of_sources(os.path.dirname(function.__code__.co_filename))  # noqa: PTH120 - for every kernel
        self._machine_code: Any = None

    def __call__(self, *arguments: Any) -> Any:
        # Not a call of `machine_code`, for speed.
        code = self._machine_code
        return (self.machine_code if code is None else code)(*arguments)

    def __reduce__(self) -> str:
        return self.function.__qualname__  # pickled by its name, as a function is

    @property
    def machine_code(self) -> Any:
        """The dispatcher of Numba."""
        if self._machine_code is None:
            # Threads may come here at the same time: one of their dispatchers stays, and any would do. A lock could
            # wait for Numba's own, whose owner waits for this one.
            self._machine_code = _make_dispatcher(self)
        return self._machine_code

    @property
    def _numba_type_(self) -> Any:
        """The type by which Numba compiles a call from another kernel."""
        return self.machine_code._numba_type_


def _make_dispatcher(kernel: Kernel) -> Any:
    """Return Numba's dispatcher of a kernel, with a cache on disk."""
    from tidegate.physical.common.kernels import numba_dispatch

    return numba_dispatch.make_dispatcher(kernel.function, kernel.stamp, kernel.options)


@cache
def _stamp_of_sources(folder: str) -> Stamp:
    """Return the stamp of all kernels, and of the sources next to a kernel that is in another folder."""
    if folder.startswith(_PHYSICAL) and folder != _PHYSICAL:
        return stamp_of_kernels()
    return stamp_of_kernels() + _stamp_of_folder(folder)


@cache
def stamp_of_kernels() -> Stamp:
    """Return the stamp of the sources of all kernels."""
    folders = (os.path.join(each.path, "kernels") for each in os.scandir(_PHYSICAL) if each.is_dir())  # noqa: PTH118
    return tuple(sorted(file for each in folders if os.path.isdir(each) for file in _stamp_of_folder(each)))  # noqa: PTH112


def _stamp_of_folder(folder: str) -> Stamp:
    # Not with Path, which takes five times as long.
    sources = [each for each in os.scandir(folder) if each.name.endswith(".py")]
    return tuple(sorted((each.path, each.stat().st_mtime_ns, each.stat().st_size) for each in sources))
