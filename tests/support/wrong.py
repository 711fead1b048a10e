"""Wrong statements in a text file, each with exactly what is said about it: a statement, an arrow, the message."""

from __future__ import annotations

from pathlib import Path

from tidegate.catalog.catalog import Catalog
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind

_ARROW, _END = "\n=>\n", "\n----\n"


def cases(texts: Path) -> list[tuple[str, str]]:
    parts = [part.split(_ARROW) for part in texts.read_text().split(_END) if part.strip()]
    return [(statement.strip("\n"), message) for statement, message in parts]


def said_of(statement: str, catalog: Catalog) -> str:
    try:
        bind(statement, catalog)
    except QueryError as error:
        return error.render()
    return "nothing is wrong with it"


def write_anew(texts: Path, catalog: Catalog) -> None:
    """Write what is said now, for a person to read."""
    said = (f"{statement}{_ARROW}{said_of(statement, catalog)}" for statement, _ in cases(texts))
    texts.write_text(_END.join(said) + _END)
