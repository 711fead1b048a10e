"""Streams of letters, as the dissertation's examples have them, and plans over such streams."""

from __future__ import annotations

from tidegate.algebra.plan import Map, Output, Plan, Scan, Validity
from tidegate.expressions.nodes import Call, Case, Column, Expression, Literal
from tidegate.schema import Schema, Type

WEIGHTS = {letter: 10**place for place, letter in enumerate("abcde")}
"""A number for each letter, so that a sum says which letters are in it: a + d + a is 1002."""

E = Column("e", Type.STRING)


def row(letter: str) -> dict[str, object]:
    return {"e": letter, "v": WEIGHTS[letter]}


def weight(letters: str) -> int:
    return sum(WEIGHTS[letter] for letter in letters)


def letters(stream: str) -> Plan:
    """The raw stream as a column e of letters."""
    return Scan(stream, Schema.of(e=Type.STRING))


def lasting(stream: str) -> Plan:
    """The same of a stream whose elements bring validities."""
    return Scan(stream, Schema.of(e=Type.STRING), validity=Validity.INTERVAL)


def table(name: str) -> Plan:
    """The same of a table, whose rows are always valid."""
    return Scan(name, Schema.of(e=Type.STRING), validity=Validity.RELATION)


def weights(stream: str, validity: Validity = Validity.INSTANT) -> Plan:
    """The stream as a column v of the letters' weights."""
    return Scan(stream, Schema.of(v=Type.INT), validity=validity)


def grouped(plan: Plan, **groups: str) -> Plan:
    """The plan, whose only column is e, with a column g that says to which group a letter belongs: itself, if none."""
    return Map(plan, (Output("e", E), Output("g", replaced(**groups))))


def ungrouped(plan: Plan) -> Plan:
    return Map(plan, (Output("e", E),))


def renamed(plan: Plan, name: str) -> Plan:
    """The plan, whose only column is e, with another name for it."""
    return Map(plan, (Output(name, E),))


def is_letter(letter: str) -> Expression:
    return equal(E, Literal(letter, Type.STRING))


def equal(a: Expression, b: Expression) -> Expression:
    return Call("=", (a, b), Type.BOOLEAN)


def replaced(**images: str) -> Expression:
    """Each letter's image, the letter itself where none is given."""
    branches = tuple((is_letter(old), Literal(new, Type.STRING)) for old, new in images.items())
    return Case(branches, E, Type.STRING)
