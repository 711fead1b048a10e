"""Packages that only some commands need."""

from __future__ import annotations

from importlib.util import find_spec

from tidegate.errors import DataError

_EXTRAS = {"serve": ("starlette", "uvicorn"), "shell": ("prompt_toolkit",)}


def require_extra(extra: str) -> None:
    """Raise an error that says what to install, unless the packages of an extra are there."""
    missing = [name for name in _EXTRAS[extra] if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        message = f"{' and '.join(missing)} {verb} not installed"
        raise DataError("D411", message, hint=f"pip install 'tidegate[{extra}]'")
