"""Decorators of loops that run as machine code, with their types kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call, keep the result on disk, and let other threads run meanwhile."""
    machine_code: Function = njit(cache=True, nogil=True, error_model="numpy")(function)
    return machine_code


def inlined(function: Function) -> Function:
    """Compile into those who call it: a call of its own would count references of all its arrays."""
    machine_code: Function = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)(function)
    return machine_code
