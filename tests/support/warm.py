"""What all commands need, imported and made: in the process that they are forked from, so that it is done once."""

from __future__ import annotations

from tidegate.cli import main, queries
from tidegate.language.parse.parser import parse

__all__ = ["main", "queries"]

parse("SELECT a FROM b;")
