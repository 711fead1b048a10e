"""Formats of EXPLAIN."""

from __future__ import annotations

from enum import StrEnum


class ExplainFormat(StrEnum):
    """Output format of EXPLAIN."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
