"""Arrays and maps give in whole columns and as texts what they give one by one, from the definitions."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from reference import expressions as reference
from reference.values import Failed, canonical

from tidegate.collection_entries import identity_bytes
from tidegate.connectors.jsonl import JsonParser
from tidegate.connectors.lines import Lines
from tidegate.errors import NOWHERE
from tidegate.expressions.column_texts import column_texts
from tidegate.expressions.evaluate import ERRORS, evaluate
from tidegate.expressions.functions.resolve import can_fail, resolve
from tidegate.expressions.nodes import Call, Case, Cast, Column, Literal
from tidegate.expressions.parse.values import parse_column
from tidegate.physical.common.kernels.groups import canonical as written_alike
from tidegate.physical.common.kernels.groups import group_rows
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.common.kernels.order_codes import order_codes
from tidegate.schema import Schema, Type

# Small domains on purpose: equal elements meet often.
PLAIN: dict[Type, list[Any]] = {
    Type.INT: [0, 1, 2, -(2**31)],
    Type.BIGINT: [0, 1, 2, 2**40],
    Type.DOUBLE: [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-300, 0.1],
    Type.STRING: ["", "a", "b", "a,b", 'q"\\', "null", "é", "]"],
    Type.BOOLEAN: [True, False],
}
ARRAYS = [made for part in PLAIN if (made := Type.of_parts(part)) is not None]
MAPS = [t for t in Type if t.is_map]


def values(type_):
    if type_.is_array:
        return st.none() | st.lists(st.sampled_from([*PLAIN[type_.parts[0]], None]), max_size=5)
    if type_.is_map:
        key, value = type_.parts
        pair = st.tuples(st.sampled_from(PLAIN[key]), st.sampled_from([*PLAIN[value], None]))
        return st.none() | st.lists(pair, max_size=4, unique_by=lambda each: each[0])
    return st.sampled_from([*PLAIN[type_], None])


def columns(types, most=6):
    """Columns that are slices of longer ones, as those of Arrow may be, with entries below NULL."""

    def made(rows):
        arrays = []
        for place, type_ in enumerate(types):
            given = pa.array([row[place] for row in rows], type_.arrow)
            arrays.append(_hiding(given)[1:])
        return pa.RecordBatch.from_arrays(arrays, [f"c{i}" for i in range(len(types))])

    return st.lists(st.tuples(*map(values, types)), min_size=1, max_size=most).map(made)


def _hiding(column):
    """The same column, in which NULL hides entries of arrays."""
    if not pa.types.is_list(column.type) or not column.null_count:
        return column
    full = column.fill_null(pa.scalar([None], column.type))
    return pa.ListArray.from_arrays(full.offsets, full.values, mask=column.is_null())


def agrees(expression, batch):
    """Whether whole columns give what the reference says of each row."""
    result = evaluate(expression, batch, batch.num_rows)
    assert result.values.type == expression.type.arrow
    result.values.validate(full=True)
    errors = [0] * batch.num_rows if result.errors is None else result.errors.tolist()
    assert result.errors is None or can_fail(expression)
    for row, value, error in zip(batch.to_pylist(), result.values.to_pylist(), errors, strict=True):
        wanted = reference.evaluate(expression, {name: canonical(each) for name, each in row.items()})
        if isinstance(wanted, Failed):
            assert ERRORS[error] in wanted.kinds, (expression, row)
        else:
            assert (error, canonical(value)) == (0, wanted), (expression, row)


def called(name, *arguments):
    return resolve(name, arguments, NOWHERE)


@given(st.sampled_from(ARRAYS).flatmap(lambda t: st.tuples(st.just(t), columns([t, t]))))
def test_sets_are_compared_by_what_is_in_them(case):
    type_, batch = case
    pair = Column("c0", type_), Column("c1", type_)
    for function in ("overlap", "jaccard", "subset of", "superset of", "=", "<>", "nullif", "coalesce"):
        agrees(called(function, *pair), batch)
        constant = Call("array", tuple(Literal(v, type_.parts[0]) for v in PLAIN[type_.parts[0]][:2]), type_)
        agrees(called(function, pair[0], constant), batch)
        agrees(called(function, constant, constant), batch)
    agrees(Case(((called("subset of", *pair), pair[0]),), pair[1], type_), batch)


@given(st.sampled_from([t for t in MAPS if t.parts[1] is Type.DOUBLE]).flatmap(
    lambda t: st.tuples(st.just(t), columns([t, t]))
))  # fmt: skip
def test_the_inner_product_is_exact_and_does_not_depend_on_order(case):
    type_, batch = case
    pair = Column("c0", type_), Column("c1", type_)
    for expression in (called("inner_product", *pair), called("=", *pair), called("<>", *pair)):
        agrees(expression, batch)
    turned = [pa.array([v and v[::-1] for v in c.to_pylist()], type_.arrow) for c in batch.columns]
    product = called("inner_product", *pair)
    found = [evaluate(product, b, batch.num_rows).values for b in (batch, batch.from_arrays(turned, ["c0", "c1"]))]
    assert identity_of(found[0]) == identity_of(found[1])


def identity_of(column):
    return [canonical(v) for v in column.to_pylist()]


@given(st.sampled_from([*ARRAYS, *MAPS]).flatmap(
    lambda t: st.tuples(st.just(t), columns([t, Type.BIGINT if t.is_array else t.parts[0]]))
))  # fmt: skip
def test_what_they_hold_is_found(case):
    type_, batch = case
    collection, place = Column("c0", type_), Column("c1", Type.BIGINT if type_.is_array else type_.parts[0])
    agrees(called("element", collection, place), batch)
    agrees(called("element", collection, Literal(PLAIN[place.type][1], place.type)), batch)
    agrees(called("cardinality", collection), batch)


@given(columns([Type.STRING, Type.STRING, Type.ARRAY_STRING, Type.ARRAY_DOUBLE]))
def test_they_are_made_of_other_values(batch):
    a, b = Column("c0", Type.STRING), Column("c1", Type.STRING)
    keys, items = Column("c2", Type.ARRAY_STRING), Column("c3", Type.ARRAY_DOUBLE)
    agrees(called("array", a, b, Literal("a", Type.STRING)), batch)
    agrees(called("map", keys, items), batch)
    agrees(called("map", called("array", a, b), called("array", Literal(1, Type.INT), Literal(2, Type.INT))), batch)


@given(columns([Type.ARRAY_INT, Type.ARRAY_DOUBLE, Type.MAP_INT_INT, Type.MAP_STRING_DOUBLE]))
def test_casts_go_into_them(batch):
    for place, source, target in [
        (0, Type.ARRAY_INT, Type.ARRAY_DOUBLE),
        (1, Type.ARRAY_DOUBLE, Type.ARRAY_INT),
        (2, Type.MAP_INT_INT, Type.MAP_BIGINT_DOUBLE),
        (3, Type.MAP_STRING_DOUBLE, Type.MAP_STRING_INT),
    ]:
        agrees(Cast(Column(f"c{place}", source), target), batch)


# ---- keys


@given(st.sampled_from([*ARRAYS, *MAPS]).flatmap(lambda t: columns([t, t])))
def test_equal_values_are_one_key_and_others_are_not(batch):
    both = pa.concat_arrays(batch.columns)
    given_, size = [canonical(v) for v in both.to_pylist()], len(both)
    bytes_ = identity_bytes(both).to_pylist()
    hashes, codes = hash_columns([both]).tolist(), order_codes([both]).codes[0].tolist()
    known = written_alike(both)
    groups = group_rows([known[:0]], [known], groups=0, rows=size).groups.tolist()
    for i in range(size):
        for j in range(size):
            same = given_[i] == given_[j]
            assert (bytes_[i] == bytes_[j]) is same
            assert (groups[i] == groups[j]) is same
            assert hashes[i] == hashes[j] or not same
            if None not in (given_[i], given_[j]):
                assert (codes[i] == codes[j]) is same
    assert [canonical(v) for v in known.to_pylist()] == given_


# ---- texts


@given(st.sampled_from([*ARRAYS, *MAPS]).flatmap(lambda t: st.tuples(st.just(t), columns([t]))))
def test_what_is_written_can_be_read_again(case):
    type_, batch = case
    texts = column_texts(batch.column(0))
    for text in texts.drop_null().to_pylist():
        json.loads(text)
    read, bad = parse_column(texts, type_)
    assert not bad.any()
    assert identity_of(read) == identity_of(batch.column(0))


PIECES = st.lists(
    st.sampled_from([*'[]{},: "01', "-1", "2.5", "1e2", '"a"', '"1"', '"1":', "null", "true", '"\\u00e9"', '"NaN"']),
    max_size=7,
).map("".join)
TEXTS = PIECES | PIECES.map(lambda t: f"[{t}]") | PIECES.map(lambda t: "{" + t + "}")


@given(st.lists(TEXTS | st.none(), max_size=4), st.sampled_from([*ARRAYS, *MAPS]))
def test_texts_are_read_the_same_alone_and_together_and_as_json_says(texts, type_):
    read, bad = parse_column(pa.array(texts, pa.string()), type_)
    assert read.type == type_.arrow
    for text, value, is_bad in zip(texts, read.to_pylist(), bad.tolist(), strict=True):
        alone, bad_alone = parse_column(pa.array([text], pa.string()), type_)
        assert (canonical(alone[0].as_py()), bad_alone[0]) == (canonical(value), is_bad)
        wanted = by_json(text, type_)
        assert (is_bad, canonical(value)) == (wanted is WRONG, None if wanted is WRONG else canonical(wanted)), text


SCHEMA = Schema.of(i=Type.ARRAY_INT, d=Type.ARRAY_DOUBLE, s=Type.ARRAY_STRING, m=Type.MAP_STRING_DOUBLE)
OBJECTS = st.lists(st.tuples(st.sampled_from("idsm"), TEXTS), max_size=3).map(
    lambda items: "{" + ",".join(f'"{key}":{text}' for key, text in items) + "}"
)


@given(st.lists(OBJECTS, min_size=1, max_size=3))
def test_both_ways_to_read_lines_of_json_agree(texts):
    parser, lines = JsonParser(SCHEMA.fields, frozenset()), Lines(pa.array(texts, pa.string()), {})
    fast, slow = parser.parse_block(lines), parser.parse_singly(lines)
    for name in SCHEMA.names if fast is not None else ():
        one, other = fast.columns[name], slow.columns[name]
        assert (identity_of(one.values), one.bad.tolist()) == (identity_of(other.values), other.bad.tolist())


WRONG = object()


def by_json(text, type_):
    """The value that a text stands for, by way of Python's JSON."""
    try:
        value = None if text is None else json.loads(text, parse_int=Number, parse_float=Number)
    except ValueError:
        return WRONG
    if text is None:
        return None
    if type_.is_array and isinstance(value, list):
        made = [plain(each, type_.parts[0]) for each in value]
        return WRONG if WRONG in made else made
    if type_.is_map and isinstance(value, dict):
        pairs = [(plain(k, type_.parts[0]), plain(v, type_.parts[1])) for k, v in value.items()]
        keys = [k for k, _ in pairs]
        return WRONG if WRONG in [each for pair in pairs for each in pair] or len(set(keys)) < len(keys) else pairs
    return WRONG


class Number(str):
    """A number as it was written."""

    __slots__ = ()


def plain(value, type_):
    if value is None:
        return None
    if isinstance(value, Number) and type_.is_integer:
        return int(float(value)) if float(value).is_integer() else WRONG
    text = str(value) if isinstance(value, str) else dumped(value)
    read, bad = parse_column(pa.array([text], pa.string()), type_)
    return WRONG if bad[0] else read[0].as_py()


def dumped(value):
    match value:
        case Number():
            return str(value)
        case list():
            return "[" + ", ".join(map(dumped, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{dumped(k)}: {dumped(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
