"""The stored tables are those of the grammar, and are not used with another grammar or another Lark."""

from __future__ import annotations

import gzip
import json
from importlib import resources

import lark
import pytest
from lark import Lark

from tidegate.errors import QueryError
from tidegate.language.parse import grammar, parser

GRAMMAR = resources.files(grammar.__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
OUT_OF_DATE = "the stored tables are out of date: run ./dev grammar, and commit the file"


def contents(made: Lark) -> tuple[set, set, int]:
    """What a parser is made of, without the numbers of states, which depend on the order of sets."""
    terminals = {(t.name, t.pattern.to_regexp(), frozenset(t.pattern.flags), t.priority) for t in made.terminals}
    rules = {
        (r.origin.name, tuple(each.name for each in r.expansion), r.alias, r.options.keep_all_tokens, r.options.expand1)
        for r in made.rules
    }
    table = made.parser.parser._parse_table
    return terminals, rules, len(list(table.states.items()))


@pytest.fixture
def built(monkeypatch) -> list[str]:
    """Texts of grammars whose tables are built, not read."""
    texts = []
    build = grammar.build_parser

    def record(text, callbacks):
        texts.append(text)
        return build(text, callbacks)

    monkeypatch.setattr(grammar, "build_parser", record)
    return texts


def test_the_stored_tables_are_those_of_the_grammar(built):
    stored = grammar.make_parser({})
    assert not built, OUT_OF_DATE
    fresh = grammar.build_parser(GRAMMAR, {})
    assert contents(stored) == contents(fresh), OUT_OF_DATE


def test_tables_of_another_lark_are_not_used(built, monkeypatch):
    monkeypatch.setattr(lark, "__version__", "0.0.0")
    grammar.make_parser({})
    assert built == [GRAMMAR]


def test_tables_of_another_grammar_are_not_used(built, monkeypatch):
    other = GRAMMAR + "\n// another\n"
    monkeypatch.setattr(grammar, "_read_file", lambda name: other)
    grammar.make_parser({})
    assert built == [other]


def test_without_stored_tables_the_parser_is_built(built, monkeypatch):
    monkeypatch.setattr(grammar, "TABLES", "none.json.gz")
    grammar.make_parser({})
    assert built == [GRAMMAR]


@pytest.fixture(scope="module")
def built_parser():
    """The parser with tables that were built, which takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grammar, "TABLES", "none.json.gz")
        parser._grammar.cache_clear()
        made = parser._grammar()
    parser._grammar.cache_clear()
    return made


@pytest.mark.parametrize(
    "text",
    [
        "SELECT",
        "SELECT a FROM",
        "SELECT a FROM s WINDOW(RANGE)",
        "SELECT a FROM s WHERE a >",
        "SELECT a, FROM s",
        "CREATE STREAM s (a INT",
        "CREATE ALERT a FROM r, s WITHIN",
        "SELECT 'open FROM s",
        "SELECT a FROM s GROUP k",
        "SELEKT a FROM s",
        "SELECT a ! b FROM s",
    ],
)
def test_errors_are_the_same_with_stored_and_with_built_tables(text, built_parser, monkeypatch):
    def message() -> str:
        with pytest.raises(QueryError) as caught:
            parser.parse(text)
        return caught.value.render()

    stored = message()
    monkeypatch.setattr(parser, "_grammar", lambda: built_parser)
    assert message() == stored


def test_the_file_says_what_it_was_built_from():
    stored = json.loads(gzip.decompress(resources.files(grammar.__package__).joinpath(grammar.TABLES).read_bytes()))
    assert stored["lark"] == lark.__version__
    assert len(stored["grammar"]) == 64
