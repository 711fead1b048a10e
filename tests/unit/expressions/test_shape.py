"""What the certifier proves, refutes and leaves open."""

from __future__ import annotations

import re
import time

import pyarrow as pa
import pytest
from support.written import expression as written

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.shape.proof import certify
from tidegate.expressions.shape.verdict import Proved, Refuted, Shape, Undecided
from tidegate.language.bind.names import VisibleStream
from tidegate.language.bind.query.expressions import bind_expression, without_aggregates
from tidegate.schema import Domain, Field, Type

RISING, FALLING, QUASICONVEX = Shape.RISING, Shape.FALLING, Shape.QUASICONVEX

G = "(ln(h / 100) + 18.678 * a / (257.14 + a))"
DEW = {"h": (1, 100), "a": (-40, 60), "s": (-40, 60)}
HEAT = (
    "-42.379 + 2.04901523*T + 10.14333127*R - 0.22475541*T*R - 0.00683783*T*T - 0.05481717*R*R"
    " + 0.00122874*T*T*R + 0.00085282*T*R*R - 0.00000199*T*T*R*R"
)
HOT = {"T": (80, 110), "R": (40, 100)}
CHILL = "35.74 + 0.6215*T - 35.75*power(V, 0.16) + 0.4275*T*power(V, 0.16)"
COLD = {"T": (-50, 50), "V": (3, 110)}
XY = {"x": (-5, 5), "y": (-5, 5)}
POSITIVE = {"x": (0.1, 50), "y": (0.1, 50)}

PROVED = [
    (f"{G} - s", DEW, "h", RISING),
    (f"{G} - s", DEW, "a", RISING),
    (f"{G} - s", DEW, "s", FALLING),
    (f"257.14 * {G} / (18.678 - {G}) - s", DEW, "h", RISING),
    (f"257.14 * {G} / (18.678 - {G}) - s", DEW, "a", RISING),
    (f"257.14 * {G} / (18.678 - {G}) - s", DEW, "s", FALLING),
    ("ln(h/100) + (18.678 - a/234.5) * (a/(257.14 + a)) - s", DEW, "a", RISING),
    ("2*x - 3*y + 1", {}, "x", RISING),
    ("2*x - 3*y + 1", {}, "y", FALLING),
    ("1/(1 + exp(-(0.3*x - 2*y + 1)))", {}, "x", RISING),
    ("1/(1 + exp(-(0.3*x - 2*y + 1)))", {}, "y", FALLING),
    ("1/(1 + exp(-(0.3*x - 2*y + 0.1*x*y)))", {"x": (0, 10), "y": (0, 10)}, "x", RISING),
    (HEAT, HOT, "R", (RISING, QUASICONVEX)),
    (HEAT, HOT, "T", (RISING, QUASICONVEX)),
    (CHILL, COLD, "T", RISING),
    (CHILL, COLD, "V", FALLING),
    (
        "13.12 + 0.6215*T - 11.37*power(V, 0.16) + 0.3965*T*power(V, 0.16)",
        {"T": (-50, 10), "V": (5, 100)},
        "V",
        FALLING,
    ),
    ("x*y", POSITIVE, "x", RISING),
    ("x*y", XY, "x", QUASICONVEX),
    ("x*y/(y + 1)", POSITIVE, "y", RISING),
    ("x/y", {"x": (-5, 5), "y": (1, 5)}, "x", RISING),
    ("x/y", {"x": (-5, 5), "y": (1, 5)}, "y", QUASICONVEX),
    ("x/y", {"x": (-5, 5), "y": (0, 5)}, "x", RISING),
    ("x/y", {"x": (-5, 5), "y": (-1, 5)}, "x", QUASICONVEX),
    ("x/(1 + x)", {"x": (0, 10_000)}, "x", RISING),
    ("x/(1 + x)", {"x": (0, None)}, "x", RISING),
    ("x/(x + y)", {"x": (0.1, 5), "y": (0.1, 5)}, "y", FALLING),
    ("x*x/(1 + x*x)", {}, "x", QUASICONVEX),
    ("greatest(abs(x - 3), abs(y + 2))", {}, "x", QUASICONVEX),
    ("greatest(abs(x - 3), abs(y + 2))", {}, "y", QUASICONVEX),
    ("greatest(x - 80, 20 - x)", {}, "x", QUASICONVEX),
    ("least(x, y)", {}, "x", RISING),
    ("x*x", {}, "x", QUASICONVEX),
    ("x*x", {"x": (0, 9)}, "x", RISING),
    ("x*x", {"x": (-9, 0)}, "x", FALLING),
    ("abs(x - 3) + y", {}, "x", QUASICONVEX),
    ("abs(x - 3) + y", {}, "y", RISING),
    ("abs(x - y)", {}, "x", QUASICONVEX),
    ("(x - y)*(x - y)", {}, "y", QUASICONVEX),
    ("sqrt(x*x + y*y)", {}, "x", QUASICONVEX),
    ("sqrt(abs(x)) + y", {}, "x", QUASICONVEX),
    ("power(x, 3)", {}, "x", RISING),
    ("power(x, 4) - y", {}, "x", QUASICONVEX),
    ("power(x, 1.5)", {"x": (0, None)}, "x", RISING),
    ("power(x, -2)", {"x": (1, None)}, "x", FALLING),
    ("power(2, x)", {}, "x", RISING),
    ("power(x, y)", {"x": (1, 5), "y": (0, 3)}, "x", RISING),
    ("power(x, y)", {"x": (1, 5), "y": (0, 3)}, "y", RISING),
    ("log(2, x) - log10(x) / 10 + log2(x)", {"x": (1, 5)}, "x", RISING),
    ("exp(-x)", {}, "x", FALLING),
    ("exp(x*x) - y", {}, "x", QUASICONVEX),
    ("exp(x) + exp(-x)", {}, "x", QUASICONVEX),
    ("exp(x) - x", {}, "x", QUASICONVEX),
    ("x*ln(x) + y", {"x": (0.05, 3)}, "x", QUASICONVEX),
    ("x*x + 0.5*x*x*x*x - 3*x*y", {"x": (-2, 2), "y": (-1, 1)}, "x", QUASICONVEX),
    ("(x*x + 1)/(x + 3)", {"x": (-2, 5)}, "x", QUASICONVEX),
    ("x*(1 - x)", {"x": (0, 0.4)}, "x", RISING),
    ("x*x*x - x", {"x": (1, 2)}, "x", RISING),
    ("x*x*x - 2*x*x + 1.4*x", {"x": (-5, 5)}, "x", RISING),
    ("sin(x)", {"x": (-1.5, 1.5)}, "x", RISING),
    ("sin(x)", {"x": (2, 4)}, "x", FALLING),
    ("cos(x) + y", {"x": (1, 6)}, "x", QUASICONVEX),
    ("tan(x)", {"x": (-1.5, 1.5)}, "x", RISING),
    ("atan(x*x) - y", {}, "x", QUASICONVEX),
    ("floor(x / 3) - ceil(y)", {}, "x", RISING),
    ("floor(x / 3) - ceil(y)", {}, "y", FALLING),
    ("round(x*x, 2) + sign(y)", {}, "x", QUASICONVEX),
    ("CAST(x*x AS INT)", {"x": (-100, 100)}, "x", QUASICONVEX),
    ("CAST(x AS REAL) + trunc(x)", {}, "x", RISING),
    ("CASE WHEN y > 3 THEN 2*x ELSE exp(x) END", {}, "x", RISING),
    ("coalesce(y, x)", {}, "x", RISING),
    ("x % 2 + y", {}, "y", RISING),
    ("x + ln(y)", {}, "x", RISING),
    ("x*(3 - y)", {"y": (0, 3)}, "x", RISING),
    ("x - x + y", {}, "x", RISING),
    ("least(x, 3) - y*y*y", {}, "y", FALLING),
    ("p*v/(t + 273.15)", {"p": (0, 10), "v": (0, 5), "t": (-40, 80)}, "t", FALLING),
    ("6.112*exp(17.67*a/(a + 243.5))*h*2.1674/(273.15 + a)", {"a": (-40, 60), "h": (0, 100)}, "a", RISING),
    ("exp(17.625*t/(243.04 + t))/exp(17.625*d/(243.04 + d))", {"t": (-40, 60), "d": (-40, 60)}, "d", FALLING),
    ("x/sqrt(1 + x*x)", {"x": (-10, 10)}, "x", RISING),
    ("exp(x)/(1 + exp(x))", {}, "x", RISING),
    ("sqrt(x*x - 1)", {"x": (1, 5)}, "x", RISING),
    ("0.5*m*v*v", {"m": (0, 9)}, "v", QUASICONVEX),
    ("atan2(x, y)", {"y": (1, 2)}, "x", RISING),
    ("log(x, 2)", {"x": (2, 5)}, "x", FALLING),
    ("sin(x) + 2*x", {}, "x", RISING),
    ("y/cos(x)*z", {"x": (0, 1), "y": (0, 1), "z": (0, 1)}, "x", RISING),
    ("-1/(2*cos(x))", {"x": (0, 1)}, "x", FALLING),
    ("p*v/(t + 273.15)", {"p": (0, 10), "v": (0, 5), "t": (-40, 80)}, "p", RISING),
]


def formula(text, type_=Type.DOUBLE):
    names = sorted(set(re.findall(r"\b[A-Za-z]\b", text)))
    fields = tuple(Field(name, type_) for name in names)
    scope = (VisibleStream("f", "f", fields, tuple(names)),)
    return bind_expression(written(text), without_aggregates(scope, "a formula"))


def domains(**bounds):
    none = (None, None)
    ends = {name: (none if pair is None else pair) for name, pair in bounds.items()}
    low, high = float("-inf"), float("inf")
    return {n: Domain(low if a is None else a, high if b is None else b) for n, (a, b) in ends.items()}


def verdict(text, variable, bounds, type_=Type.DOUBLE):
    return certify(formula(text, type_), variable, domains(**bounds))


@pytest.mark.parametrize(("text", "bounds", "variable", "shape"), PROVED)
def test_a_formula_that_has_a_shape_is_proved_to_have_it_within_a_second(text, bounds, variable, shape):
    expression, own = formula(text), domains(**bounds)
    start = time.process_time()
    found = certify(expression, variable, own)
    assert time.process_time() - start < 1
    assert isinstance(found, Proved), found
    assert found.shape in (shape if isinstance(shape, tuple) else (shape,)), found


@pytest.mark.parametrize(
    ("text", "bounds", "variable"),
    [
        ("sin(x)", {"x": (0, 7)}, "x"),
        ("sin(x)", {}, "x"),
        ("-x*x", {}, "x"),
        ("-x*x", {"x": (-1, 1)}, "x"),
        ("x*x*y", XY, "x"),
        ("-abs(x)", {}, "x"),
        ("-abs(x - y)", XY, "y"),
        ("x*(1 - x)", {"x": (0, 1)}, "x"),
        ("exp(-(x - 3)*(x - 3))", {"x": (0, 6)}, "x"),
        ("x*x*x*x - 2*x*x", {"x": (-2, 2)}, "x"),
        ("x*x*x - x + 5*y", {"x": (-2, 2), "y": (0, 1)}, "x"),
        ("least(x - 20, 80 - x)", {"x": (0, 100)}, "x"),
        ("sqrt(abs(x)) + sqrt(abs(x - 1))", {"x": (-2, 2)}, "x"),
        ("1/(1 + x*x)", {}, "x"),
        ("x/(1 + x*x)", {}, "x"),
        ("floor(x) - x", {"x": (0, 5)}, "x"),
    ],
)
def test_a_formula_that_turns_downwards_is_refuted_with_points_that_show_it(text, bounds, variable):
    found = verdict(text, variable, bounds)
    assert isinstance(found, Refuted), found
    a, b, c = (value for name, value in found.at if name == variable)
    rest = {name: value for name, value in found.at if name != variable}
    assert a < b < c
    assert value(text, rest | {variable: b}) > max(value(text, rest | {variable: p}) for p in (a, c))
    own = domains(**bounds)
    assert all(own[name].low <= value <= own[name].high for name, value in found.at if name in own)


def value(text, inputs):
    columns = {name: pa.array([float(number)]) for name, number in inputs.items()}
    return evaluate(formula(text), pa.RecordBatch.from_pydict(columns), 1).values[0].as_py()


@pytest.mark.parametrize(
    ("text", "bounds", "variable"),
    [
        ("x % 2", {}, "x"),
        ("CASE WHEN x > 3 THEN 1.0 ELSE 0.0 END", {}, "x"),
        ("nullif(x, 3)", {}, "x"),
        ("x > y", {}, "x"),
        ("length(CAST(x AS STRING))", {}, "x"),
        ("floor(x) - x/2", {"x": (0, 0.5)}, "x"),
        ("sin(1000000000 * x)", {"x": (-1, 1)}, "x"),
    ],
)
def test_what_is_not_understood_is_undecided(text, bounds, variable):
    assert isinstance(verdict(text, variable, bounds), Undecided)


@pytest.mark.parametrize(
    ("text", "bounds", "why"),
    [
        ("ln(x)", {}, "ln(x) may have no value: x must be > 0, but can be anything; declare CHECK (x > 0)"),
        (
            "ln(x) + 1",
            {"x": (0, 5)},
            "ln(x) may have no value: x must be > 0, but can be anything in [0, 5]; declare CHECK (x > 0)",
        ),
        (
            "sqrt(x)",
            {"x": (-1, None)},
            "sqrt(x) may have no value: x must be >= 0, but can be from -1 on; declare CHECK (x >= 0)",
        ),
        (
            "power(x, 0.16)",
            {"x": (None, 1)},
            "power(x, 0.16) may have no value: x must be >= 0, but can be up to 1; declare CHECK (x >= 0)",
        ),
        (
            "1/(x - 3)",
            {"x": (0, 5)},
            (
                "1.0 / (x - 3.0) may have no value: x - 3.0 must be other than 0, but can be anything in [-3, 2]; "
                "a declared domain of x that ensures this would help: CHECK (… BETWEEN … AND …)"
            ),
        ),
    ],
)
def test_a_formula_that_can_fail_is_undecided_and_told_what_to_declare(text, bounds, why):
    assert verdict(text, "x", bounds) == Undecided(why)


@pytest.mark.parametrize(
    "text", ["tan(x)", "log(x, 2)", "power(x, -1)", "power(y, x)", "power(x, -0.5)", "log2(x - y)"]
)
def test_every_function_that_can_fail_is_watched(text):
    assert "may have no value" in verdict(text, "x", {"x": (-4, 4), "y": (-1, 1)}).why


def test_whole_numbers_must_not_overflow():
    assert "too large for INT" in verdict("x - y", "x", {}, Type.INT).why
    assert "too large for BIGINT" in verdict("x * y", "x", {}, Type.BIGINT).why
    assert verdict("x - y", "x", {"x": (0, 9), "y": (0, 9)}, Type.INT).shape is RISING
    assert verdict("x / 2 - y / 3", "x", {}, Type.INT).shape is RISING
    assert isinstance(verdict("CAST(x AS INT)", "x", {}), Undecided)


def test_what_does_not_read_the_input_may_fail():
    """It has a value for all values of the input or for none."""
    assert verdict("x + ln(y) / z", "x", {}).shape is RISING
    assert isinstance(verdict("x + ln(y) / z", "y", {}), Undecided)


def test_a_constant_is_rising():
    assert verdict("y + 1", "x", {}) == Proved(RISING, "constant: nothing reads x")
    assert verdict("-x*x", "x", {"x": (3, 3)}) == Proved(RISING, "constant: x is always 3")


def test_an_empty_domain_is_undecided():
    assert verdict("x + y", "x", {"y": (3, 2)}) == Undecided("no number is in the domain of y")


@pytest.mark.parametrize(
    ("text", "bounds", "variable", "why"),
    [
        (f"{G} - s", DEW, "h", "rising: ln(h / 100.0) is rising for h in [1, 100]; the other terms do not read h"),
        (f"{G} - s", DEW, "s", "falling: -s is falling for s in [-40, 60]; the other terms do not read s"),
        ("x + exp(x)", {}, "x", "rising: a sum of rising terms for all x"),
        (
            "exp(x) + exp(-x) + y",
            {},
            "x",
            "quasiconvex: a sum of convex terms for all x; the other terms do not read x",
        ),
        ("x*(1 - x)", {"x": (0, 0.25)}, "x", "rising: the derivative by x lies in [0.5, 1]"),
        (
            "x*y",
            {},
            "x",
            "quasiconvex: x * y is linear for all x, in a direction that depends on the other inputs",
        ),
        (
            "greatest(abs(x), y) - 1",
            {},
            "x",
            (
                "quasiconvex: greatest(abs(x), y) is the greatest of quasiconvex terms for all x; "
                "the other terms do not read x"
            ),
        ),
        (
            CHILL,
            COLD,
            "V",
            (
                "falling: it is falling in power(V, 0.16), which is rising in V: "
                "power(V, 0.16) is rising for V in [3, 110]"
            ),
        ),
        (
            "x*ln(x) - y",
            {"x": (1, 3)},
            "y",
            "falling: -y is falling for all y; the other terms do not read y",
        ),
        (
            "cos(x)",
            {"x": (1, 6)},
            "x",
            "quasiconvex: wherever the derivative by x can be 0, the second one is positive",
        ),
    ],
)
def test_a_proof_is_told_in_words(text, bounds, variable, why):
    assert verdict(text, variable, bounds).why == why


def test_a_refutation_is_told_in_words():
    assert verdict("x*x*y", "x", XY).why == (
        "not quasiconvex in x: it is 0 at x = 0, but -125 at -5 and -125 at 5 with y = -5"
    )


def test_an_open_question_is_told_in_words():
    assert verdict("sin(1000000000 * x)", "x", {"x": (-1, 1)}).why == (
        "neither proved nor refuted in x for x in [-1, 1]; narrower domains may help"
    )
