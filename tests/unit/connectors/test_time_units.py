"""UNIT: what whole numbers in a time column count, and the warning when it is probably another unit."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.micros import in_micros
from support.reading import read_rows

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.source import open_source
from tidegate.connectors.time_values import unlikely_unit_warning
from tidegate.connectors.typed_columns import typed_decoder
from tidegate.errors import DataError, QueryError, TidegateWarning
from tidegate.language.bind.program import bind
from tidegate.schema import Schema, Type
from tidegate.session import Session
from tidegate.time import BEGINNING, EARLIEST, LATEST, TimeUnit

PER_SECOND = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
NOVEMBER_2023 = 1_700_000_000
"""In seconds."""


def stream(unit: TimeUnit | None, *, end: str | None = None, type_: Type = Type.BIGINT) -> SourceStream:
    schema = Schema.of(at=type_, until=Type.BIGINT)
    return SourceStream("s", schema, "dataframe://s", "at", end_column=end, unit=unit)


def text(clauses: str, columns: str = "at BIGINT, v INT", path: object = "s.csv") -> str:
    return f"CREATE STREAM s ({columns}) FROM '{path}' {clauses}; SELECT * FROM s"


# ---- what is declared


@pytest.mark.parametrize(
    "clause", ["TIMESTAMP BY at UNIT {}", "ORDERED BY at UNIT {}", "TIMESTAMP BY at DELAY 5 s UNIT {}"]
)
@pytest.mark.parametrize("unit", TimeUnit)
def test_a_unit_is_declared_after_the_time_column(clause, unit):
    declared = bind(text(clause.format(unit.name))).catalog.find("s")
    assert isinstance(declared, SourceStream)
    assert (declared.time_column, declared.unit) == ("at", unit)


def test_a_unit_may_be_declared_for_a_validity_and_for_an_int():
    declared = bind(text("VALID FROM a TO b UNIT seconds", "a INT, b BIGINT")).catalog.find("s")
    assert isinstance(declared, SourceStream)
    assert declared.unit is TimeUnit.SECONDS


def test_a_column_may_be_called_unit():
    program = bind(text("TIMESTAMP BY unit UNIT SECONDS", "unit BIGINT, v INT") + "; SELECT unit FROM s WHERE unit > 3")
    assert program.queries[1].plan.schema.names == ("unit",)


@pytest.mark.parametrize(
    ("clauses", "columns", "code", "message", "hint"),
    [
        (
            "TIMESTAMP BY at UNIT SECONDS",
            "at TIMESTAMP",
            "Q109",
            "'at' is a TIMESTAMP, which has no UNIT",
            "remove UNIT",
        ),
        ("VALID FROM a TO b UNIT SECONDS", "a BIGINT, b TIMESTAMP", "Q109", "'b' is a TIMESTAMP", "remove UNIT"),
        (
            "TIMESTAMP BY at UNIT MINUTES",
            "at BIGINT",
            "Q110",
            "cannot be counted in 'MINUTES'",
            "SECONDS, MILLISECONDS",
        ),
        ("UNIT SECONDS", "at BIGINT", "Q109", "UNIT needs a TIMESTAMP BY or VALID FROM", "TIMESTAMP BY"),
        ("TIMESTAMP BY at UNIT SECONDS UNIT SECONDS", "at BIGINT", "Q105", "UNIT is given twice", "remove one"),
        ("TIMESTAMP BY at", "at INT", "Q109", "column 'at' is INT, which is not a time", "UNIT SECONDS"),
        ("TIMESTAMP BY at UNIT SECONDS", "at DOUBLE", "Q109", "'at' is DOUBLE", "BIGINT with UNIT"),
    ],
)
def test_units_that_make_no_sense_are_refused(clauses, columns, code, message, hint):
    with pytest.raises(QueryError, match=message) as raised:
        bind(text(clauses, columns))
    assert raised.value.code == code
    assert hint in (raised.value.hint or "")


def test_describe_shows_the_unit():
    with Session(runtime="embedded") as session:
        shown = session.ask(text("TIMESTAMP BY at UNIT MILLISECONDS DELAY 5 SECONDS").split(";")[0] + "; DESCRIBE s")
    assert shown.splitlines()[0] == "stream s from 's.csv', timestamp by at, unit milliseconds, delay 5 seconds"


def test_another_unit_is_another_program_for_a_checkpoint(tmp_path):
    (tmp_path / "s.csv").write_text("at,v\n1,1\n")

    def run(unit: str) -> None:
        with Session(runtime="embedded") as session:
            made = text(f"TIMESTAMP BY at UNIT {unit}", path=tmp_path / "s.csv")
            session.sql(made, once=True, checkpoint=str(tmp_path / "c")).wait()

    run("SECONDS")
    run("SECONDS")
    with pytest.raises(DataError) as raised:
        run("MILLISECONDS")
    assert raised.value.code == "D303"


# ---- what it does


_NEAR_LIMITS = st.builds(
    lambda limit, divisor, sign, near: sign * (limit // divisor) + near,
    st.sampled_from([2**61, 2**63 - 4]),  # the first that is no time, and the last that fits
    st.sampled_from([1, 10**3, 10**6]),
    st.sampled_from([1, -1]),
    st.integers(-2, 2),
)


@given(
    st.lists(st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | _NEAR_LIMITS, max_size=8),
    st.sampled_from(TimeUnit),
)
def test_times_are_scaled_exactly_or_are_dead_letters(counts, unit):
    """By whole numbers of any size: floor(count · 10⁶ / per second), if that is a time."""
    raw = pa.RecordBatch.from_pydict({"at": pa.array(counts, pa.int64())})
    found = typed_decoder(stream(unit), frozenset(["at"])).decode(raw, BEGINNING)
    times = [None if c is None else c * 10**6 // PER_SECOND[unit.value] for c in counts]
    good = [(t, c) for t, c in zip(times, counts, strict=True) if t is not None and EARLIEST < t < LATEST]
    assert list(zip(found.batch.start.tolist(), found.batch.columns.column("at").to_pylist(), strict=True)) == good
    assert [(e - s) for s, e in zip(found.batch.start.tolist(), found.batch.end.tolist(), strict=True)] == [1] * len(
        good
    )
    assert found.latest == max((t for t, _ in good), default=None)
    reasons = ["no_time" if t is None else "time_range" for t in times if t is None or not EARLIEST < t < LATEST]
    assert found.dead.column("reason").to_pylist() == reasons


def test_a_time_that_does_not_fit_says_what_was_there():
    raw = pa.RecordBatch.from_pydict({"at": pa.array([2**63 - 1])})
    (letter,) = typed_decoder(stream(TimeUnit.SECONDS), frozenset()).decode(raw, BEGINNING).dead.to_pylist()
    assert letter["detail"] == "column 'at': 9223372036854775807 seconds is too far from 1970 to be a time"
    assert letter["time"] is None


def test_a_late_row_is_compared_with_the_watermark_in_its_unit():
    raw = pa.RecordBatch.from_pydict({"at": pa.array([NOVEMBER_2023])})
    decoder = typed_decoder(stream(TimeUnit.SECONDS), frozenset())
    (letter,) = decoder.decode(raw, NOVEMBER_2023 * 10**6 + 1_500_000).dead.to_pylist()
    assert letter["detail"] == "late by 1.5 seconds: the time 1700000000 is before the watermark 1700000001.5"


def test_both_ends_of_a_validity_are_scaled():
    raw = pa.RecordBatch.from_pydict({"at": pa.array([1, 2]), "until": pa.array([3, 2])})
    found = typed_decoder(stream(TimeUnit.MILLISECONDS, end="until"), frozenset()).decode(raw, BEGINNING)
    assert (found.batch.start.tolist(), found.batch.end.tolist()) == ([1000], [3000])
    assert found.dead.column("detail").to_pylist() == ["the validity is empty: 'until' is not after 'at'"]


def test_a_parquet_column_of_timestamps_cannot_be_a_number_with_a_unit(tmp_path):
    pq.write_table(pa.table({"at": pa.array([0], pa.timestamp("ms"))}), tmp_path / "s.parquet")
    schema = Schema.of(at=Type.BIGINT)
    with pytest.raises(DataError, match=r"'at' .* is timestamp\[ms\], declared BIGINT") as raised:
        open_source(SourceStream("s", schema, str(tmp_path / "s.parquet"), "at", unit=TimeUnit.MILLISECONDS)).check()
    assert raised.value.hint == "declare it TIMESTAMP"


@pytest.mark.parametrize("unit", TimeUnit)
def test_a_generator_counts_in_the_unit_of_its_time_column(unit):
    location = "generator://?rows=3&interval=1s&start=2026-01-01"
    made = open_source(SourceStream("s", Schema.of(at=Type.BIGINT), location, "at", unit=unit))
    ((batch, _),) = read_rows(made, None, 10)
    first = 1_767_225_600
    assert batch.column("at").to_pylist() == [(first + i) * PER_SECOND[unit.value] for i in range(3)]
    assert made.decoder(frozenset()).decode(batch, BEGINNING).batch.start.tolist() == [
        (first + i) * 10**6 for i in range(3)
    ]


def test_a_generator_whose_times_do_not_fit_the_column_is_refused():
    location = "generator://?rows=3&start=2040-01-01"
    with pytest.raises(DataError, match="do not fit column 'at' in seconds"):
        open_source(SourceStream("s", Schema.of(at=Type.INT), location, "at", unit=TimeUnit.SECONDS))


# ---- from Python


@pytest.mark.parametrize("type_", [pa.int32(), pa.int64()])
def test_a_table_whose_times_are_seconds_is_a_stream(type_):
    with Session(runtime="embedded") as session:
        session.stream("s", pa.table({"at": pa.array([NOVEMBER_2023], type_)}), time="at", unit="seconds")
        (row,) = in_micros(session.sql("SELECT at FROM s").finish()).to_pylist()
    assert row == {"valid_from": NOVEMBER_2023 * 10**6, "valid_to": NOVEMBER_2023 * 10**6 + 1, "at": NOVEMBER_2023}


@pytest.mark.parametrize(
    ("column", "unit", "error", "hint"),
    [
        (pa.array([0], pa.timestamp("us")), "seconds", DataError, "remove `unit`"),
        (pa.array([0], pa.int32()), None, DataError, 'unit="seconds"'),
        (pa.array([0.5]), "seconds", DataError, "pandas.to_datetime"),
        (pa.array([0]), "minutes", QueryError, "available: seconds, milliseconds, microseconds, nanoseconds"),
    ],
)
def test_a_table_whose_times_cannot_have_the_unit_is_refused(column, unit, error, hint):
    with Session(runtime="embedded") as session, pytest.raises(error) as raised:
        session.stream("s", pa.table({"at": column}), time="at", unit=unit)
    assert hint in (raised.value.hint or "")


# ---- the warning


@pytest.mark.parametrize(
    ("unit", "first", "last", "message"),
    [
        (None, NOVEMBER_2023, NOVEMBER_2023 + 60, "lie in January 1970: are they seconds?"),
        (None, NOVEMBER_2023 * 10**3, NOVEMBER_2023 * 10**3, "lie in January 1970: are they milliseconds?"),
        (None, 4_000_000_000_000, 4_000_000_000_001, "lie around the year 1970: are they milliseconds?"),
        (None, NOVEMBER_2023 * 10**9, NOVEMBER_2023 * 10**9, "lie around the year 55840: are they nanoseconds?"),
        (None, 0, 100, "lie in January 1970: are they microseconds?"),
        (None, 1000, 300_000_000, "lie in January 1970: are they microseconds?"),
        (None, 10**16, 10**16, "lie around the year 2286: are they microseconds?"),
        (TimeUnit.SECONDS, NOVEMBER_2023 * 10**3, NOVEMBER_2023 * 10**3, "are they milliseconds?"),
        (TimeUnit.SECONDS, NOVEMBER_2023 * 10**9, NOVEMBER_2023 * 10**9, "are they nanoseconds?"),
        (TimeUnit.NANOSECONDS, NOVEMBER_2023 * 10**6, NOVEMBER_2023 * 10**6, "are they microseconds?"),
    ],
)
def test_times_of_january_1970_of_the_far_future_or_of_another_unit_are_warned_of(unit, first, last, message):
    warning = unlikely_unit_warning(stream(unit), (first, last))
    assert warning is not None
    assert warning.code == "W301"
    assert message in warning.message


@pytest.mark.parametrize(
    ("unit", "first", "last"),
    [
        (None, NOVEMBER_2023 * 10**6, NOVEMBER_2023 * 10**6),  # right
        (TimeUnit.SECONDS, NOVEMBER_2023, NOVEMBER_2023),
        (TimeUnit.SECONDS, 0, 100),  # counted from the beginning of something, and said so
        (TimeUnit.MICROSECONDS, 0, 100),
        (None, 0, 31 * 24 * 3_600_000_000),  # one of them is of February
        (None, -1, 100),
        (None, NOVEMBER_2023, NOVEMBER_2023 * 10**6),  # of all sorts
        (TimeUnit.MICROSECONDS, NOVEMBER_2023, NOVEMBER_2023),  # meant
        (None, -(2**62), 2**62),
    ],
)
def test_other_times_are_not_warned_of(unit, first, last):
    assert unlikely_unit_warning(stream(unit), (first, last)) is None


def test_the_warning_says_what_to_write():
    warning = unlikely_unit_warning(stream(None), (NOVEMBER_2023 * 10**3, NOVEMBER_2023 * 10**3))
    assert warning is not None
    assert warning.hint == (
        'write TIMESTAMP BY at UNIT MILLISECONDS (in Python: unit="milliseconds"); '
        "if they are microseconds, UNIT MICROSECONDS"
    )
    small = unlikely_unit_warning(stream(None), (0, 100))
    assert small is not None
    assert small.hint == (
        'write TIMESTAMP BY at UNIT SECONDS or MILLISECONDS or NANOSECONDS (in Python: unit="seconds"); '
        "if they are microseconds, UNIT MICROSECONDS"
    )
    valid = unlikely_unit_warning(stream(TimeUnit.SECONDS, end="until"), (NOVEMBER_2023 * 10**3, NOVEMBER_2023 * 10**3))
    assert valid is not None
    assert valid.hint == 'write VALID FROM at TO until UNIT MILLISECONDS (in Python: unit="milliseconds")'


def test_a_run_warns_once_by_the_first_times_of_a_stream(tmp_path):
    (tmp_path / "s.jsonl").write_text("".join(json.dumps({"at": NOVEMBER_2023 + i}) + "\n" for i in range(5)))
    run = text("TIMESTAMP BY at", "at BIGINT", tmp_path / "s.jsonl")
    with Session(runtime="embedded") as session:
        query = session.sql(run)
        with pytest.warns(TidegateWarning, match="are they seconds") as caught:
            query.finish()
    assert [w.code for w in query.warnings] == ["W301"]
    assert len(caught) == 1
    with Session(runtime="embedded", strict=True) as session:
        query = session.sql(run)
        with pytest.raises(DataError, match="are they seconds"):
            query.finish()


def test_a_run_over_times_of_january_1970_warns(tmp_path):
    (tmp_path / "s.jsonl").write_text("".join(json.dumps({"at": at}) + "\n" for at in range(5)))
    with Session(runtime="embedded") as session:
        query = session.sql(text("TIMESTAMP BY at", "at BIGINT", tmp_path / "s.jsonl"))
        with pytest.warns(TidegateWarning, match="lie in January 1970: are they microseconds"):
            query.finish()


def test_a_run_whose_times_are_not_all_alike_does_not_warn(tmp_path):
    (tmp_path / "s.jsonl").write_text("".join(json.dumps({"at": at}) + "\n" for at in (0, NOVEMBER_2023 * 10**6)))
    with Session(runtime="embedded") as session:
        query = session.sql(text("TIMESTAMP BY at", "at BIGINT", tmp_path / "s.jsonl"))
        query.finish()
    assert query.warnings == ()


def test_made_up_times_are_not_warned_of():
    with Session(runtime="embedded") as session:
        made = "CREATE STREAM made (k INT, at BIGINT) FROM 'generator://?rows=5&keys=2' TIMESTAMP BY at;"
        query = session.sql(f"{made} SELECT k FROM made")
        query.finish()
    assert query.warnings == ()
