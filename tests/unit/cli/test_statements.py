"""Texts are split into statements, whatever their strings and comments have in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli.shell import is_complete, split_input
from tidegate.cli.statements import first_word, split_statements

PARTS = st.sampled_from(
    [
        "SELECT",
        "a",
        " ",
        "\n",
        "';'",
        "'it''s;'",
        '"x;y"',
        '"a""b;"',
        "`;`",
        "-- ;'\n",
        "/* ;' */",
        " - 1",
        " / 2",
        "1.5",
    ]
)


@given(st.lists(st.lists(PARTS, max_size=6).map("".join), max_size=5))
def test_statements_are_those_that_were_joined(statements):
    whole = ";".join([*statements, ""])
    found, rest = split_statements(whole)
    assert rest is None
    expected = [text.strip() for text in statements if first_word(text)]
    assert [whole[each.start : each.start + len(each.text)] for each in found] == [each.text for each in found]
    assert len(found) == len(expected)
    assert all(each.text in whole_text for each, whole_text in zip(found, expected, strict=True))


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT ';", 'SELECT ";', "SELECT `;", "SELECT 1 /* ;", "SELECT 1 -- ;"])
def test_a_statement_without_its_end_is_not_complete(text):
    assert split_statements(text)[0] == []
    assert split_statements(text)[1].text == text
    assert not is_complete(text)


@pytest.mark.parametrize("text", ["", "  \n", "-- only a comment", "/* ; */", ";;"])
def test_nothing_is_no_statement(text):
    assert split_statements(text) == ([], None)


def test_commands_are_lines_between_statements():
    text = "SHOW\nSTREAMS; \\d\n\\d bid\n\nSELECT 1;\n\\q"
    found = split_input(text)
    assert [each.text for each in found] == ["SHOW\nSTREAMS", "\\d", "\\d bid", "SELECT 1", "\\q"]
    assert all(text[each.start :].startswith(each.text) for each in found)
