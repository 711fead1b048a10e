"""The lexer reads every text as Lark's own does, and compiles only what a text needs."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Lark, UnexpectedInput
from lark.lexer import _create_unless
from support.paths import ROOT

from tidegate.language.parse import grammar

GRAMMAR = resources.files(grammar.__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
OURS = grammar.make_parser({})
LARKS = Lark(GRAMMAR, parser="lalr", propagate_positions=True, edit_terminals=grammar._end_keywords)
QUERIES = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("examples/**/*.sql"))]
WORDS = [
    *(
        "select",
        "FROM",
        "s",
        "WINDOW(RANGE 5 SECONDS)",
        "window",
        "(",
        ")",
        ",",
        ";",
        "'text'",
        "'open",
        '"a b"',
        "1.5e3",
    ),
    *(
        "create stream",
        "create alert a",
        "repeat",
        "matching k",
        "id",
        "except all",
        "order by",
        "fetch first",
        "over (",
    ),
    *(
        "left join",
        "ſelect",
        "\N{KELVIN SIGN}ey (a)",
        "limit 3",
        "=",
        "<=",
        "<>",
        "||",
        "::",
        "--c\n",
        "/* c */",
        "/* c",
    ),
    *(
        "array<",
        "array [",
        "with ties",
        "with (",
        "in",
        "interval '1' day",
        "exists (select",
        "!",
        "é",
        "natural join x",
    ),
]


def reading(parser: Lark, text: str) -> object:
    """The tree, or where the error is and what was expected."""
    try:
        return parser.parse(text)
    except UnexpectedInput as error:
        expected = getattr(error, "accepts", None) or getattr(error, "expected", None) or getattr(error, "allowed", ())
        return type(error), error.pos_in_stream, getattr(error, "token", None), set(expected or ())


@pytest.mark.parametrize("text", QUERIES)
def test_the_examples_are_read_as_lark_reads_them(text):
    assert reading(OURS, text) == reading(LARKS, text)
    assert reading(OURS, text.upper()) == reading(LARKS, text.upper())


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=12).map(" ".join))
def test_any_text_is_read_as_lark_reads_it(text):
    assert reading(OURS, text) == reading(LARKS, text)


@given(st.sampled_from(QUERIES), st.integers(0, 2000), st.sampled_from(WORDS))
def test_a_query_with_a_word_more_is_read_as_lark_reads_it(text, position, word):
    place = position % len(text)
    changed = f"{text[:place]} {word} {text[place:]}"
    assert reading(OURS, changed) == reading(LARKS, changed)


def test_no_sign_is_also_a_longer_terminal_which_lark_would_treat_apart():
    assert _create_unless(OURS.terminals, 0, re, use_bytes=False)[1] == {}


def test_only_what_a_text_needs_is_compiled():
    parser = grammar.make_parser({})
    parser.parse("SELECT a FROM s")
    lexer = parser.parser.lexer
    made = {name for name, matcher in lexer.matchers.items() if "expression" in vars(matcher)}
    assert {"SELECT", "FROM", "NAME"} <= made
    assert not made & {"_WINDOW", "GROUP", "CREATE", "_LIMIT"}
    assert len(lexer.lexers) < 10
