"""The certifier against dense evaluation: what it proves is never contradicted, what it refutes is wrong indeed.

`SHAPE_FORMULAS=100000` checks that many formulas instead of the usual ones, `SHAPE_SEED` others.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.errors import NOWHERE
from tidegate.expressions.coercion import cast
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Case, Column, Literal, columns_of
from tidegate.expressions.shape import proof, requirements
from tidegate.expressions.shape.enclose import Box, enclose
from tidegate.expressions.shape.intervals import Interval
from tidegate.expressions.shape.jets import jet_of
from tidegate.expressions.shape.proof import certify
from tidegate.expressions.shape.verdict import Proved, Refuted, Shape, Undecided
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Domain, Type

MANY = int(os.environ.get("SHAPE_FORMULAS", "1500"))
SEED = int(os.environ.get("SHAPE_SEED", "7"))
LINES, PLACES = 24, 101
INFINITE = float("inf")
FULL = proof.BUDGET

DOMAINS = [
    Domain(), Domain(0, INFINITE), Domain(0.5, INFINITE), Domain(-INFINITE, -1),
    Domain(0, 1), Domain(-1, 1), Domain(0.1, 10), Domain(1, 100), Domain(-5, 5), Domain(-40, 60), Domain(-3, 0),
    Domain(2, 2), Domain(0, 4), Domain(0.25, 0.75),
]  # fmt: skip
NARROW = [Domain(0, 1), Domain(-1, 1), Domain(0.1, 10), Domain(0.25, 0.75), Domain(2, 3), Domain(-2, 5)]
CONSTANTS = [0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.5, 10.0, 0.1, 257.14]
EXPONENTS = [2.0, 3.0, 0.5, -1.0, -2.0, 1.5, 0.16, 0.0, 1.0, 4.0, -0.5, 2.5]
BINARY = ["+", "+", "+", "-", "-", "-", "*", "*", "*", "*", "/", "/", "greatest", "least"]
UNARY = ["negate", "abs", "exp", "ln", "sqrt", "sin", "cos", "tan", "atan", "floor", "ceil", "round", "trunc", "sign"]
SELDOM = ["log10", "log2", "coalesce", "power", "log", "atan2", "%", "case", "INT", "REAL", "BIGINT", "round"]


class Formulas:
    """Random formulas over x, y and z, some parts of which occur twice."""

    def __init__(self, random):
        self.random = random
        self.smooth = random.random() < 0.35  # what derivatives are for: much of x, little that jumps
        self.columns = [Column(name, self.choose([Type.DOUBLE] * 5 + [Type.INT, Type.REAL])) for name in "xyz"]
        self.made = []

    def choose(self, options):
        return options[self.random.integers(len(options))]

    def call(self, name, *arguments):
        return resolve(name, arguments, NOWHERE)

    def formula(self, depth):
        made = self.leaf() if depth == 0 else self.inner(depth)
        self.made.append(made)
        return made

    def leaf(self):
        if self.random.random() < 0.3:
            return Literal(self.choose(CONSTANTS), Type.DOUBLE)
        return self.columns[self.choose([0, 0, 0, 0, 0, 1] if self.smooth else [0, 0, 0, 1, 1, 2])]

    def inner(self, depth):
        kind = self.random.random()
        below = depth - 1 - int(self.random.integers(0, 2) if depth > 1 else 0)
        if kind < 0.08 and self.made:
            return self.choose(self.made)
        if kind < 0.6:
            return self.call(
                self.choose(["+", "-", "*", "*", "/"] if self.smooth else BINARY),
                self.formula(depth - 1),
                self.formula(below),
            )
        if kind < 0.7:
            return self.call("power", self.formula(depth - 1), Literal(self.choose(EXPONENTS), Type.DOUBLE))
        if self.smooth or kind < 0.93:
            return self.call(
                self.choose(["exp", "ln", "sqrt", "sin", "cos", "atan", "abs"] if self.smooth else UNARY),
                self.formula(depth - 1),
            )
        return self.seldom(self.choose(SELDOM), depth)

    def seldom(self, name, depth):
        match name:
            case "INT" | "REAL" | "BIGINT":
                return cast(self.formula(depth - 1), Type[name], NOWHERE)
            case "case":
                condition = self.call(">", self.columns[self.choose([0, 1, 1, 1])], Literal(1.0, Type.DOUBLE))
                one = self.call("+", self.formula(depth - 1), Literal(0.0, Type.DOUBLE))
                other = self.call("+", self.formula(0), Literal(0.0, Type.DOUBLE))
                return Case(((condition, one),), other, one.type) if one.type is other.type else one
            case "round":
                return self.call("round", self.formula(depth - 1), Literal(1, Type.INT))
            case "log10" | "log2":
                return self.call(name, self.formula(depth - 1))
        return self.call(name, self.formula(depth - 1), self.formula(0))


def case(random):
    """A formula that reads x, and domains of its columns."""
    while True:
        formulas = Formulas(random)
        expression = formulas.formula(int(random.integers(1, 5)))
        if expression.type.is_numeric and "x" in columns_of(expression):
            options = NARROW if formulas.smooth else DOMAINS
            domains = {c.name: options[random.integers(len(options))] for c in formulas.columns}
            return expression, {n: d for n, d in domains.items() if d != Domain()}, formulas.columns


def spread(random, domain, column, many):
    low, high = max(domain.low, -1e3), min(domain.high, 1e3)
    low, high = min(low, high), max(low, high)
    plain = random.uniform(low, high, many)
    near = np.clip(random.normal(0, 3, many), low, high)
    values = np.where(random.random(many) < 0.5, plain, near)
    values[:2] = low, high
    if column.type is Type.INT:
        return np.clip(np.rint(values), np.ceil(low), np.floor(high))
    return values.astype(np.float32).astype(np.float64) if column.type is Type.REAL else values


def within(domain, values):
    return np.where((values < domain.low) | (values > domain.high), np.nan, values)


def batch_of(columns, values):
    return pa.RecordBatch.from_pydict({c.name: pa.array(values[c.name]).cast(c.type.arrow) for c in columns})


def lines_of(random, expression, domains, columns):
    """Values of x in order, values of the others, and the formula's: a row per choice of the others."""
    by_name = {c.name: c for c in columns}
    x = np.unique(within(domains.get("x", Domain()), spread(random, domains.get("x", Domain()), by_name["x"], PLACES)))
    x = x[~np.isnan(x)]
    others = {
        n: within(domains.get(n, Domain()), spread(random, domains.get(n, Domain()), by_name[n], LINES)) for n in "yz"
    }
    fine = ~np.isnan(others["y"]) & ~np.isnan(others["z"])
    others = {n: v[fine] for n, v in others.items()}
    many = int(fine.sum())
    values = {"x": np.tile(x, many), **{n: np.repeat(v, len(x)) for n, v in others.items()}}
    found = evaluate(expression, batch_of(columns, values), many * len(x)).values
    numbers = np.asarray(found.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64).copy()
    numbers[~np.isfinite(numbers)] = np.nan
    return x, others, numbers.reshape(many, len(x))


def violations(shape, f):
    """Lines with their places a < b < c where f(b) is greater than allowed, the worst per line."""
    f = np.where(np.isnan(f), INFINITE, f)
    left = np.minimum.accumulate(f, axis=1)
    right = np.minimum.accumulate(f[:, ::-1], axis=1)[:, ::-1]
    seen = np.where(np.isinf(f), -INFINITE, f)
    nothing = np.full((len(f), 1), INFINITE)
    before, after = np.hstack([nothing, left[:, :-1]]), np.hstack([right[:, 1:], nothing])
    limit = {Shape.RISING: after, Shape.FALLING: before, Shape.QUASICONVEX: np.maximum(before, after)}[shape]
    gap = np.where(np.isinf(limit), -INFINITE, seen - np.where(np.isinf(limit), 0.0, limit))
    for line in np.flatnonzero((gap > 1e-9 * np.abs(limit)).any(axis=1) & (gap.max(axis=1) > 0)):
        b = int(gap[line].argmax())
        a = int(f[line, :b].argmin()) if b else b
        c = b + 1 + int(f[line, b + 1 :].argmin()) if b + 1 < f.shape[1] else b
        yield int(line), {Shape.RISING: (b, c), Shape.FALLING: (a, b), Shape.QUASICONVEX: (a, b, c)}[shape], b


def at_points(expression, x, others):
    here = {n: Interval(np.full(len(x), v), np.full(len(x), v)) for n, v in others.items()}
    return enclose(expression, Box({**here, "x": Interval(x, x)}, frozenset({*here, "x"})))


def is_real(expression, x, others, places, b):
    """Whether a violation is more than rounding: the enclosures at its points do not overlap."""
    with np.errstate(all="ignore"):
        values = at_points(expression, x[list(places)], others)
    shape = (len(places),)
    low, high = np.broadcast_to(values.low, shape), np.broadcast_to(values.high, shape)
    middle = places.index(b)
    return all(low[middle] > high[i] for i in range(len(places)) if i != middle)


def contradiction(verdict, expression, x, others, f):
    for line, places, b in violations(verdict.shape, f):
        fixed = {n: float(v[line]) for n, v in others.items()}
        if is_real(expression, x, fixed, places, b):
            return f"{to_sql(expression)}: {verdict}, but {x[list(places)]} gives {f[line, list(places)]} at {fixed}"
    return None


def refutation_holds(verdict, expression, columns):
    a, b, c = (value for name, value in verdict.at if name == "x")
    fixed = {"y": 1.0, "z": 1.0} | {name: value for name, value in verdict.at if name != "x"}
    values = {name: np.full(3, value) for name, value in fixed.items()}
    found = evaluate(expression, batch_of(columns, {"x": np.array([a, b, c]), **values}), 3).values.to_pylist()
    return a < b < c and found[1] > max(found[0], found[2])


def test_random_formulas_never_contradict_a_verdict(monkeypatch):
    random = np.random.default_rng(SEED)
    seen: Counter[Shape | type] = Counter()
    for number in range(MANY):
        # What is proved in a few boxes is most of what is proved in many, and much faster to find.
        monkeypatch.setattr(proof, "BUDGET", FULL if number % 200 == 0 else 1_200)
        monkeypatch.setattr(requirements, "_BOXES", 600)
        expression, domains, columns = case(random)
        verdict = certify(expression, "x", domains)
        seen[verdict.shape if isinstance(verdict, Proved) else type(verdict)] += 1
        match verdict:
            case Proved():
                assert not (
                    wrong := contradiction(verdict, expression, *lines_of(random, expression, domains, columns))
                ), wrong
            case Refuted():
                assert refutation_holds(verdict, expression, columns), (to_sql(expression), domains, verdict)
    print(dict(seen))  # noqa: T201 - how often it found what
    assert min(seen[kind] for kind in (*Shape, Refuted, Undecided)) > MANY / 100


def test_a_wrong_verdict_would_be_noticed():
    random = np.random.default_rng(SEED)
    noticed: Counter[Any] = Counter()
    for _ in range(200):
        expression, domains, columns = case(random)
        if isinstance(certify(expression, "x", domains), Refuted):
            wrong = Proved(Shape.QUASICONVEX, "it is not")
            lines = lines_of(random, expression, domains, columns)
            noticed[contradiction(wrong, expression, *lines) is not None] += 1
    assert noticed[True] > 4 * noticed[False], noticed


@pytest.mark.parametrize("seed", range(5))
def test_values_lie_within_their_enclosures(seed):
    random = np.random.default_rng(seed)
    for _ in range(50):
        expression, domains, columns = case(random)
        x, others, f = lines_of(random, expression, domains, columns)
        if not f.size:
            continue
        box = {"x": (x.min(), x.max()), **{n: (v.min(), v.max()) for n, v in others.items()}}
        with np.errstate(all="ignore"):
            found = enclose(expression, Box({n: Interval(np.array([a]), np.array([b])) for n, (a, b) in box.items()}))
        slack = 1e-9 * (1 + np.nanmax(np.abs(f), initial=0.0))
        if slack < 1:
            assert np.nanmin(f, initial=INFINITE) >= found.low[0] - slack, (to_sql(expression), box)
            assert np.nanmax(f, initial=-INFINITE) <= found.high[0] + slack, (to_sql(expression), box)


@pytest.mark.parametrize("seed", range(5))
def test_a_slope_encloses_the_steepness_between_any_two_points(seed):
    random = np.random.default_rng(seed)
    checked = 0
    for _ in range(50):
        expression, domains, columns = case(random)
        x, others, f = lines_of(random, expression, domains, columns)
        steepness = np.diff(f, axis=1) / np.diff(x)
        if not steepness.size or certify(expression, "x", domains).__class__ is Undecided:
            continue  # it may have no value between the points
        many = {n: np.repeat(v, len(x) - 1) for n, v in others.items()}
        box = Box({n: Interval(v, v) for n, v in many.items()}, frozenset("xyz"))
        with np.errstate(all="ignore"):
            found = jet_of(
                expression, "x", box.with_column("x", Interval(np.tile(x[:-1], len(f)), np.tile(x[1:], len(f))))
            )
        noise = 1e-9 * (1 + np.nanmax(np.abs(f), initial=0.0)) / np.diff(x).min()
        if noise < 1:
            steep = steepness.ravel()
            assert not (steep < found.slope.low - noise).any(), to_sql(expression)
            assert not (steep > found.slope.high + noise).any(), to_sql(expression)
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("seed", range(5))
def test_a_bend_encloses_how_slopes_change(seed):
    random = np.random.default_rng(seed)
    for _ in range(50):
        expression, domains, columns = case(random)
        x, others, _f = lines_of(random, expression, domains, columns)
        if not len(x) > 1 or not len(others["y"]) or certify(expression, "x", domains).__class__ is Undecided:
            continue
        box = Box({n: Interval(v[:1], v[:1]) for n, v in others.items()}, frozenset("xyz"))
        with np.errstate(all="ignore"):
            ends = jet_of(expression, "x", box.with_column("x", Interval(x, x))).slope
            bend = jet_of(expression, "x", box.with_column("x", Interval(x[:-1], x[1:]))).bend
            low = (np.broadcast_to(ends.low, x.shape)[1:] - np.broadcast_to(ends.high, x.shape)[:-1]) / np.diff(x)
            high = (np.broadcast_to(ends.high, x.shape)[1:] - np.broadcast_to(ends.low, x.shape)[:-1]) / np.diff(x)
        known = np.isfinite(low) & np.isfinite(high)
        assert not (known & (low > bend.high + 1e-9 * np.abs(low))).any(), to_sql(expression)
        assert not (known & (high < bend.low - 1e-9 * np.abs(high))).any(), to_sql(expression)
