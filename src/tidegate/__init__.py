"""Continuous SQL queries over data streams, exact at every instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import DataError, QueryError, TidegateError

if TYPE_CHECKING:
    from tidegate.session import RunningQuery, Session

__all__ = ["DataError", "QueryError", "RunningQuery", "Session", "TidegateError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # The session draws in everything else; whoever needs one layer only should not pay for that.
    if name in ("RunningQuery", "Session"):
        from tidegate import session

        return getattr(session, name)
    raise AttributeError(f"module 'tidegate' has no attribute '{name}'")
