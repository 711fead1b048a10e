"""JSON lines to elements and dead letters; the fast and the slow path agree."""

from __future__ import annotations

import json
import math
import pickle

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.reading import read_rows

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import DecodedBatch, Decoder, ParsedRows, make_decoder
from tidegate.connectors.jsonl import JsonParser
from tidegate.connectors.lines import Lines
from tidegate.connectors.source import open_source
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING

SCHEMA = Schema.of(
    t=Type.BIGINT, i=Type.INT, d=Type.DOUBLE, r=Type.REAL, s=Type.STRING, b=Type.BOOLEAN, z=Type.TIMESTAMP
)
STREAM = SourceStream("bid", SCHEMA, "a.jsonl", "t")


def raw(*lines: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["line"])


def decoder(*columns: str) -> Decoder:
    return open_source(STREAM).decoder(frozenset(columns or SCHEMA.names))


def values(ingested: DecodedBatch) -> list:
    """Of decoders of one column, its values."""
    return ingested.batch.columns.column(0).to_pylist()


def dead(ingested: DecodedBatch) -> list[tuple]:
    assert ingested.rows == len(ingested.batch) + ingested.dead.num_rows
    return [tuple(letter.values())[1:5] for letter in ingested.dead.to_pylist()]


def of_column(name: str, *jsons: str) -> DecodedBatch:
    return decoder(name).decode(raw(*(f'{{"t": 1, "{name}": {value}}}' for value in jsons)), BEGINNING)


def test_keys_are_columns_and_a_missing_key_is_null():
    out = decoder("i", "s").decode(raw('{"t": 5, "s": "x", "i": 1}', '{"t": 6, "extra": [1]}'), BEGINNING)
    assert out.batch.columns.to_pylist() == [{"i": 1, "s": "x"}, {"i": None, "s": None}]
    assert (out.batch.start.tolist(), out.latest, dead(out)) == ([5, 6], 6, [])
    assert out.batch.columns.schema == pa.schema([("i", pa.int32()), ("s", pa.string())])


def test_numbers_of_any_form_fit_if_their_value_does():
    assert values(of_column("i", "1.0", "1e3", "-0", "-2.50e1", "0e9")) == [1, 1000, 0, -25, 0]
    assert values(of_column("d", "1", "1.5", "-0.0", "1e-999", "12345678901234567890")) == [
        1,
        1.5,
        0,
        0,
        12345678901234567890.0,
    ]
    assert dead(of_column("i", "1.5", "3000000000", "1e400", "true"))[0][:3] == (
        "malformed",
        "column 'i': '1.5' is not a valid INT",
        1,
    )
    assert len(dead(of_column("i", "1.5", "3000000000", "1e400", "true"))) == 4


def test_strings_are_read_like_fields_of_a_csv_file():
    assert values(of_column("i", '"7"', '" +8 "')) == [7, 8]
    assert values(of_column("b", '"true"', "false", '"F"')) == [True, False, False]
    assert [letter[1] for letter in dead(of_column("d", '"x"', '""'))] == [
        "column 'd': 'x' is not a valid DOUBLE",
        "column 'd': '' is not a valid DOUBLE",
    ]


def test_what_is_no_string_becomes_its_json_text():
    given_values = ["5", "1.10", "true", "null", '{"a": [1.50, "ä", {}]}', "[ ]", '"\\u00e4\\n"', '""']
    assert values(of_column("s", *given_values)) == [
        "5",
        "1.10",
        "true",
        None,
        '{"a": [1.50, "ä", {}]}',
        "[]",
        "ä\n",
        "",
    ]


def test_numbers_that_json_does_not_know_are_read_as_python_writes_them():
    nan, inf = values(of_column("d", "NaN", "-Infinity"))
    assert math.isnan(nan)
    assert inf == -math.inf
    assert [letter[0] for letter in dead(of_column("d", "Inf"))] == ["malformed"]


def test_half_a_surrogate_pair_is_no_text():
    out = of_column("s", '"\\ud800"', '"\\ud83d\\ude00"')
    assert values(out) == ["\U0001f600"]
    assert dead(out) == [("malformed", "column 's': '\\\\ud800' is not a valid STRING", 1, '{"t": 1, "s": "\\ud800"}')]


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ('{"t": 1', "the line is not JSON: Expecting ',' delimiter at character 8"),
        ("[1]", "the line is not a JSON object"),
        ("7", "the line is not a JSON object"),
        ('{"t": 1} {"t": 2}', "the line is not JSON: Extra data at character 10"),
        ('{"t": 1}\0}', "the line is not JSON: Extra data at character 9"),
        ("t,s", "the line is not JSON: Expecting value at character 1"),
    ],
)
def test_a_line_that_is_no_object_is_malformed_alone(line, detail):
    out = decoder("t").decode(raw('{"t": 1}', line, '{"t": 2}'), BEGINNING)
    assert values(out) == [1, 2]
    assert dead(out) == [("malformed", detail, None, line)]


def test_objects_over_several_lines_are_no_lines_of_json():
    out = decoder("t").decode(raw('{"t": 1} {"t": 2}', '{"t":', "3}"), BEGINNING)
    assert (len(out.batch), out.dead.num_rows) == (0, 3)


def test_times_that_are_missing_or_late_are_set_aside_as_json():
    lines = raw('{"s": "a"}', '{"t": null}', '{"t": ""}', '{"t": 3, "s": "b\\""}', '{"t": 2000003}', '{"t": 1e30}')
    out = decoder("s").decode(lines, 2_000_003)
    assert (values(out), out.latest) == ([None], 2_000_003)
    assert dead(out) == [
        ("no_time", "the time column 't' is empty", None, '{"t": null, "s": "a"}'),
        ("no_time", "the time column 't' is empty", None, '{"t": null, "s": null}'),
        ("no_time", "the time column 't' is empty", None, '{"t": null, "s": null}'),
        ("late", "late by 2 seconds: the time 3 is before the watermark 2000003", 3, '{"t": 3, "s": "b\\""}'),
        ("malformed", "column 't': '1e30' is not a valid BIGINT", None, '{"t": 1e30}'),
    ]


def test_blank_lines_and_outer_space_do_not_matter():
    out = decoder("t").decode(raw("", "  \t", ' {"t": 1} \r', '\ufeff{"t": 2}'), BEGINNING)
    assert (values(out), out.rows) == ([1, 2], 2)


def test_the_last_of_equal_keys_counts():
    assert values(decoder("t").decode(raw('{"t": 1, "t": 2}'), BEGINNING)) == [2]


def test_a_deeply_nested_line_is_malformed_or_ignored_but_does_not_stop_the_stream():
    out = decoder("s").decode(raw('{"t": 1, "s": ' + "[" * 100_000 + "]" * 100_000 + "}", '{"t": 2}'), BEGINNING)
    assert (values(out), dead(out)[0][1]) == ([None], "the line is nested too deeply")


def test_a_decoder_travels_to_a_worker():
    sent = pickle.loads(pickle.dumps(decoder()))
    assert sent == decoder()


def as_lists(parsed: ParsedRows) -> tuple:
    columns = {n: ([repr(v) for v in c.values.to_pylist()], c.bad.tolist()) for n, c in parsed.columns.items()}
    return columns, dict(parsed.broken)


def test_keys_count_in_any_case_and_the_exact_one_first():
    lines = raw('{"T": 5, "I": 1}', '{"t": 6, "i": 2, "I": 3}', '{"T": 7, "I": 4, "i": null}', '{"t": 8}')
    assert [(o["t"], o["i"]) for o in decoder("t", "i").decode(lines, BEGINNING).batch.columns.to_pylist()] == [
        (5, 1),
        (6, 2),
        (7, None),
        (8, None),
    ]


def test_keys_in_another_case_take_the_fast_path():
    parser = JsonParser(Schema.of(temp=Type.DOUBLE, at=Type.TIMESTAMP, n=Type.INT).fields, frozenset({"at"}))
    lines = pa.array(['{"Temp": 1.5, "AT": "2026-01-01T00:00:00Z"}', '{"temp": 2.5, "at": null, "n": 1}'])
    parsed = parser.parse_block(Lines(lines, {}))
    assert parsed is not None
    assert parsed.columns["temp"].values.to_pylist() == [1.5, 2.5]
    assert parsed.columns["at"].values.is_valid().to_pylist() == [True, False]
    assert parsed.columns["n"].values.to_pylist() == [None, 1]


def test_what_looks_like_a_key_in_another_case_is_none():
    text = '{"t": 1, "i": null, "s": "I", "x": {"I": 5}}'
    assert decoder("i").decode(raw(text), BEGINNING).batch.columns.to_pylist() == [{"i": None}]


@pytest.mark.parametrize("broken", ["", "{"])
def test_a_column_that_no_line_has_is_told_apart_from_one_that_is_null(broken):
    lines = raw('{"t": 1, "i": null}', '{"t": 2, "S": "x"}', *filter(None, [broken]))
    assert decoder("i", "s", "d", "b").decode(lines, BEGINNING).lacking == {"d", "b"}


NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False).map(json.dumps),
    st.floats(width=32).map(json.dumps),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(
        ["0", "1", "2147483648", "9223372036854775808", "1.7976931348623159e308", "3.4028236e38", "Inf", "01"]
    ),
)
SIMPLE = st.one_of(
    NUMBERS,
    st.text(max_size=5).map(json.dumps),
    st.text(alphabet='a"\\/\0\x1f\x7f\ud800é{}', max_size=4).map(lambda s: f'"{s}"'),
    st.sampled_from(
        ["null", "true", "false", '"7"', '"2026-01-01"', '"2026-01-01T00:00:00.5+01:00"', "nul", "", "{}", "[1,]"]
    ),
)
KEYS = st.sampled_from([*SCHEMA.names, "T", "I", "D", "S", "other", "\\u0074", "\\u0054"])
OBJECTS = st.lists(st.tuples(KEYS, SIMPLE), max_size=4).map(
    lambda items: "{" + ",".join(f'"{k}":{v}' for k, v in items) + "}"
)
LINE = st.one_of(OBJECTS, st.tuples(OBJECTS, OBJECTS).map(" ".join), st.text(alphabet='{}"t:1, ', max_size=6))


def is_text(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return line.strip(" \t\r\n") != "" and "\n" not in line


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(LINE.map(lambda line: line.strip(" \t\r\n")).filter(is_text), min_size=1, max_size=4))
@example(['{"t":1} {"t":2}', "{}"])
@example(['{"s":"}', '{"}'])
@example(['{"r":0.1}', '{"r":3.4028235677973366e38}'])
def test_both_paths_agree_on_every_line(texts):
    parser = JsonParser(SCHEMA.fields, frozenset({"t"}))
    lines = Lines(pa.array(texts, pa.string()), {})
    fast, slow = parser.parse_block(lines), parser.parse_singly(lines)
    if fast is not None:
        assert as_lists(fast) == as_lists(slow)


VALUES = {
    Type.BIGINT: st.integers(-(2**63), 2**63 - 1),
    Type.INT: st.integers(-(2**31), 2**31 - 1),
    Type.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Type.REAL: st.floats(allow_nan=False, allow_infinity=False, width=32),
    Type.STRING: st.text(max_size=5).filter(lambda text: "Inf" not in text),  # which Arrow may take for a number
    Type.BOOLEAN: st.booleans(),
}


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({}, optional={f.name: VALUES[f.type] for f in SCHEMA if f.type in VALUES}), min_size=1
    )
)
def test_objects_that_python_writes_take_the_fast_path_and_come_back(objects):
    fields = tuple(f for f in SCHEMA if f.type in VALUES)
    parsed = JsonParser(fields, frozenset({"t"})).parse_block(Lines(pa.array([json.dumps(o) for o in objects]), {}))
    assert parsed is not None
    for field in fields:
        assert parsed.columns[field.name].values.to_pylist() == [o.get(field.name) for o in objects]


@settings(deadline=None)
@given(st.lists(LINE.filter(is_text), max_size=8), st.integers(0, 8))
def test_cutting_lines_into_blocks_anywhere_decodes_the_same(lines, cut):
    one = make_decoder(STREAM, frozenset(SCHEMA.names), JsonParser(SCHEMA.fields, frozenset({"t"})))
    whole = one.decode(raw(*lines), 0)
    parts = [one.decode(raw(*part), 0) for part in (lines[:cut], lines[cut:])]
    shown = [repr(row) for p in parts for row in p.batch.columns.to_pylist()]
    assert shown == [repr(row) for row in whole.batch.columns.to_pylist()]
    assert [letter for p in parts for letter in p.dead.to_pylist()] == whole.dead.to_pylist()


def test_a_column_without_time_in_its_name_can_be_the_time(tmp_path):
    (tmp_path / "a.json").write_text('{"at": "2026-01-01T00:00:00Z", "v": 1}\n{"at": "", "v": 2}\n')
    schema = Schema((Field("at", Type.TIMESTAMP), Field("v", Type.INT)))
    source = open_source(SourceStream("s", schema, str(tmp_path), "at"))
    source.check()
    [(batch, position)] = read_rows(source, None, 10)
    out = source.decoder(frozenset({"v"})).decode(batch, BEGINNING)
    assert (values(out), out.latest) == ([1], 1_767_225_600_000_000)
    assert dead(out) == [("no_time", "the time column 'at' is empty", None, '{"at": null, "v": 2}')]
    assert position["parts"]["a.json"][0] == [58, 2]
