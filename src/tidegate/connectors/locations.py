"""Locations: paths of this machine, and URIs of other file systems."""

from __future__ import annotations

import re

from pyarrow import fs


def is_uri(location: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+._-]*://", location) is not None


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a location, and the path within it."""
    if is_uri(location):
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(location)
        return found
    return fs.LocalFileSystem(), location
