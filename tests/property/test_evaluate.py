"""Whole columns give what SQL says of each row: an interpreter of single rows, from the definitions."""

from __future__ import annotations

import math
import operator
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.expressions.coercion import can_cast, cast_can_fail
from tidegate.expressions.evaluate import Failure, evaluate
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.functions.signatures import FUNCTIONS
from tidegate.expressions.nodes import Call, Case, Cast, Column, InList, Literal
from tidegate.expressions.parse.values import parse_column
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Type

DAY = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BITS = {Type.INT: 31, Type.BIGINT: 63, Type.TIMESTAMP: 63, Type.INTERVAL: 63}

# Small domains on purpose: equal values, zeros and limits meet often.
DOMAINS: dict[Type, list[Any]] = {
    Type.BOOLEAN: [True, False],
    Type.INT: [0, 1, -1, 2, 7, -(2**31), 2**31 - 1],
    Type.BIGINT: [0, 1, -1, 3, 2**31, -(2**63), 2**63 - 1],
    Type.REAL: [0.0, -0.0, 1.5, float(np.float32(0.1)), math.nan, math.inf, float(np.float32(3e38))],
    Type.DOUBLE: [0.0, -0.0, 1.5, -2.5, 0.49999999999999994, math.nan, math.inf, -math.inf, 1e300, 2.0**31, 2.0**63],
    Type.STRING: [
        "",
        "a",
        "ab",
        "%",
        "a_b",
        "\\",
        " x ",
        "5",
        " +3\t",
        "-0",
        "1e3",
        "0x1",
        "nan",
        "T",
        "2024-02-29",
        "é",
    ],
    Type.TIMESTAMP: [0, -1, 1, 951_782_400_000_000, 1_700_000_000_123_456, -(2**63), 2**63 - 1],
    Type.INTERVAL: [0, 1, -1, 90_000_000, -DAY, -(2**63), 2**63 - 1],
}
TYPES = list(DOMAINS)
INEXACT = {"sin", "cos", "tan", "atan", "atan2", "exp", "ln", "log10", "log2", "log", "power", "pi"}
BY_RESULT = {
    t: [
        (f.name, s)
        for f in FUNCTIONS.values()
        for s in f.signatures
        if s.result is t and f.name not in INEXACT | {"position"} and not any(p.parts for p in s.parameters)
    ]
    for t in TYPES
}
COLUMNS = [Column(f"{t.name.lower()}{i}", t) for t in TYPES for i in (1, 2)]
FORMATTED_BY_ARROW = {Type.REAL, Type.DOUBLE}


# ---- random expressions


def literals(type_):
    values = DOMAINS[type_]
    if type_ in (Type.TIMESTAMP, Type.INTERVAL):  # Python's own datetimes do not reach the limits
        values = [as_python(v, type_) for v in values if abs(v) < 2**50]
    return st.sampled_from([*values, None]).map(lambda v: Literal(v, type_))


def as_python(micros, type_):
    delta = timedelta(microseconds=micros)
    return EPOCH + delta if type_ is Type.TIMESTAMP else delta


def leaves(type_):
    return st.one_of(st.sampled_from([c for c in COLUMNS if c.type is type_]), literals(type_))


@st.composite
def expressions(draw, type_, depth=3):
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(leaves(type_))

    def below(kind):
        return draw(expressions(kind, depth=depth - 1))

    makers = [call, case, choice, conversion] + (
        [comparison, logic, membership, likeness, null_test] if type_ is Type.BOOLEAN else []
    )
    return draw(st.sampled_from(makers))(draw, type_, below)


def call(draw, type_, below):
    if type_ is Type.TIMESTAMP and draw(st.integers(0, 3)) == 0:
        unit = draw(st.sampled_from(["microsecond", "second", "hour", "day", "week", "month", "quarter", "year"]))
        return Call("date_trunc", (Literal(unit, Type.STRING), below(Type.TIMESTAMP)), type_)
    name, signature = draw(st.sampled_from(BY_RESULT[type_]))
    return Call(name, tuple(below(p) for p in signature.parameters), type_)


def case(draw, type_, below):
    branches = tuple((below(Type.BOOLEAN), below(type_)) for _ in range(draw(st.integers(1, 2))))
    return Case(branches, below(type_), type_)


def choice(draw, type_, below):
    name = draw(st.sampled_from(["coalesce", "greatest", "least", "nullif"]))
    count = 2 if name == "nullif" else draw(st.integers(2, 3))
    return Call(name, tuple(below(type_) for _ in range(count)), type_)


def conversion(draw, type_, below):
    sources = [t for t in TYPES if can_cast(t, type_) and not (type_ is Type.STRING and t in FORMATTED_BY_ARROW)]
    return Cast(below(draw(st.sampled_from(sources))), type_)


def comparison(draw, _, below):
    kind = draw(st.sampled_from(TYPES))
    return Call(draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), (below(kind), below(kind)), Type.BOOLEAN)


def logic(draw, _, below):
    return Call(draw(st.sampled_from(["and", "or"])), (below(Type.BOOLEAN), below(Type.BOOLEAN)), Type.BOOLEAN)


def membership(draw, _, below):
    kind = draw(st.sampled_from(TYPES))
    return InList(below(kind), tuple(draw(st.lists(literals(kind), min_size=1, max_size=3))))


def likeness(draw, _, below):
    parts = draw(st.lists(st.sampled_from(["a", "b", "%", "_", "!%", "!_", "!!", "\\", "é"]), max_size=4))
    pattern = Literal("".join(parts), Type.STRING)
    return Call("like", (below(Type.STRING), pattern, Literal("!", Type.STRING)), Type.BOOLEAN)


def null_test(draw, _, below):
    return Call("is_null", (below(draw(st.sampled_from(TYPES))),), Type.BOOLEAN)


rows_of_columns = st.lists(
    st.fixed_dictionaries({c.name: st.sampled_from([*DOMAINS[c.type], None]) for c in COLUMNS}), max_size=5
)


# ---- the interpreter


class Failed(Exception):  # noqa: N818 - an outcome, not a mistake
    def __init__(self, failure):
        super().__init__(failure.name)
        self.failure = failure


def interpret(expression, row):
    """The value, with times as microseconds; raises Failed."""
    match expression:
        case Literal(value=datetime() as time):
            return (time - EPOCH) // timedelta(microseconds=1)
        case Literal(value=timedelta() as interval):
            return interval // timedelta(microseconds=1)
        case Literal(value=value):
            return value
        case Column(name=name):
            return row[name]
        case Call("and", sides):
            return decide(sides, row, deciding=False)
        case Call("or", sides):
            return decide(sides, row, deciding=True)
        case Call("coalesce", arguments):
            return next((v for v in (interpret(a, row) for a in arguments) if v is not None), None)
        case Case(branches=branches, otherwise=otherwise):
            taken = (v for c, v in branches if interpret(c, row) is True)
            return interpret(next(taken, otherwise), row)
        case Cast(argument=argument, type=type_):
            return convert(interpret(argument, row), argument.type, type_)
        case InList(argument=argument, options=options):
            return is_one_of(interpret(argument, row), [interpret(o, row) for o in options])
        case Call(function=function, arguments=arguments, type=type_):
            values, failures = outcomes(arguments, row)
            if failures:
                raise Failed(min(failures))
            return apply(function, values, type_)


def outcomes(arguments, row):
    values, failures = [], []
    for argument in arguments:
        try:
            values.append(interpret(argument, row))
        except Failed as failed:
            failures.append(failed.failure)
    return values, failures


def decide(sides, row, *, deciding):
    values, failures = outcomes(sides, row)
    if deciding in values:
        return deciding
    if failures:
        raise Failed(min(failures))
    return None if None in values else not deciding


def key(value):
    """Numbers in order, then NaN."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def is_one_of(value, options):
    if value is None:
        return None
    if any(o is not None and key(o) == key(value) for o in options):
        return True
    return None if None in options else False


def apply(function, values, type_):
    match function:
        case "is_null" | "is_true" | "is_false":
            return values[0] is {"is_null": None, "is_true": True, "is_false": False}[function]
        case "greatest" | "least":
            best = max if function == "greatest" else min
            return best((v for v in values if v is not None), key=key, default=None)
        case "nullif":
            return None if None not in values and key(values[0]) == key(values[1]) else values[0]
    if None in values:
        return None
    if function in ("=", "<>", "<", "<=", ">", ">="):
        return COMPARE[function](key(values[0]), key(values[1]))
    return fitted(FUNCTION[function](*values), type_)


COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def fitted(value, type_):
    if type_ in BITS and not -(2 ** BITS[type_]) <= value < 2 ** BITS[type_]:
        raise Failed(Failure.OVERFLOW)
    if type_ is Type.REAL:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value


def divide(a, b):
    if b == 0:
        raise Failed(Failure.DIVISION_BY_ZERO)
    return a / b


def towards_zero(a, b):
    if b == 0:
        raise Failed(Failure.DIVISION_BY_ZERO)
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a, b):
    if b == 0:
        raise Failed(Failure.DIVISION_BY_ZERO)
    if isinstance(a, float):
        return math.nan if math.isinf(a) or math.isnan(a) else math.fmod(a, b)
    return a - b * towards_zero(a, b)


def square_root(x):
    if x < 0:
        raise Failed(Failure.DOMAIN)
    return math.sqrt(x)


def whole(rounding):
    return lambda x: float(rounding(x)) if isinstance(x, float) and math.isfinite(x) else x


def half_away(x):
    return int(Decimal(x).quantize(Decimal(1), ROUND_HALF_UP)) if abs(x) < 2**60 else x


def rounded(x, digits=0):
    if isinstance(x, int):
        step = 10 ** min(max(-digits, 0), 30)
        return ((abs(x) * 2 + step) // (2 * step)) * step * (1 if x >= 0 else -1)
    if not math.isfinite(x) or digits > 308:
        return x
    if digits < -308:
        return 0.0
    if digits < 0:
        return half_away(x / 10.0**-digits) * 10.0**-digits
    scaled = x * 10.0**digits
    return half_away(scaled) / 10.0**digits if math.isfinite(scaled) else x


def substring(text, start, length=2**40):
    if length < 0:
        raise Failed(Failure.DOMAIN)
    return "".join(c for position, c in enumerate(text, 1) if start <= position < start + length)


def civil(day):
    """Year, month and day of days since 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms")."""
    day += 719_468
    era, day = divmod(day, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    return era * 400 + year + (month >= 10), (month + 2) % 12 + 1, day - (153 * month + 2) // 5 + 1


def day_number(year, month, day):
    low, high = -110_000_000, 110_000_000
    while low < high:  # the inverse of `civil`, by bisection
        middle = (low + high) // 2
        low, high = (middle + 1, high) if civil(middle) < (year, month, day) else (low, middle)
    return low


def truncated(unit, time):
    lengths = {"microsecond": 1, "second": 10**6, "hour": 3600 * 10**6, "day": DAY}
    if unit in lengths:
        return time // lengths[unit] * lengths[unit]
    if unit == "week":
        return (time - 4 * DAY) // (7 * DAY) * 7 * DAY + 4 * DAY
    year, month, _ = civil(time // DAY)
    first = {"month": month, "quarter": (month - 1) // 3 * 3 + 1, "year": 1}[unit]
    return day_number(year, first, 1) * DAY


def is_like(text, pattern, escape):
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == escape:
        return text[:1] == rest[:1] and bool(text) and is_like(text[1:], rest[1:], escape)
    if first == "%":
        return any(is_like(text[i:], rest, escape) for i in range(len(text) + 1))
    return bool(text) and first in ("_", text[0]) and is_like(text[1:], rest, escape)


FUNCTION = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "div": towards_zero,
    "%": remainder,
    "negate": operator.neg,
    "not": operator.not_,
    "abs": abs,
    "sign": lambda x: x if math.isnan(x) else type(x)((x > 0) - (x < 0)),
    "sqrt": square_root,
    "floor": whole(math.floor),
    "ceil": whole(math.ceil),
    "trunc": whole(math.trunc),
    "round": rounded,
    "||": lambda *texts: "".join(texts),
    "concat": lambda *texts: "".join(texts),
    "length": len,
    "upper": str.upper,
    "lower": str.lower,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "reverse": lambda text: text[::-1],
    "substring": substring,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": operator.contains,
    "strpos": lambda text, part: text.find(part) + 1,
    "left": lambda text, count: text[: max(count, 0)],
    "right": lambda text, count: text[max(len(text) - count, 0) :] if count > 0 else "",
    "like": is_like,
    "year": lambda time: civil(time // DAY)[0],
    "quarter": lambda time: (civil(time // DAY)[1] + 2) // 3,
    "month": lambda time: civil(time // DAY)[1],
    "day": lambda time: civil(time // DAY)[2],
    "dayofyear": lambda time: time // DAY - day_number(civil(time // DAY)[0], 1, 1) + 1,
    "dayofweek": lambda time: (time // DAY + 4) % 7 + 1,
    "hour": lambda time: time // (3600 * 10**6) % 24,
    "minute": lambda time: time // (60 * 10**6) % 60,
    "second": lambda time: time // 10**6 % 60,
    "date_trunc": truncated,
    "epoch_micros": lambda time: time,
    "epoch_seconds": lambda time: time / 1e6,
    "from_epoch_micros": lambda micros: micros,
}


# ---- casts, one value at a time


def convert(value, source, target):
    if value is None or source is target:
        return value
    if source is Type.STRING:
        return read(value.strip(), target)
    if target is Type.STRING:
        return write(value, source)
    if target is Type.BOOLEAN:
        return value != 0
    if target in (Type.INT, Type.BIGINT) and source.is_floating:
        if not math.isfinite(value):
            raise Failed(Failure.INVALID_CAST)
        return fitted(math.trunc(value), target)
    return fitted(float(value) if target.is_floating else int(value), target)


def read(text, target):
    try:
        value = READ[target](text)
    except ValueError:
        raise Failed(Failure.INVALID_CAST) from None
    if target in BITS and not -(2 ** BITS[target]) <= value < 2 ** BITS[target]:
        raise Failed(Failure.INVALID_CAST)
    return fitted(value, target)


def matching(pattern, text):
    found = re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError(text)
    return found


def read_boolean(text):
    return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}[
        matching("true|false|t|f|1|0", text)[0].lower()
    ]


def read_floating(text):
    return float(matching(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", text)[0])


def read_time(text):
    clock = r"(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(?:Z|([+-])(\d\d):?(\d\d)?)?"
    if re.search("[tz]", text):
        raise ValueError(text)
    found = matching(rf"(\d{{4}}|[+-]\d{{4,6}})-(\d\d)-(\d\d)(?:[T ]{clock})?", text)
    year, month, date, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction, sign, *zone = found.groups()[6:]
    if (number := day_number(year, month, date)) is None or civil(number) != (year, month, date):
        raise ValueError(text)
    hours, minutes = (int(part or 0) for part in zone)
    if hour > 23 or minute > 59 or second > 59 or hours > 23 or minutes > 59 or text.endswith(":"):
        raise ValueError(text)
    shift = (hours * 60 + minutes) * (-1 if sign == "-" else 1)
    seconds = (hour * 60 + minute - shift) * 60 + second
    return number * DAY + seconds * 10**6 + int(((fraction or "") + "000000")[:6])


UNITS = {
    "microsecond": 1,
    "millisecond": 10**3,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": DAY,
}


def read_interval(text):
    amount, unit = matching(r"([+-]?\d{1,18})\s*([a-z]+)", text).groups()
    singular = unit.lower().removesuffix("s")
    if singular not in UNITS | {"week": 7 * DAY}:
        raise ValueError(text)
    return int(amount) * (UNITS | {"week": 7 * DAY})[singular]


READ = {
    Type.BOOLEAN: read_boolean,
    Type.INT: lambda text: int(matching(r"[+-]?\d+", text)[0]),
    Type.BIGINT: lambda text: int(matching(r"[+-]?\d+", text)[0]),
    Type.REAL: read_floating,
    Type.DOUBLE: read_floating,
    Type.TIMESTAMP: read_time,
    Type.INTERVAL: read_interval,
}


def write(value, source):
    match source:
        case Type.BOOLEAN:
            return "true" if value else "false"
        case Type.TIMESTAMP:
            (year, month, day), micros = civil(value // DAY), value % DAY
            shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
            fraction = f".{micros % 10**6:06}" if micros % 10**6 else ""
            clock = f"{micros // 3_600_000_000:02}:{micros // 60_000_000 % 60:02}:{micros // 10**6 % 60:02}"
            return f"{shown}-{month:02}-{day:02}T{clock}{fraction}Z"
        case Type.INTERVAL:
            exact = [(u, n) for u, n in (UNITS | {"week": 7 * DAY}).items() if value % n == 0]
            unit, length = exact[-1] if value else ("second", 10**6)
            return f"{value // length} {unit}" + ("" if abs(value // length) == 1 else "s")
    return str(value)


# ---- the tests


def batch(rows):
    """The rows as columns that are slices of longer ones, as those of Arrow may be."""
    schema = pa.schema([(c.name, c.type.arrow) for c in COLUMNS])
    arrays = []
    for c in COLUMNS:
        plain = pa.int64() if c.type in (Type.TIMESTAMP, Type.INTERVAL) else c.type.arrow
        arrays.append(pa.array([None, *(r[c.name] for r in rows)], plain).cast(c.type.arrow))
    return pa.RecordBatch.from_arrays(arrays, schema=schema).slice(1)


def plain(array):
    return (array.cast(pa.int64()) if pa.types.is_temporal(array.type) else array).to_pylist()


def expected(expression, row):
    try:
        return interpret(expression, row), Failure.NONE
    except Failed as failed:
        return None, failed.failure


def same(a, b):
    return a == b or (a is not None and b is not None and key(a) == key(b))


@given(st.sampled_from(TYPES).flatmap(expressions), rows_of_columns)
def test_columns_give_what_single_rows_give_values_and_failures(expression, rows):
    result = evaluate(expression, batch(rows), len(rows))
    assert result.values.type == expression.type.arrow
    assert len(result.values) == len(rows)
    errors = [0] * len(rows) if result.errors is None else result.errors.tolist()
    for row, value, error in zip(rows, plain(result.values), errors, strict=True):
        wanted, failure = expected(expression, row)
        assert failure == error, (to_sql(expression), row)
        assert same(value, wanted), (to_sql(expression), row, value, wanted)
    assert result.errors is None or can_fail(expression)


@given(expressions(Type.BOOLEAN), rows_of_columns)
def test_a_row_does_not_depend_on_the_rows_around_it(expression, rows):
    together = evaluate(expression, batch(rows), len(rows)).values.to_pylist()
    alone = [evaluate(expression, batch([row]), 1).values[0].as_py() for row in rows]
    assert together == alone


LONG_NUMBERS = ["2147483647", "2147483648", "-2147483649", "9223372036854775807", "-9223372036854775808"]
LONGER_NUMBERS = ["9223372036854775808", "00000000000000000000007", "-0000000000000000000000000", "1" * 40, "1e400"]
NUMBER_TEXTS = st.text(alphabet="0159+-. eExX_naif", max_size=6) | st.sampled_from(
    [*LONG_NUMBERS, *LONGER_NUMBERS, "-Infinity", " 7 ", "\u00a07", "٣"]
)
TIME_TEXTS = st.tuples(
    st.sampled_from(
        ["2024-02-29", "2023-02-29", "1969-12-31", "0000-01-01", "-0001-12-31", "+12345-06-07", "2024-13-01", "24-1-1"]
    ),
    st.sampled_from(["", "T", " ", "t"]),
    st.sampled_from(["", "1", "12", "12:3", "12:34", "12:34:56", "24:00", "12:60", "12:34:60", "1234"]),
    st.sampled_from(["", ".", ".5", ".123456", ".1234567", ".123456789", ".1234567891"]),
    st.sampled_from(["", "Z", "z", "+01", "-0130", "+01:30", "-00:30", "+24:00", "+01:60", "+1", " Z"]),
).map("".join)


@given(
    st.lists(
        NUMBER_TEXTS | TIME_TEXTS | st.sampled_from([" TRUE", "f", "1 second", "5weeks", "-3 Hours", "2 moons", None])
    )
)
def test_texts_are_read_the_same_alone_and_together(texts):
    for type_ in TYPES:
        if type_ is Type.STRING:
            continue
        values, bad = parse_column(pa.array(texts, pa.string()), type_)
        for text, value, is_bad in zip(texts, plain(values), bad.tolist(), strict=True):
            try:
                wanted = None if text is None else read(text.strip(), type_)
            except Failed:
                assert is_bad, (text, type_)
                assert value is None
            else:
                assert not is_bad, (text, type_)
                assert same(value, wanted), (text, type_)
                alone, _ = parse_column(pa.array([text], pa.string()), type_)
                assert same(plain(alone)[0], wanted), (text, type_)


@given(st.lists(st.sampled_from(DOMAINS[Type.DOUBLE]), min_size=2))
def test_doubles_are_ordered_with_nan_last(values):
    ordered = sorted(values, key=key)
    columns = pa.RecordBatch.from_pydict({"a": pa.array([a for a, _ in pairwise(ordered)]), "b": ordered[1:]})
    pair = (Column("a", Type.DOUBLE), Column("b", Type.DOUBLE))
    assert evaluate(Call("<=", pair, Type.BOOLEAN), columns, len(ordered) - 1).values.to_pylist() == [True] * (
        len(ordered) - 1
    )


def test_casts_that_are_said_not_to_fail_do_not():
    rows = [
        dict.fromkeys((c.name for c in COLUMNS), None) | {c.name: v for c in COLUMNS if c.type is t}
        for t in TYPES
        for v in DOMAINS[t]
    ]
    for source in (c for c in COLUMNS if c.name.endswith("1")):
        for target in (t for t in TYPES if can_cast(source.type, t) and not cast_can_fail(source.type, t)):
            assert evaluate(Cast(source, target), batch(rows), len(rows)).errors is None
