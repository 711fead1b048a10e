"""The functions and operators of the language: their arguments, results and failures."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from itertools import product

from tidegate.expressions.failures import Failure
from tidegate.expressions.functions.time_functions import PARTS
from tidegate.schema import Type
from tidegate.values import value

BOOLEAN, INT, BIGINT, REAL, DOUBLE = Type.BOOLEAN, Type.INT, Type.BIGINT, Type.REAL, Type.DOUBLE
STRING, TIMESTAMP, INTERVAL = Type.STRING, Type.TIMESTAMP, Type.INTERVAL
ARRAYS, MAPS = tuple(t for t in Type if t.is_array), tuple(t for t in Type if t.is_map)
DIVISION_BY_ZERO, OVERFLOW, DOMAIN = Failure.DIVISION_BY_ZERO, Failure.OVERFLOW, Failure.DOMAIN


class Nulls(Enum):
    """The treatment of NULL arguments by a function."""

    PROPAGATE = "NULL if an argument is NULL"
    KLEENE = "NULL is unknown: three-valued logic"
    SKIP = "NULL arguments do not count; NULL if all are"
    SEE = "NULL is a value like any other"


@value
class Signature:
    """One way to call a function."""

    parameters: tuple[Type, ...]
    result: Type
    fails: tuple[Failure, ...] = ()

    def __str__(self) -> str:
        return "(" + ", ".join(p.name for p in self.parameters) + ")"


@value
class Function:
    """A function by name; one without signatures accepts arguments of many types, as described in `takes`."""

    name: str
    signatures: tuple[Signature, ...] = ()
    takes: str = ""
    nulls: Nulls = Nulls.PROPAGATE

    def usage(self) -> str:
        """Describe the arguments of the function."""
        return self.takes or " or ".join(dict.fromkeys(str(s) for s in self.signatures))


def _binary_numeric(*, integers: tuple[Failure, ...] = (), always: tuple[Failure, ...] = ()) -> tuple[Signature, ...]:
    """Return signatures from two numbers of one type to a number of that type."""
    whole = tuple(Signature((t, t), t, (*always, *integers)) for t in (INT, BIGINT))
    return whole + tuple(Signature((t, t), t, always) for t in (REAL, DOUBLE))


def _unary_numeric(*, integers: tuple[Failure, ...] = ()) -> tuple[Signature, ...]:
    """Return signatures from a number to a number of its type."""
    whole = tuple(Signature((t,), t, integers) for t in (INT, BIGINT))
    return whole + tuple(Signature((t,), t) for t in (REAL, DOUBLE))


def _set_pairs(result: Type) -> tuple[Signature, ...]:
    """Return signatures for two arrays of one type, treated as sets."""
    return tuple(Signature((t, t), result) for t in ARRAYS)


def _signature(parameters: Iterable[Type], result: Type, *fails: Failure) -> tuple[Signature, ...]:
    return (Signature(tuple(parameters), result, fails),)


_TWO_ARRAYS = "two arrays of a common type"

_OPERATORS = (
    Function(
        "+",
        _binary_numeric(integers=(OVERFLOW,))
        + _signature((TIMESTAMP, INTERVAL), TIMESTAMP, OVERFLOW)
        + _signature((INTERVAL, TIMESTAMP), TIMESTAMP, OVERFLOW)
        + _signature((INTERVAL, INTERVAL), INTERVAL, OVERFLOW),
    ),
    Function(
        "-",
        _binary_numeric(integers=(OVERFLOW,))
        + _signature((TIMESTAMP, TIMESTAMP), INTERVAL, OVERFLOW)
        + _signature((TIMESTAMP, INTERVAL), TIMESTAMP, OVERFLOW)
        + _signature((INTERVAL, INTERVAL), INTERVAL, OVERFLOW),
    ),
    Function(
        "*",
        _binary_numeric(integers=(OVERFLOW,))
        + _signature((INTERVAL, BIGINT), INTERVAL, OVERFLOW)
        + _signature((BIGINT, INTERVAL), INTERVAL, OVERFLOW),
    ),
    Function("/", _signature((DOUBLE, DOUBLE), DOUBLE, DIVISION_BY_ZERO)),
    Function("div", tuple(Signature((t, t), t, (DIVISION_BY_ZERO, OVERFLOW)) for t in (INT, BIGINT))),
    Function("%", _binary_numeric(always=(DIVISION_BY_ZERO,))),
    Function("negate", _unary_numeric(integers=(OVERFLOW,)) + _signature((INTERVAL,), INTERVAL, OVERFLOW)),
    Function("||", takes="two or more values, which become texts"),
    *(Function(name, takes="two values of a common type") for name in ("=", "<>", "<", "<=", ">", ">=")),
    Function("and", _signature((BOOLEAN, BOOLEAN), BOOLEAN), nulls=Nulls.KLEENE),
    Function("or", _signature((BOOLEAN, BOOLEAN), BOOLEAN), nulls=Nulls.KLEENE),
    Function("not", _signature((BOOLEAN,), BOOLEAN)),
    Function("is_null", takes="one value", nulls=Nulls.SEE),
    Function("is_true", _signature((BOOLEAN,), BOOLEAN), nulls=Nulls.SEE),
    Function("is_false", _signature((BOOLEAN,), BOOLEAN), nulls=Nulls.SEE),
    *(Function(name, _set_pairs(BOOLEAN), takes=_TWO_ARRAYS) for name in ("subset of", "superset of")),
    Function("array", takes="one or more values of a common type"),
    Function(
        "map",
        tuple(
            Signature((keys, values), map_, (DOMAIN,))
            for keys, values in product(ARRAYS, repeat=2)
            if (map_ := Type.of_parts(*keys.parts, *values.parts))
        ),
        takes="an array of INT, BIGINT or STRING keys and an array of INT, BIGINT or DOUBLE values",
    ),
    Function(
        "element",
        tuple(Signature((t, BIGINT), t.parts[0]) for t in ARRAYS)
        + tuple(Signature((t, t.parts[0]), t.parts[1]) for t in MAPS),
        takes="an array and the number of an element, or a map and a key",
    ),
    Function("like", takes="a STRING, a constant pattern and at most an escape character"),
)

_CHOICES = (
    Function("coalesce", takes="one or more values of a common type", nulls=Nulls.SKIP),
    Function("greatest", takes="one or more values of a common type", nulls=Nulls.SKIP),
    Function("least", takes="one or more values of a common type", nulls=Nulls.SKIP),
    Function("nullif", takes="two values of a common type", nulls=Nulls.SEE),
    Function("if", takes="a condition and two values of a common type", nulls=Nulls.SEE),
)

_MATHEMATICS = (
    Function("abs", _unary_numeric(integers=(OVERFLOW,)) + _signature((INTERVAL,), INTERVAL, OVERFLOW)),
    Function("sign", _unary_numeric()),
    Function(
        "round",
        _unary_numeric()
        + tuple(Signature((t, INT), t, (OVERFLOW,)) for t in (INT, BIGINT))
        + tuple(Signature((t, INT), t) for t in (REAL, DOUBLE)),
    ),
    *(Function(name, _unary_numeric()) for name in ("floor", "ceil", "trunc")),
    *(Function(name, _signature((DOUBLE,), DOUBLE, DOMAIN)) for name in ("sqrt", "ln", "log10", "log2")),
    *(Function(name, _signature((DOUBLE,), DOUBLE, DOMAIN)) for name in ("sin", "cos", "tan")),
    *(Function(name, _signature((DOUBLE,), DOUBLE)) for name in ("exp", "atan")),
    Function("atan2", _signature((DOUBLE, DOUBLE), DOUBLE)),
    *(Function(name, _signature((DOUBLE, DOUBLE), DOUBLE, DOMAIN)) for name in ("log", "power")),
    Function("pi", _signature((), DOUBLE)),
)

_TEXTS = (
    Function("concat", takes="one or more values, which become texts"),
    Function("length", _signature((STRING,), INT)),
    *(
        Function(name, _signature((STRING,), STRING))
        for name in ("upper", "lower", "trim", "ltrim", "rtrim", "reverse")
    ),
    Function("substring", _signature((STRING, INT), STRING) + _signature((STRING, INT, INT), STRING, DOMAIN)),
    Function("replace", _signature((STRING, STRING, STRING), STRING)),
    *(Function(name, _signature((STRING, STRING), BOOLEAN)) for name in ("starts_with", "ends_with", "contains")),
    Function("strpos", _signature((STRING, STRING), INT)),
    Function("position", _signature((STRING, STRING), INT)),
    *(Function(name, _signature((STRING, INT), STRING)) for name in ("left", "right")),
)

_TIMES = (
    *(Function(name, _signature((TIMESTAMP,), INT)) for name in PARTS),
    Function("date_part", takes="a constant part of a time and a TIMESTAMP"),
    Function("date_trunc", takes="a constant unit and a TIMESTAMP"),
    Function("epoch_micros", _signature((TIMESTAMP,), BIGINT) + _signature((INTERVAL,), BIGINT)),
    Function("epoch_seconds", _signature((TIMESTAMP,), DOUBLE) + _signature((INTERVAL,), DOUBLE)),
    Function("from_epoch_micros", _signature((BIGINT,), TIMESTAMP)),
)

_COLLECTIONS = (
    Function("cardinality", tuple(Signature((t,), BIGINT) for t in ARRAYS + MAPS), takes="an array or a map"),
    Function("overlap", _set_pairs(BIGINT), takes=_TWO_ARRAYS),
    Function("jaccard", _set_pairs(DOUBLE), takes=_TWO_ARRAYS),
    Function(
        "inner_product",
        tuple(Signature((t, t), DOUBLE) for t in MAPS if t.parts[1] is DOUBLE),
        takes="two maps of numbers with keys of a common type",
    ),
)

FUNCTIONS = {f.name: f for f in (*_OPERATORS, *_CHOICES, *_MATHEMATICS, *_TEXTS, *_TIMES, *_COLLECTIONS)}

ALIASES = {
    "!=": "<>",
    "ceiling": "ceil",
    "pow": "power",
    "mod": "%",
    "char_length": "length",
    "character_length": "length",
    "substr": "substring",
    "instr": "strpos",
    "dayofmonth": "day",
}
"""Other names of functions."""

NOT_NAMES = frozenset(f.name for f in _OPERATORS)
"""Operators, which are not written as calls."""
