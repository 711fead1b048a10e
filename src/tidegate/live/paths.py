"""Refuse sources and sinks outside of the allowed roots."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.connectors.locations import is_uri
from tidegate.errors import QueryError

_GLOB = re.compile(r"[*?\[{]")


def refuse_outside(location: str, roots: Sequence[str] | None) -> None:
    """Raise an error if a location is not below one of the roots; without roots, every location is allowed.

    Symbolic links and ``..`` are followed. A URI is allowed if a root is a URI and the beginning of it.
    """
    if roots is None or any(_is_below(location, root) for root in roots):
        return
    hint = f"allowed: {', '.join(roots)}" if roots else "no path is allowed"
    raise QueryError("Q316", f"'{location}' is outside of the allowed paths", hint=hint)


def _is_below(location: str, root: str) -> bool:
    place, base = _local_path(location), _local_path(root)
    if place is None or base is None:
        return place is None and base is None and _is_uri_below(location, root)
    fixed, pattern = _split_pattern(place)
    if ".." in Path(pattern).parts:
        return False
    return Path(os.path.realpath(fixed)).is_relative_to(os.path.realpath(base))


def _split_pattern(path: str) -> tuple[str, str]:
    """Split a path before the first part with a wildcard."""
    parts = Path(path).absolute().parts
    at = next((i for i, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    return os.path.join(*parts[:at]), os.path.join("", *parts[at:])  # noqa: PTH118 - `..` must stay as written


def _local_path(location: str) -> str | None:
    """Return the path of a local location; None for a URI of something else."""
    if not is_uri(location):
        return location
    parts = urlsplit(location)
    return unquote(parts.path) if parts.scheme.lower() == "file" and parts.netloc in ("", "localhost") else None


def _is_uri_below(location: str, root: str) -> bool:
    if ".." in unquote(location).split("/"):
        return False
    base = root if root.endswith("/") else f"{root}/"
    return location == root or location.startswith(base)
