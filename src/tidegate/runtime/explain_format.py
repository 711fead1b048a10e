"""How EXPLAIN shows a program."""

from __future__ import annotations

from enum import StrEnum


class ExplainFormat(StrEnum):
    """How a program is shown."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
