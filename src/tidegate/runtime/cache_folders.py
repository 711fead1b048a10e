"""Folders for what can always be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """Return the user's cache folder by the XDG rules, which ignore a relative path."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "tidegate"


def environment_cache() -> Path:
    """Return a folder in the Python environment, with which it is removed; the user's cache if that is read-only."""
    environment = Path(sys.prefix)
    return environment / "share" / "tidegate" if os.access(environment, os.W_OK) else user_cache()
