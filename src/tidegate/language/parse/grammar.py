"""The parser of Lark for grammar.lark, from tables that are stored next to it.

To build the tables takes most of a second, which every command would wait for. They are used only with the grammar and
the version of Lark that they were built from; otherwise they are built again, in memory. `./dev grammar` stores them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import resources
from typing import Any

import lark
from lark import Lark, Token
from lark.grammar import Rule
from lark.lexer import PatternRE, PatternStr, TerminalDef

from tidegate.language.parse.lexer import LazyContextualLexer
from tidegate.language.parse.parse_table import StoredParser, encode_table

TABLES = "grammar_tables.json.gz"

_PLUGINS = {"ContextualLexer": LazyContextualLexer}

Callbacks = Mapping[str, Callable[[Token], Token]]
"""Functions that Lark calls for tokens, by the name of the terminal."""


def make_parser(callbacks: Callbacks) -> Lark:
    """Return the parser, with functions that it calls for tokens."""
    text = _read_file("grammar.lark")
    stored = _read_tables(text)
    return build_parser(text, callbacks) if stored is None else _restore_parser(stored, callbacks)


def build_parser(text: str, callbacks: Callbacks) -> Lark:
    """Return the parser of the text of a grammar."""
    return Lark(
        text,
        parser="lalr",
        propagate_positions=True,
        edit_terminals=_end_keywords,
        lexer_callbacks=dict(callbacks),
        _plugins=_PLUGINS,
    )


def _end_keywords(terminal: TerminalDef) -> None:
    """Make keywords match whole words only, with priority over names."""
    if isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalpha():
        terminal.pattern = PatternRE(terminal.pattern.value + r"\b", tuple(terminal.pattern.flags))
        terminal.priority = 1


def build_tables(text: str) -> dict[str, Any]:
    """Return the tables of a grammar as values that JSON can hold, with what they were built from."""
    data, memo = build_parser(text, {}).memo_serialize([TerminalDef, Rule])
    data["options"] |= {"edit_terminals": None, "_plugins": {}}  # applied already; given again
    data["parser"]["parser"] = encode_table(data["parser"]["parser"])
    return {**_identify(text), "data": data, "memo": memo}


def write_tables(tables: Mapping[str, Any]) -> None:
    """Store tables next to the grammar."""
    content = json.dumps(tables, separators=(",", ":"), sort_keys=True).encode()
    with resources.as_file(resources.files(__package__)) as folder:
        (folder / TABLES).write_bytes(gzip.compress(content, mtime=0))


def _read_tables(text: str) -> dict[str, Any] | None:
    """Return the stored tables, or None if there are none of this grammar and this Lark."""
    try:
        content = resources.files(__package__).joinpath(TABLES).read_bytes()
    except FileNotFoundError:
        return None
    tables: dict[str, Any] = json.loads(gzip.decompress(content))
    return tables if _identify(text).items() <= tables.items() else None


def _restore_parser(tables: dict[str, Any], callbacks: Callbacks) -> Lark:
    memo = {int(key): each for key, each in tables["memo"].items()}  # keys of JSON are texts
    plugins = {**_PLUGINS, "LALR_Parser": StoredParser}
    # As the parsers that Lark generates as stand-alone programs do.
    load: Callable[..., Lark] = Lark._load_from_dict  # noqa: SLF001
    return load(tables["data"], memo, lexer_callbacks=dict(callbacks), _plugins=plugins)


def _identify(text: str) -> dict[str, str]:
    return {"lark": lark.__version__, "grammar": sha256(text.encode()).hexdigest()}


def _read_file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


if __name__ == "__main__":
    write_tables(build_tables(_read_file("grammar.lark")))
