"""Statements as users of other systems write them, and what they are told to write here.

The texts are in ``wrong_other_systems.txt``: a statement, an arrow, the message. After a change of
words,
``PYTHONPATH=tests python tests/unit/language/hints/test_other_systems.py``
writes the messages again, for a person to read.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.wrong import cases, said_of, write_anew

from tidegate.errors import QueryError
from tidegate.expressions.functions.aggregates import AGGREGATES
from tidegate.expressions.functions.resolve import function_names
from tidegate.language.bind.program import bind
from tidegate.language.hints.other_systems import CLAUSES, COLUMNS, FUNCTIONS, TYPES
from tidegate.schema import TYPE_NAMES

TEXTS = Path(__file__).with_name("wrong_other_systems.txt")

CATALOG = bind("""
CREATE STREAM auction (itemID INT, seller INT, start_price REAL, at TIMESTAMP) FROM 'auction.csv' TIMESTAMP BY at;
CREATE STREAM bid (itemID INT, price DOUBLE, bidder INT, at TIMESTAMP) FROM 'bid.csv' TIMESTAMP BY at;
CREATE TABLE person (id INT, name STRING) FROM 'person.csv';
""").catalog

_SOURCE = re.compile(r"FROM \w+ WINDOW\([^()]*\)(?: o, \w+ n WHERE [\w.]+ = [\w.]+ AND [\w.]+ < [\w.]+)?")
_CALLED = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\((?!\))")
_NO_FUNCTIONS = {"CAST", "WINDOW", "FILTER"}


@pytest.mark.parametrize(("statement", "message"), cases(TEXTS))
def test_a_statement_of_another_system_is_answered_with_what_to_write_here(statement, message):
    assert said_of(statement, CATALOG) == message


def test_every_message_has_a_hint_and_none_goes_by_letters():
    for statement, message in cases(TEXTS):
        assert "\n   = hint: " in message, statement
        assert "did you mean" not in message, statement


def test_the_windows_that_hints_propose_can_be_written():
    hints = [(statement, message.partition("= hint: ")[2]) for statement, message in cases(TEXTS)]
    proposed = [(statement, part) for statement, hint in hints for part in _SOURCE.findall(hint)]
    assert len(proposed) >= 20
    for statement, part in proposed:
        assert said_of(f"SELECT 1 AS one {part}", CATALOG) == "nothing is wrong with it", statement


def test_what_is_called_otherwise_elsewhere_is_not_called_so_here():
    ours = {*function_names(), *AGGREGATES}
    assert not ours & FUNCTIONS.keys()
    assert not {name.lower() for name in TYPE_NAMES} & TYPES.keys()


def test_hints_name_only_functions_that_there_are():
    ours = {*function_names(), *AGGREGATES}
    hints = [*FUNCTIONS.values(), *TYPES.values(), *COLUMNS.values(), *(clause.advice for clause in CLAUSES)]
    named = {name for hint in hints for name in _CALLED.findall(hint)}
    assert {name.lower() for name in named - _NO_FUNCTIONS} <= ours


def test_a_long_text_with_a_mistake_is_answered_at_once():
    """Clauses are looked for near the mistake alone: their patterns would take minutes for all of it."""
    text = "SELECT itemID FROM bid WHERE " + " OR ".join(["itemID = 1 "] * 20_000) + "GROUP itemID"
    with pytest.raises(QueryError, match="unexpected 'itemID'"):
        bind(text, CATALOG)


if __name__ == "__main__":
    write_anew(TEXTS, CATALOG)
