"""Parquet files and tables in memory: typed columns cast without changing a value."""

from __future__ import annotations

import json
import os
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import progress_of, read_rows

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import DecodedBatch
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.ranges import START
from tidegate.connectors.source import open_source
from tidegate.connectors.typed_columns import cast_column, typed_decoder
from tidegate.errors import DataError
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING, FOREVER

SCHEMA = Schema.of(t=Type.BIGINT, v=Type.INT, s=Type.STRING)
EVERY = frozenset(SCHEMA.names)


def stream(location="dataframe://d", *, schema: Schema = SCHEMA, **options: str) -> SourceStream:
    return SourceStream("s", schema, str(location), "t", options=tuple(options.items()))


def dead(ingested: DecodedBatch) -> list[tuple]:
    assert ingested.rows == len(ingested.batch) + ingested.dead.num_rows
    return [tuple(letter.values())[1:5] for letter in ingested.dead.to_pylist()]


def cast(values: pa.Array, type_: Type) -> tuple[list, list[bool]]:
    column = cast_column(values, type_, is_time=False)
    assert column.values.type == type_.arrow
    return column.values.to_pylist(), column.bad.tolist()


@pytest.mark.parametrize(
    ("given_values", "type_", "expected"),
    [
        (pa.array([1, None], pa.int8()), Type.INT, [1, None]),
        (pa.array([1, None], pa.int32()), Type.BIGINT, [1, None]),
        (pa.array([7], pa.uint64()), Type.BIGINT, [7]),
        (pa.array([7.0, None]), Type.INT, [7, None]),
        (pa.array([Decimal("7.00"), None]), Type.BIGINT, [7, None]),
        (pa.array([1, None], pa.int64()), Type.DOUBLE, [1.0, None]),
        (pa.array([1.5, None], pa.float32()), Type.DOUBLE, [1.5, None]),
        (pa.array([Decimal("1.25")]), Type.DOUBLE, [1.25]),
        (pa.array([2**53 + 1]), Type.DOUBLE, [2.0**53]),
        (pa.array([1.5, float("inf")]), Type.REAL, [1.5, float("inf")]),
        (pa.array(["a", None], pa.large_string()), Type.STRING, ["a", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), Type.STRING, ["a", "b", "a"]),
        (pa.array(["7", None]), Type.INT, [7, None]),
        (pa.array([True, None]), Type.BOOLEAN, [True, None]),
        (pa.nulls(2), Type.DOUBLE, [None, None]),
        (pa.array([5], pa.duration("ms")), Type.INTERVAL, [timedelta(milliseconds=5)]),
    ],
)
def test_values_that_fit_are_cast(given_values, type_, expected):
    plain = given_values.dictionary_decode() if pa.types.is_dictionary(given_values.type) else given_values
    assert cast(plain, type_) == (expected, [False] * len(expected))


@pytest.mark.parametrize(
    ("given_values", "type_"),
    [
        (pa.array([2**31, -(2**31) - 1], pa.int64()), Type.INT),
        (pa.array([2**63, 2**64 - 1], pa.uint64()), Type.BIGINT),
        (pa.array([2**31], pa.uint32()), Type.INT),
        (pa.array([1.5, float("nan"), float("inf"), 2.0**63]), Type.BIGINT),
        (pa.array([2.0**31]), Type.INT),
        (pa.array([Decimal("1.5")]), Type.INT),
        (pa.array([1e300]), Type.REAL),
        (pa.array(["x", ""]), Type.INT),
        (pa.array([2**62], pa.timestamp("s")), Type.TIMESTAMP),
        (pa.array([-(2**62)], pa.duration("ms")), Type.INTERVAL),
    ],
)
def test_values_that_do_not_fit_are_bad_one_by_one(given_values, type_):
    assert cast(given_values, type_) == ([None] * len(given_values), [True] * len(given_values))


@pytest.mark.parametrize(
    ("given_values", "micros"),
    [
        (pa.array([1, -1], pa.timestamp("s")), [1_000_000, -1_000_000]),
        (pa.array([1], pa.timestamp("ms", tz="Europe/Berlin")), [1_000]),
        (pa.array([1, None], pa.timestamp("us")), [1, None]),
        (pa.array([1_999, -1], pa.timestamp("ns", tz="UTC")), [1, -1]),
        (pa.array([date(1970, 1, 2)]), [86_400_000_000]),
        (pa.array(["1970-01-01T00:00:01"]), [1_000_000]),
    ],
)
def test_timestamps_of_any_unit_and_zone_are_microseconds_in_utc(given_values, micros):
    column = cast_column(given_values, Type.TIMESTAMP, is_time=False)
    assert column.values.type == Type.TIMESTAMP.arrow
    assert column.values.cast(pa.int64()).to_pylist() == micros


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.sampled_from([Type.INT, Type.BIGINT]))
def test_narrowing_keeps_what_fits_and_nothing_else(numbers, type_):
    limit = 2 ** (type_.arrow.bit_width - 1)
    fits = [n is None or -limit <= n < limit for n in numbers]
    values, bad = cast(pa.array(numbers, pa.int64()), type_)
    assert values == [n if fit else None for n, fit in zip(numbers, fits, strict=True)]
    assert bad == [not fit for fit in fits]


def test_rows_that_cannot_take_part_are_shown_as_json():
    table = pa.table({"V": pa.array([1, 2**40, 3, 4]), "T": [5, 6, None, 1], "s": ["a", 'b"', "c", "d"], "x": [0] * 4})
    source = MemorySource(stream(), table)
    source.check()
    [(batch, position)] = read_rows(source, None, 10)
    out = source.decoder(EVERY).decode(batch, 5)
    assert (out.batch.columns.to_pylist(), out.latest) == ([{"t": 5, "v": 1, "s": "a"}], 6)
    assert progress_of(position) == {"": 4}
    assert dead(out) == [
        ("malformed", "column 'v': 1099511627776 is not a valid INT", 6, '{"t": 6, "v": 1099511627776, "s": "b\\""}'),
        ("no_time", "the time column 't' is empty", None, '{"t": null, "v": 3, "s": "c"}'),
        ("late", "late by 4 microseconds: the time 1 is before the watermark 5", 1, '{"t": 1, "v": 4, "s": "d"}'),
    ]


def test_a_value_beyond_all_times_is_shown_as_it_is():
    schema = Schema.of(t=Type.BIGINT, z=Type.TIMESTAMP, v=Type.INTERVAL)
    raw = pa.RecordBatch.from_arrays(
        [pa.array([1, 2]), pa.array([2**62, 0], pa.timestamp("s")), pa.array([0, 2**62], pa.duration("ms"))],
        schema.names,
    )
    out = typed_decoder(stream(schema=schema), frozenset(schema.names)).decode(raw, BEGINNING)
    assert [letter[1] for letter in dead(out)] == [
        "column 'z': 4611686018427387904 is not a valid TIMESTAMP",
        "column 'v': 4611686018427387904 is not a valid INTERVAL",
    ]


@pytest.mark.parametrize("type_", [Type.INT, Type.BIGINT, Type.TIMESTAMP])
def test_a_row_can_be_late_by_ages_whatever_type_its_time_has(type_):
    schema = Schema.of(t=type_)
    raw = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()).cast(pa.int64()).cast(type_.arrow)], ["t"])
    [(reason, detail, time, _)] = dead(typed_decoder(stream(schema=schema), frozenset()).decode(raw, FOREVER))
    assert (reason, time) == ("late", 1)
    assert detail.startswith("late by 53375995.58365 days: the time ")


def test_a_bigint_time_may_be_a_timestamp_of_the_data():
    moments = pa.array([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("ms"))
    table = pa.table({"t": moments, "v": [1], "s": ["a"]})
    [(batch, _)] = read_rows(MemorySource(stream(), table), None, 1)
    assert typed_decoder(stream(), EVERY).decode(batch, BEGINNING).batch.columns["t"].to_pylist() == [1_000_000]


def test_a_table_is_read_in_pieces_and_resumed():
    table = pa.concat_tables([pa.table({"t": [1, 2, 3]}), pa.table({"t": [4, 5]})])
    source = MemorySource(stream(schema=Schema.of(t=Type.BIGINT)), table)
    pieces = [(batch.column(0).to_pylist(), position) for batch, position in read_rows(source, None, 2)]
    assert [values for values, _ in pieces] == [[1, 2], [3], [4, 5]]
    assert [b.column(0).to_pylist() for b, _ in read_rows(source, pieces[0][1], 9)] == [[3], [4, 5]]


def write(path, table: pa.Table, **options) -> None:
    pq.write_table(table, path, **options)


def test_a_live_run_waits_for_a_parquet_file_that_is_being_written(tmp_path):
    write(tmp_path / "whole.parquet", pa.table({"t": [1], "v": [1], "s": ["x"]}))
    data = (tmp_path / "whole.parquet").read_bytes()
    source = open_source(stream(tmp_path))
    late = tmp_path / "late.parquet"
    for written in (0, 3, len(data) - 1):
        late.write_bytes(data[:written])
        assert [each.part for each in source.find_ranges(START, growing=True)] == ["whole.parquet"]
        assert len(source.find_ranges(START, growing=False)) == 2  # the last listing takes what is there
    os.utime(late, (1, 1))
    assert len(source.find_ranges(START, growing=True)) == 2  # nobody writes it any more
    late.write_bytes(data)
    assert len(source.find_ranges(START, growing=True)) == 2


def test_parquet_files_resume_at_any_row_and_new_ones_are_found(tmp_path):
    table = pa.table({"t": list(range(10)), "v": pa.array(range(10), pa.int16()), "s": ["x"] * 10, "more": [0.5] * 10})
    write(tmp_path / "b.parquet", table, row_group_size=4)
    write(tmp_path / "c.parquet", table.slice(0, 3))
    source = open_source(stream(tmp_path))
    source.check()
    for rows in (1, 3, 4, 100):
        seen: list[int] = []
        for batch, position in read_rows(source, None, rows):
            assert 0 < batch.num_rows <= rows
            assert batch.schema.names == ["t", "v", "s"]
            seen += batch.column(0).to_pylist()
            again = read_rows(source, json.loads(json.dumps(position)), 100, columns=frozenset({"v"}))
            rest = [t for more, _ in again for t in more.column("t").to_pylist()]
            assert seen + rest == [*range(10), 0, 1, 2]
    assert progress_of(position) == {"b.parquet": None, "c.parquet": None}


def test_a_file_that_comes_before_a_half_read_one_does_not_disturb_it(tmp_path):
    table = pa.table({"t": list(range(4)), "v": [1] * 4, "s": ["x"] * 4})
    write(tmp_path / "b.parquet", table)
    source = open_source(stream(tmp_path))
    _, position = next(read_rows(source, None, 3))
    write(tmp_path / "a.parquet", table)
    assert [(b.column("t").to_pylist(), progress_of(p)) for b, p in read_rows(source, position, 3)] == [
        ([0, 1, 2], {"b.parquet": 3, "a.parquet": 3}),
        ([3], {"b.parquet": 3, "a.parquet": None}),
        ([3], {"b.parquet": None, "a.parquet": None}),
    ]


def failure(location, **options) -> str:
    with pytest.raises(DataError) as caught:
        open_source(stream(location, **options)).check()
    return caught.value.render()


def test_a_missing_or_incompatible_column_shows_both_sides(tmp_path):
    write(tmp_path / "a.parquet", pa.table({"t": [1], "w": [1], "s": ["x"]}))
    assert failure(tmp_path / "a.parquet") == (
        f"error[D103]: stream 's': {tmp_path}/a.parquet has no column 'v'\n"
        "   declared: t, v, s\n"
        "   found:    t, w, s\n"
        "   = hint: available: s, t, w"
    )
    write(tmp_path / "a.parquet", pa.table({"t": [1], "v": [True], "s": ["x"]}))
    assert failure(tmp_path / "a.parquet") == (
        f"error[D103]: stream 's': column 'v' of {tmp_path}/a.parquet is bool, declared INT\n"
        "   = hint: declare it BOOLEAN"
    )
    write(tmp_path / "a.parquet", pa.table({"t": [1], "v": [[1]], "s": ["x"]}))
    assert failure(tmp_path / "a.parquet").endswith(
        "is list<element: int64>, declared INT\n"
        "   = hint: declare it ARRAY<INT> or ARRAY<BIGINT> or ARRAY<REAL> or ARRAY<DOUBLE>"
    )


def test_a_file_that_is_no_parquet_is_unreadable(tmp_path):
    (tmp_path / "a.parquet").write_text("t,v,s\n")
    assert failure(tmp_path / "a.parquet").startswith(f"error[D104]: {tmp_path}/a.parquet cannot be read: ")


def test_a_batch_of_another_schema_is_an_error_not_a_guess():
    with pytest.raises(DataError, match="a batch has no column 'v'"):
        typed_decoder(stream(), EVERY).decode(pa.RecordBatch.from_pydict({"t": [1], "s": ["x"]}), BEGINNING)


def test_a_decoder_travels_to_a_worker():
    one = typed_decoder(stream(), EVERY)
    assert pickle.loads(pickle.dumps(one)) == one
