"""CSV lines to elements and dead letters."""

from __future__ import annotations

import csv
import gzip
import io
import pickle
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.reading import read_rows

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.csv_parser import CsvParser, Dialect
from tidegate.connectors.decode import DecodedBatch, Decoder, make_decoder
from tidegate.connectors.source import open_source
from tidegate.errors import DataError
from tidegate.physical.common.batch import concat
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING

SCHEMA = Schema.of(t=Type.BIGINT, name=Type.STRING, price=Type.DOUBLE)
EVERY = frozenset({"t", "name", "price"})


def stream(location="nowhere.csv", *, schema: Schema = SCHEMA, **options: str) -> SourceStream:
    return SourceStream("bid", schema, str(location), "t", options=tuple(options.items()))


def raw(*lines: str | bytes) -> pa.RecordBatch:
    data = [line.encode() if isinstance(line, str) else line for line in lines]
    texts = pa.array(data, pa.binary())
    return pa.RecordBatch.from_arrays([pa.StringArray.from_buffers(len(texts), *texts.buffers()[1:])], ["line"])


def decoder(columns: frozenset[str] = EVERY, *, dialect: Dialect | None = None) -> Decoder:
    fields = tuple(f for f in SCHEMA if f.name in columns | {"t"})
    places = tuple(SCHEMA.names.index(f.name) for f in fields)
    parser = CsvParser(dialect or Dialect(), "t,name,price", 3, fields, places, frozenset({"t"}))
    return make_decoder(stream(), columns, parser)


def rows(ingested: DecodedBatch) -> list[tuple]:
    return [tuple(row.values()) for row in ingested.batch.columns.to_pylist()]


def dead(ingested: DecodedBatch) -> list[tuple]:
    assert ingested.rows == len(ingested.batch) + ingested.dead.num_rows
    return [tuple(letter.values())[1:5] for letter in ingested.dead.to_pylist()]


def test_fields_become_values_of_the_declared_types():
    out = decoder().decode(raw("t,name,price", "10,x,1.5", "7,y,2"), BEGINNING)
    assert rows(out) == [(10, "x", 1.5), (7, "y", 2.0)]
    assert out.batch.columns.schema == SCHEMA.arrow
    assert (out.batch.start.tolist(), out.batch.end.tolist()) == ([10, 7], [11, 8])
    assert (out.latest, out.rows, dead(out)) == (10, 2, [])


def test_only_requested_columns_are_decoded_and_checked():
    out = decoder(frozenset({"name"})).decode(raw("10,x,no number"), BEGINNING)
    assert (rows(out), out.batch.columns.schema.names, dead(out)) == ([("x",)], ["name"], [])


def test_no_column_at_all_still_gives_elements():
    out = decoder(frozenset()).decode(raw("10,x,1", "bad,x,1", "11,x,1"), BEGINNING)
    assert (len(out.batch), out.batch.start.tolist(), out.batch.columns.num_columns) == (2, [10, 11], 0)


def test_an_empty_field_is_null_and_a_quoted_one_is_empty():
    out = decoder().decode(raw("1,,", '2,"",3', '3,"",""'), BEGINNING)
    assert rows(out) == [(1, None, None), (2, "", 3.0)]
    assert dead(out) == [("malformed", "column 'price': '' is not a valid DOUBLE", 3, '3,"",""')]


def test_an_empty_last_field_is_null_after_a_quoted_one():
    assert rows(decoder().decode(raw('1,"a",'), BEGINNING)) == [(1, "a", None)]


def test_quotes_protect_delimiters_and_are_doubled_inside():
    out = decoder().decode(raw('1,"a,b",1', '2,"say ""hi""",1', '3,5" pipe,1', '4,x"",1'), BEGINNING)
    assert [name for _, name, _ in rows(out)] == ["a,b", 'say "hi"', '5" pipe', 'x""']


UNCLOSED = "a quote is not closed, or is followed by something other than a delimiter"


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ('1,"open,1', UNCLOSED),
        ('1,"a"b,1', UNCLOSED),
        ('x"y,"z,1', UNCLOSED),
        ("1,a\rb,1", "the line contains a carriage return"),
        ('1,2",3"\n', UNCLOSED),
    ],
)
def test_a_line_that_would_run_into_the_next_is_malformed_alone(line, detail):
    out = decoder().decode(raw("1,a,1", line, "2,b,2"), BEGINNING)
    assert rows(out) == [(1, "a", 1.0), (2, "b", 2.0)]
    assert [letter[:3] for letter in dead(out)] == [("malformed", detail, None)]


def test_a_wrong_number_of_fields_is_malformed_even_if_no_column_is_asked_for():
    out = decoder(frozenset()).decode(raw("1,a,1", "2", "3,a,1,1", "4,b,2"), BEGINNING)
    assert out.batch.start.tolist() == [1, 4]
    assert dead(out) == [
        ("malformed", "1 field where 3 belong", None, "2"),
        ("malformed", "4 fields where 3 belong", None, "3,a,1,1"),
    ]


def test_a_value_of_another_type_is_malformed_with_column_value_and_type():
    out = decoder().decode(raw("1,a,cheap", "soon,b,1", "2,c,1"), BEGINNING)
    assert rows(out) == [(2, "c", 1.0)]
    assert dead(out) == [
        ("malformed", "column 'price': 'cheap' is not a valid DOUBLE", 1, "1,a,cheap"),
        ("malformed", "column 't': 'soon' is not a valid BIGINT", None, "soon,b,1"),
    ]


def test_a_row_without_time_or_with_an_impossible_one_is_set_aside():
    out = decoder().decode(raw(",a,1", '"",b,1', f"{2**61},c,1", f"{-(2**61)},d,1", f"{2**61 - 1},e,1"), BEGINNING)
    assert rows(out) == [(2**61 - 1, "e", 1.0)]
    assert dead(out) == [
        ("no_time", "the time column 't' is empty", None, '{"t": null, "name": "a", "price": 1}'),
        ("no_time", "the time column 't' is empty", None, '{"t": null, "name": "b", "price": 1}'),
        (
            "time_range",
            "column 't': 2305843009213693952 microseconds is too far from 1970 to be a time",
            None,
            '{"t": 2305843009213693952, "name": "c", "price": 1}',
        ),
        (
            "time_range",
            "column 't': -2305843009213693952 microseconds is too far from 1970 to be a time",
            None,
            '{"t": -2305843009213693952, "name": "d", "price": 1}',
        ),
    ]


def test_a_late_row_is_set_aside_but_counts_for_the_latest_time():
    out = decoder(frozenset({"name"})).decode(raw("99,a,1", "100,b,1"), 100)
    assert (rows(out), out.latest) == ([("b",)], 100)
    assert dead(out) == [
        ("late", "late by 1 microsecond: the time 99 is before the watermark 100", 99, '{"t": 99, "name": "a"}')
    ]
    assert decoder().decode(raw("99,a,1"), 100).latest == 99


def test_the_time_of_a_row_counts_whatever_columns_are_asked_for():
    lines = raw("500,a,cheap", "3,b,cheap")
    for columns in (EVERY, frozenset({"t"})):
        out = decoder(columns).decode(lines, 10)
        assert out.latest == 500
        assert ("late", 3) in [(reason, time) for reason, _, time, _ in dead(out)]


def test_timestamps_are_iso_8601_in_utc(tmp_path):
    (tmp_path / "a.csv").write_text(
        "t,v\n2026-01-01T01:00:00+01:00,1\n2026-01-01 00:00:01,2\n2025-12-31T23:59:58.5Z,3\n"
    )
    schema = Schema.of(t=Type.TIMESTAMP, v=Type.INT)
    source = open_source(stream(tmp_path / "a.csv", schema=schema))
    [(batch, _)] = read_rows(source, None, 10)
    mark = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
    out = source.decoder(frozenset({"t", "v"})).decode(batch, mark)
    assert rows(out) == [(datetime(2026, 1, 1, tzinfo=UTC), 1), (datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), 2)]
    assert dead(out) == [
        (
            "late",
            "late by 1.5 seconds: the time 2025-12-31T23:59:58.500000Z is before the watermark 2026-01-01T00:00:00Z",
            mark - 1_500_000,
            '{"t": "2025-12-31T23:59:58.500000Z", "v": 3}',
        )
    ]


def test_header_lines_blank_lines_line_ends_and_byte_order_marks_are_no_rows():
    out = decoder().decode(raw("\ufefft,name,price\r", "1,a,1\r", "", "\r", "t,name,price", "2,b,2"), BEGINNING)
    assert (rows(out), out.rows) == ([(1, "a", 1.0), (2, "b", 2.0)], 2)


def test_a_line_that_is_not_utf_8_is_malformed_alone():
    out = decoder().decode(raw("", "1,a,1", b"2,\xff\xfe,1", "3,ä,1"), BEGINNING)
    assert rows(out) == [(1, "a", 1.0), (3, "ä", 1.0)]
    assert dead(out) == [("malformed", "the line is not UTF-8", None, "2,\\xff\\xfe,1")]


def test_an_empty_batch_gives_nothing():
    for batch in (raw(), raw("", "t,name,price"), raw("oops")):
        out = decoder().decode(batch, BEGINNING)
        assert (len(out.batch), out.latest) == (0, None)
        assert out.batch.columns.schema == SCHEMA.arrow


def test_delimiter_quote_and_null_can_be_chosen():
    dialect = Dialect(delimiter=";", quote="'", null="NA")
    out = decoder(dialect=dialect).decode(raw("1;'a;\"b';NA", "2;'NA';", "3;NA;1"), BEGINNING)
    assert rows(out) == [(1, 'a;"b', None), (2, "NA", None), (3, None, 1.0)]


def test_quoting_can_be_turned_off():
    out = decoder(dialect=Dialect(quote="")).decode(raw('1,"a,2', '2,"b",3'), BEGINNING)
    assert rows(out) == [(1, '"a', 2.0), (2, '"b"', 3.0)]


@pytest.mark.parametrize("options", [{"delimiter": ";;"}, {"quote": ","}, {"delimiter": "€"}, {"header": "maybe"}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(DataError) as caught:
        open_source(stream(**options))
    assert caught.value.code == "D105"


def test_a_tab_may_be_written_as_a_word():
    assert Dialect.of(stream(delimiter="\\t")) == Dialect.of(stream(delimiter="tab")) == Dialect(delimiter="\t")


def test_a_row_of_tabs_is_a_row_of_nulls():
    out = decoder(dialect=Dialect(delimiter="\t")).decode(raw("\t\t"), BEGINNING)
    assert [letter[0] for letter in dead(out)] == ["no_time"]


def test_columns_are_found_by_header_name_without_regard_to_case_or_order(tmp_path):
    (tmp_path / "a.csv").write_text('"Price",extra,NAME , T\n1.5,x,a,10\n')
    source = open_source(stream(tmp_path / "a.csv"))
    source.check()
    [(batch, _)] = read_rows(source, None, 10)
    assert rows(source.decoder(EVERY).decode(batch, BEGINNING)) == [(10, "a", 1.5)]


def test_without_header_columns_are_found_by_position(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"10,a,1.5\n11,b,2"))
    source = open_source(stream(tmp_path / "a.csv.gz", header="false"))
    source.check()
    batches = [batch for batch, _ in read_rows(source, None, 10)]
    got = [row for batch in batches for row in rows(source.decoder(EVERY).decode(batch, BEGINNING))]
    assert got == [(10, "a", 1.5), (11, "b", 2.0)]


def failure(location, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        open_source(stream(location, **options)).check()
    return caught.value.render()


def test_a_header_that_lacks_a_column_shows_both_sides(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,name,prise\n")
    assert failure(path) == (
        f"error[D103]: stream 'bid': {path} has no column 'price'\n"
        "   declared: t, name, price\n"
        "   found:    t, name, prise\n"
        "   = hint: did you mean 'prise'? If the first line is data, add the option header = 'false'."
    )


@pytest.mark.parametrize(
    ("delimiter", "words", "written"), [(";", "semicolons", ";"), ("\t", "tabs", "tab"), ("|", "vertical bars", "|")]
)
def test_a_file_with_another_delimiter_is_answered_with_the_option(tmp_path, delimiter, words, written):
    path = tmp_path / "a.csv"
    path.write_text(delimiter.join(["t", "name", "price"]) + "\n" + delimiter.join(["10", "a", "1.5"]) + "\n")
    hint = f"   = hint: the fields are separated by {words}: add WITH (delimiter = '{written}')"
    assert failure(path).endswith(hint)
    assert failure(path, header="false").endswith(hint)
    open_source(stream(path, delimiter=written)).check()


def test_a_file_without_any_line_has_no_header_to_go_by(tmp_path):
    path = tmp_path / "a.csv"
    path.touch()
    assert failure(path) == (
        f"error[D103]: stream 'bid': {path} is empty and has no header\n"
        "   = hint: write the header line, or add the option header = 'false'"
    )
    open_source(stream(path, header="false")).check()


def test_a_file_with_lone_carriage_returns_is_an_error_that_says_how_to_convert_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"t,name,price\r1,a,1\r2,b,2\r")
    assert failure(path) == (
        f"error[D109]: the first line of {path} contains carriage returns\n"
        "   = hint: lines must end in a line feed, with or without a carriage return before it: "
        "convert the file, for example with tr '\\r' '\\n'"
    )


def test_a_header_field_that_is_too_long_for_csv_is_an_error_of_ours(tmp_path):
    (tmp_path / "a.csv").write_text(f"t,name,{'x' * 200_000}\n")
    assert failure(tmp_path / "a.csv").startswith(f"error[D109]: the first line of {tmp_path}/a.csv is not CSV: ")


def test_an_empty_file_beside_others_is_no_error(tmp_path):
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").write_text("t,name,price\n1,a,1\n")
    source = open_source(stream(tmp_path))
    source.check()
    assert [b.num_rows for b, _ in read_rows(source, None, 10)] == [2]


def test_a_file_of_other_width_without_header_shows_both_sides(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("10,a\n")
    assert failure(path, header="false") == (
        f"error[D103]: stream 'bid': the first line of {path} has 2 fields\n"
        "   declared: t, name, price\n"
        "   found:    10,a\n"
        "   = hint: declare every column"
    )


def test_each_file_of_a_folder_is_read_by_its_own_header(tmp_path):
    (tmp_path / "a.csv").write_text("t,name,price\n1,a,1\n")
    (tmp_path / "b.csv").write_text("price,extra,t,name\n2,x,2,b\n")
    source = open_source(stream(tmp_path))
    source.check()
    read = [source.decoder(EVERY).decode(batch, BEGINNING) for batch, _ in read_rows(source, None, 10)]
    assert [(rows(each), dead(each)) for each in read] == [([(1, "a", 1.0)], []), ([(2, "b", 2.0)], [])]


def test_a_decoder_travels_to_a_worker():
    sent = pickle.loads(pickle.dumps(decoder()))
    assert sent == decoder()
    assert rows(sent.decode(raw("1,a,1"), BEGINNING)) == [(1, "a", 1.0)]


LINES = st.one_of(
    st.text(alphabet='12,"x\r é', max_size=8),
    st.sampled_from(["1,a,1", "2,b,", "t,name,price", '3,"a,b",4', '9,"', '"1",a,2', "", "5,a,1,1", "7,a,x", ",a,1"]),
)


@settings(deadline=None)
@given(st.lists(LINES, max_size=12), st.lists(st.integers(0, 12), max_size=4), st.integers(0, 4))
def test_cutting_lines_into_blocks_anywhere_decodes_the_same(lines, cuts, watermark):
    places = sorted({0, len(lines), *(c for c in cuts if c < len(lines))})
    parts = [decoder().decode(raw(*lines[a:b]), watermark) for a, b in pairwise(places)] or [
        decoder().decode(raw(), watermark)
    ]
    whole = decoder().decode(raw(*lines), watermark)
    batch = concat([p.batch for p in parts])
    assert batch.columns.to_pylist() == whole.batch.columns.to_pylist()
    assert batch.start.tolist() == whole.batch.start.tolist()
    assert [letter for p in parts for letter in p.dead.to_pylist()] == whole.dead.to_pylist()
    assert max((p.latest for p in parts if p.latest is not None), default=None) == whole.latest
    assert sum(p.rows for p in parts) == whole.rows == len(whole.batch) + whole.dead.num_rows


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.text(alphabet='a", é\t'), st.sampled_from(["", "1", "2.5"]))))
def test_what_python_writes_is_read_as_it_was_meant(table):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    got = decoder().decode(raw(*out.getvalue().split("\n")), BEGINNING)
    assert rows(got) == [(t, name or None, float(p) if p else None) for t, name, p in table]


SOME_NUMBERS = ["1", "-2", "+3", " 4 ", "5.5", "1e2", "0x1F", "0X1", "nan", "", "9999999999", "1_0", "é", "\t7", "NULL"]
PLAIN = st.lists(st.sampled_from(SOME_NUMBERS), min_size=1, max_size=4).map(",".join)


@settings(deadline=None, max_examples=examples(300))
@given(
    st.lists(st.one_of(PLAIN, LINES), max_size=8),
    st.sampled_from(["", "\r"]),
    st.sampled_from([None, "t,name,price"]),
    st.sampled_from(["", "NULL"]),
)
def test_what_arrow_parses_at_once_is_what_careful_parsing_gives(lines, end, header, null):
    fields = (Field("t", Type.BIGINT), Field("name", Type.STRING), Field("price", Type.DOUBLE))
    parser = CsvParser(Dialect(null=null), header, 3, fields, (0, 1, 2), frozenset({"t"}))
    batch = raw(*([header] if header else []), *(line + end for line in lines))
    quick, careful = parser.parse_block(batch), parser.parse_carefully(batch)
    if quick is not None:
        assert careful.broken == {}
        assert len(quick) == len(careful)
        for name, column in careful.columns.items():
            assert not column.bad.any()
            assert column.values.cast(pa.string()) == quick.columns[name].values.cast(pa.string())
            assert column.values.type == quick.columns[name].values.type


NUMBERS = st.one_of(
    st.sampled_from(["", "0", "-0", "-0.0", "007", "-", ".", "5.", ".5", "-.5", "1e2", "0.1", "1.10", "é", "+1", " 1"]),
    st.integers(-(10**19), 10**19).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(st.integers(0, 2**53 + 2), st.integers(0, 17)).map(
        lambda d: f"{d[0] // 10 ** d[1]}.{d[0] % 10 ** d[1]:0{d[1]}}"
    ),
)


@settings(deadline=None, max_examples=examples(300))
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, st.text("aé. ", max_size=2)).map(",".join), min_size=1, max_size=5),
    st.integers(0, 2),
)
def test_plain_numbers_are_what_arrow_makes_of_them(lines, skipped):
    fields = (Field("n", Type.BIGINT), Field("i", Type.INT), Field("d", Type.DOUBLE), Field("s", Type.STRING))
    kept = [place for place in range(4) if place != skipped]
    parser = CsvParser(Dialect(), None, 4, tuple(fields[p] for p in kept), tuple(kept), frozenset())
    texts = pa.array(["left out", *lines]).slice(1)
    own = parser._parse_numbers(texts)
    if own is not None:
        assert [column.to_pylist() for column in own] == [c.to_pylist() for c in parser._parse_columns(texts)]
        assert [str(column) for column in own] == [str(c) for c in parser._parse_columns(texts)]  # also the sign of 0


def test_common_numbers_are_plain():
    fields = (Field("n", Type.BIGINT), Field("i", Type.INT), Field("d", Type.DOUBLE), Field("s", Type.STRING))
    parser = CsvParser(Dialect(), None, 4, fields, (0, 1, 2, 3), frozenset())
    own = parser._parse_numbers(pa.array(["1767225600000000,-7,0.123456789,AXP", ",,,"]))
    assert own is not None
    assert [column.to_pylist() for column in own] == [
        [1767225600000000, None],
        [-7, None],
        [0.123456789, None],
        ["AXP", None],
    ]
    for line in ("1,2147483648,1,", "1,2,3", "1,2,3,4,5", "1,2,1e2,", "1,2,0.12345678901234567,", "x,1,1,"):
        assert parser._parse_numbers(pa.array([line])) is None


def test_plain_rows_are_parsed_at_once():
    fields = (Field("t", Type.BIGINT), Field("name", Type.STRING), Field("price", Type.DOUBLE))
    parser = CsvParser(Dialect(), "t,name,price", 3, fields, (0, 1, 2), frozenset({"t"}))
    found = parser.parse_block(raw("t,name,price", "1,AXP,2.5", "2,é,\r"))
    assert found is not None
    assert found.columns["price"].values.to_pylist() == [2.5, None]
    assert found.places.tolist() == [1, 2]
