"""Continuous SQL queries over data streams, exact at every instant."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tidegate.errors import DataError, QueryError, TidegateError, TidegateWarning

if TYPE_CHECKING:
    from tidegate.client.session import RemoteQuery, RemoteSession, connect
    from tidegate.runtime.job import QueryState
    from tidegate.runtime.running_query import RunningQuery
    from tidegate.session import Session

__all__ = [
    "DataError",
    "QueryError",
    "QueryState",
    "RemoteQuery",
    "RemoteSession",
    "RunningQuery",
    "Session",
    "TidegateError",
    "TidegateWarning",
    "connect",
]
__version__ = "0.1.0"

# Imported on first use: they need every layer, and a program may want only one.
_LAZY = {
    "RemoteQuery": "tidegate.client.session",
    "RemoteSession": "tidegate.client.session",
    "connect": "tidegate.client.session",
    "QueryState": "tidegate.runtime.job",
    "RunningQuery": "tidegate.runtime.running_query",
    "Session": "tidegate.session",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
