"""Wrong statements, and exactly what is said about each: what is wrong, where, and what to write instead.

The texts are in ``wrong_statements.txt``: a statement, an arrow, the message. After a change of
words,
``PYTHONPATH=tests python tests/unit/language/bind/test_wrong_statements.py``
writes the messages again, for a person to read.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.wrong import cases, said_of, write_anew

from tidegate.language.bind.program import bind

TEXTS = Path(__file__).with_name("wrong_statements.txt")

CATALOG = bind("""
CREATE STREAM auction (itemID INT, seller INT, start_price REAL, at TIMESTAMP) FROM 'auction.csv' TIMESTAMP BY at;
CREATE STREAM bid (itemID INT, price DOUBLE, bidder INT, at TIMESTAMP) FROM 'bid.csv' TIMESTAMP BY at;
CREATE TABLE person (id INT, name STRING) FROM 'person.csv';
""").catalog


@pytest.mark.parametrize(("statement", "message"), cases(TEXTS))
def test_a_wrong_statement_is_answered_with_what_to_write_instead(statement, message):
    assert said_of(statement, CATALOG) == message


def test_there_are_many_wrong_statements_and_no_two_are_the_same():
    statements = [statement for statement, _ in cases(TEXTS)]
    assert len(set(statements)) == len(statements) >= 100


def test_every_message_shows_the_place_and_says_what_to_write():
    for statement, message in cases(TEXTS):
        assert "\n   | " in message, statement
        assert "\n   = hint: " in message or ": expected " in message, statement


if __name__ == "__main__":
    write_anew(TEXTS, CATALOG)
