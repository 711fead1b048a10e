"""From text to the syntax tree."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import cache

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.exceptions import VisitError

from tidegate.errors import QueryError, Span
from tidegate.language.parse.build_expressions import span_of, unsupported_error
from tidegate.language.parse.build_statements import StatementBuilder
from tidegate.language.parse.grammar import make_parser
from tidegate.language.syntax import Statement

_NOT_YET = {
    "OTHER_STATEMENT": (
        "{word} is",
        "statements are CREATE STREAM, CREATE TABLE, CREATE ALERT, SELECT, INSERT, …",
    ),
    "OTHER_TABLE": ("CREATE TABLE … AS is", "a query with a name is CREATE STREAM … AS SELECT …"),
    "RECURSIVE": ("WITH RECURSIVE is", "write WITH name AS (…), without reading name inside it"),
    "OTHER_CLAUSE": ("{word} is", "write LIMIT n for the first rows of every instant"),
    "OTHER_JOIN": ("{word} is", "write JOIN … ON, JOIN … USING, or WHERE EXISTS (…)"),
    "OTHER_CALL": ("{word} after a function is", "group a stream that has a WINDOW instead"),
}
"""Terminals of SQL that is not supported yet: the start of a sentence about it, and a hint."""

_COMPARISONS = frozenset({"EQUAL", "UNEQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})
_SYMBOLS = _COMPARISONS | {"PLUS", "MINUS", "CONCAT", "STAR", "SLASH", "PERCENT", "DOT", "LPAR"}
_OPERATORS = _SYMBOLS | {"DIV", "AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "ESCAPE"}

_SIGNS = {
    "NAME": "a name",
    "STRING": "a quoted text",
    "NUMBER": "a number",
    "UNIT": "a unit of time",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "EQUAL": "'='",
    "STAR": "'*'",
    "LSQB": "'['",
    "RSQB": "']'",
    "SEMICOLON": "';'",
    "$END": "the end",
}

_RARE = frozenset(
    {
        "QUOTED",
        "CROSS",
        "MATERIALIZED",
        "INNER",
        "LEFT",
        "RIGHT",
        "FULL",
        "HAVING",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "LSQB",
        "SEMICOLON",
    }
    | {
        "_SOURCE",
        "_SOURCE_CALL",
        "_ORDERED_BY",
        "_FOREIGN_KEY",
        "_ORDER_BY",
        "_LIMIT",
        "_OFFSET",
        "_PER",
        "_GRANULARITY",
        "_USING",
        "WITH_TIES",
        "_UTILITY_BY",
        "EMIT_EARLY",
        "ADMIT_ANYWAY",
        "EMIT_CHANGES",
    }
    | {"STREAM_FUNCTION", "_OPEN_QUERY", "_EXISTS", "QUANTIFIER", "_FILTER", "NULLS_FIRST", "NULLS_LAST", "ASC", "DESC"}
)
"""Terminals that an error message omits if there are others."""


_INCOMPLETE = {
    "WITHIN": ("_WITHIN", "write for example WITHIN 5 SECONDS, or WITHIN WINDOWS OF 1 MINUTE"),
    "MATCHING": ("_MATCHING", "add the columns that must be equal: MATCHING machine"),
    "ID": ("_ID", "add the column that identifies a subscription: ID r.name"),
    "TERMINATE": ("_TERMINATE_WHEN", "add the condition of rows that end a subscription: TERMINATE WHEN r.gone"),
    "ASSUME": ("_ASSUME_QUASICONVEX", "write ASSUME QUASICONVEX, or ASSUME QUASICONVEX IN x"),
    "EMIT": ("_EMIT_ALL", "write EMIT ALL"),
    "NOTIFY": ("_NOTIFY", "write the recipient in quotes: NOTIFY '…'"),
    "WITH": ("_WITH", "write its options in parentheses: WITH (name = value)"),
    "UTILITY": ("_UTILITY_BY", "add the expression that gives the utility: UTILITY BY x.level"),
    "WORTH": ("_WORTH", "write the worth of values in parentheses: WORTH ('gold' = 10, ELSE = 1)"),
    "CHECK": ("_CHECK", "write the condition in parentheses: CHECK (value > 0)"),
    "KEY": ("_KEY", "write its columns in parentheses: KEY (id)"),
}
"""Words that are keywords only before what must follow: the expected terminal, and a hint."""

_BEGINNINGS = frozenset(
    {"SELECT", "CREATE", "INSERT", "SHOW", "DROP", "EXPLAIN", "DESCRIBE", "SET", "ALTER", "PAUSE", "RESUME", "OPTIMIZE"}
)
"""Words that begin a statement."""

MOST_DIGITS = 400
"""Greatest number of characters in a number: more than the digits of the largest DOUBLE."""


def parse(text: str) -> tuple[Statement, ...]:
    """Return the statements of a text.

    Examples
    --------
    >>> [statement] = parse("SELECT price FROM bid WHERE price > 10")
    >>> statement.query.sources[0].name.text
    'bid'
    """
    try:
        return _parse_statements(text)
    except QueryError as error:
        from tidegate.language.hints.advice import advise

        raise advise(error, text).with_text(text) from None
    except RecursionError:
        raise QueryError("Q003", "this is nested too deeply", text=text) from None


def _parse_statements(text: str) -> tuple[Statement, ...]:
    try:
        statements: tuple[Statement, ...] = StatementBuilder().transform(_grammar().parse(text))
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        raise _explain_error(error, text) from None
    return statements


@cache
def _grammar() -> Lark:
    refusals = {name: _make_refusal(name) for name in _NOT_YET}
    checks = {"UNCLOSED": _refuse_unclosed, "UNCLOSED_COMMENT": _refuse_unclosed, "NUMBER": _refuse_long_number}
    return make_parser(refusals | checks)


def _make_refusal(name: str) -> Callable[[Token], Token]:
    what, hint = _NOT_YET[name]

    def refuse(token: Token) -> Token:
        raise unsupported_error(what.format(word=" ".join(token.upper().split())), span_of(token), hint=hint)

    return refuse


def _refuse_unclosed(token: Token) -> Token:
    span = Span(span_of(token).start, span_of(token).start + 1)
    what, hint = "quote", f"end it with {token[0]}; inside it, write {token[0] * 2} for one"
    if token.type == "UNCLOSED_COMMENT":
        what, hint = "comment", "end it with */"
    raise QueryError("Q001", f"this {what} is never closed", span, hint=hint)


def _refuse_long_number(token: Token) -> Token:
    """Refuse numbers that are too long: Python itself refuses some of them, and without a position."""
    if len(token) > MOST_DIGITS:
        message = f"this number has {len(token):,} characters; at most {MOST_DIGITS} are possible"
        raise QueryError("Q111", message, span_of(token), hint="write it with an exponent: 1e300")
    return token


# ---- descriptions of what was expected


def _explain_error(error: UnexpectedInput, text: str) -> QueryError:
    match error:
        case UnexpectedToken(token=token):
            expected = set(error.accepts or error.expected)
            return (
                _missing_semicolon_error(token, expected, text)
                or _misspelling_error(token, expected, text)
                or _unexpected_token_error(token, expected, text)
            )
        case UnexpectedCharacters(pos_in_stream=position):
            place = position or 0
            return QueryError("Q001", f"unexpected character '{text[place]}'", Span(place, place + 1))
    return QueryError("Q001", "this is not a statement")


def _unexpected_token_error(token: Token, expected: set[str], text: str) -> QueryError:
    words = _describe_terminals(expected)
    if token.type == "$END":
        end = len(text.rstrip())
        return QueryError("Q001", f"the text ends too early: expected {words}", Span(end, end + 1))
    hint = f'"{token}" in quotes is a name' if token.isalpha() and words.startswith("a name") else None
    wanted, advice = _INCOMPLETE.get(token.upper(), (None, None))
    if token.upper() == "WITHIN":
        advice = _within_hint(token, expected) or advice
    if wanted in expected or token.type == "_WITHIN":
        return QueryError("Q001", f"'{token}' is incomplete, or in the wrong place", span_of(token), hint=advice)
    if token.upper() == "SELECT" and words.startswith("an expression"):
        hint = "a query inside an expression needs its own parentheses: f((SELECT …))"
    return QueryError("Q001", f"unexpected '{token}': expected {words}", span_of(token), hint=hint)


def _missing_semicolon_error(token: Token, expected: set[str], text: str) -> QueryError | None:
    """Return the error for a missing semicolon before a statement; the word may have been read as an alias."""
    if "SEMICOLON" not in expected or token.type == "$END":
        return None
    place = span_of(token).start
    before = re.search(r"\b(show|drop|explain|describe|set)(?=\s+\Z)", text[:place], re.IGNORECASE)
    word, span = (token, span_of(token)) if before is None else (before[0], Span(*before.span()))
    if str(word).upper() not in _BEGINNINGS:
        return None
    hint = f"statements end with a semicolon: write ; before {word}"
    return QueryError("Q001", f"a semicolon is missing before '{word}'", span, hint=hint)


def _within_hint(token: Token, expected: set[str]) -> str | None:
    if expected == {"LPAR"}:
        return "write the columns of the other stream after its name: REFERENCES other (id) WITHIN 5 SECONDS"
    if token.type == "_WITHIN" and "_KEY" in expected:
        return "WITHIN must come right after the columns of REFERENCES, CLUSTERED BY or ORDERED BY"
    if token.type == "_WITHIN":
        return "WITHIN must come right after FROM, before the other clauses"
    if "_WITHIN" in expected and "_MATCHING" not in expected:
        return "write for example WITHIN 5 SECONDS, or WITHIN 10 ROWS"
    return None


def _misspelling_error(token: Token, expected: set[str], text: str) -> QueryError | None:
    """Return the error for a word that is nearly a keyword, or that follows one read as an alias."""
    keywords = _keywords(expected)
    before = len(text) if token.type == "$END" else span_of(token).start
    for word in (re.compile(r"\w+").match(text, before), re.search(r"\w+(?=\s*\Z)", text[:before])):
        meant = None if word is None or word[0].upper() == "WITHIN" else _nearest_keyword(word[0].upper(), keywords)
        if word and meant:
            return QueryError("Q001", f"unexpected '{word[0]}'", Span(*word.span()), hint=f"did you mean {meant}?")
    return None


def _nearest_keyword(word: str, keywords: list[str]) -> str | None:
    close = [] if word in keywords else difflib.get_close_matches(word, keywords, n=1, cutoff=0.7)
    return close[0] if close else None


def _keywords(terminals: set[str]) -> list[str]:
    """Return the terminals that are words, as they are written."""
    words = (name.strip("_").replace("_", " ") for name in terminals - _SYMBOLS - _SIGNS.keys() - _NOT_YET.keys())
    return sorted(word for word in words if "ANON" not in word and word != "LAST REPEAT")


def _describe_terminals(expected: set[str]) -> str:
    """Describe the expected terminals for people."""
    words: list[str] = []
    if {"NAME", "NUMBER", "STRING"} <= expected:
        words, expected = ["an expression"], expected & {"STAR", "RPAR"}
    elif "PLUS" in expected:
        words, expected = ["an operator"], expected - (_OPERATORS if "OR" in expected else _OPERATORS - {"AND"})
    # WITH deserves a mention only in CREATE STREAM.
    expected = expected - (_RARE if "_DELAY" in expected else _RARE | {"_WITH"}) or expected
    words += [_SIGNS[name] for name in _SIGNS if name in expected]
    words += _keywords(expected)
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "something else"
