"""SET memory_limit and cpu_limit: limits on the resources of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidegate.catalog.limits import ResourceLimits
from tidegate.errors import QueryError
from tidegate.language.bind.names import is_same_name
from tidegate.language.syntax import Name

_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_LEAST_MEMORY = 1_000


def with_limit(limits: ResourceLimits, name: Name, value: Name) -> ResourceLimits:
    """Return the limits after a SET of one of the `LIMITS`."""
    field, read, wanted = LIMITS[name.text.lower()]
    try:
        return replace(limits, **{field: None if is_same_name(value.text, "none") else read(value.text)})
    except (KeyError, ValueError, QueryError):
        message = f"{name.text} cannot be '{value.text}'"
        raise QueryError("Q125", message, value.span, hint=f"write {wanted}, or none") from None


def _parse_bytes(text: str) -> int:
    """Return a number of bytes.

    Examples
    --------
    >>> _parse_bytes("100 MB"), _parse_bytes("1.5 GiB"), _parse_bytes("2000")
    (100000000, 1610612736, 2000)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    size = int(float(found[1]) * _BYTES[found[2].lower() or "b"])
    if size < _LEAST_MEMORY:
        raise ValueError(text)
    return size


def _parse_share(text: str) -> float:
    """Return processor seconds a second, from a number or a percentage.

    Examples
    --------
    >>> _parse_share("0.5"), _parse_share("150 %")
    (0.5, 1.5)
    """
    number = text.strip()
    share = float(number[:-1]) / 100 if number.endswith("%") else float(number)
    if not 0 < share <= 10_000:
        raise ValueError(text)
    return share


LIMITS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "memory_limit": ("memory", _parse_bytes, "a number of bytes, for example '100 MB'"),
    "cpu_limit": ("cpu", _parse_share, "processor seconds a second, for example 0.5, or '50 %'"),
}
"""Settings by name: the field of `ResourceLimits`, a function that reads its text, and a hint with a valid value."""
