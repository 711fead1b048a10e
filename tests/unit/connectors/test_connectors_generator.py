"""Made-up streams."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reading import progress_of, read_rows

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.generator import EXAMPLE, Recipe, generate
from tidegate.connectors.source import open_source
from tidegate.errors import DataError
from tidegate.physical.common.batch import concat_columns
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING

SCHEMA = Schema.of(
    at=Type.TIMESTAMP,
    machine=Type.STRING,
    item=Type.INT,
    bulk=Type.BIGINT,
    value=Type.DOUBLE,
    small=Type.REAL,
    on=Type.BOOLEAN,
    since=Type.TIMESTAMP,
    took=Type.INTERVAL,
)


def stream(query: str = "rows=1000&seed=7&keys=20&interval=100ms&disorder=2s", **options: str) -> SourceStream:
    return SourceStream("g", SCHEMA, f"generator://?{query}", "at", options=tuple(options.items()))


@settings(deadline=None)
@given(st.integers(0, 2000), st.lists(st.integers(0, 30), max_size=5))
def test_rows_are_the_same_however_they_are_cut(first, counts):
    whole = generate(stream(), first, sum(counts))
    places = np.cumsum([first, *counts])
    parts = [generate(stream(), int(a), int(b - a)) for a, b in pairwise(places)]
    assert whole == concat_columns([*parts, generate(stream(), 0, 0)])


def test_columns_are_the_same_whichever_others_are_asked_for():
    some = generate(stream(), 5, 50, columns=frozenset({"value"}))
    whole = generate(stream(), 5, 50)
    assert some.schema.names == ["at", "value"]
    assert all(some.column(name) == whole.column(name) for name in some.schema.names)


def test_values_look_like_readings_of_sensors():
    batch = generate(stream(), 0, 10_000)
    assert batch.schema == SCHEMA.arrow
    assert all(column.null_count == 0 for column in batch.columns)
    assert set(batch.column("machine").to_pylist()) == {f"k{i}" for i in range(20)}
    for name in ("item", "bulk"):
        assert set(batch.column(name).to_pylist()) == set(range(20))
    values = batch.column("value").to_numpy()
    assert 0 <= values.min() < 5
    assert 95 < values.max() <= 100
    assert 0.45 < np.mean(batch.column("on").to_pylist()) < 0.55
    one = values[np.array(batch.column("machine").to_pylist()) == "k3"]
    assert np.abs(np.diff(one)).mean() < 6  # slow: neighbours are near each other


def test_times_move_by_the_interval_and_are_early_by_no_more_than_the_disorder():
    times = generate(stream(), 0, 500).column("at").cast(pa.int64()).to_numpy()
    early = 1_767_225_600_000_000 + np.arange(500) * 100_000 - times
    assert early.min() >= 0
    assert 1_900_000 < early.max() <= 2_000_000
    ordered = generate(stream("rows=9"), 0, 9).column("at").cast(pa.int64()).to_numpy()
    assert set(np.diff(ordered)) == {1_000_000}


def test_the_seed_changes_everything_and_ranges_only_their_column():
    base, other = generate(stream("rows=9"), 0, 9), generate(stream("rows=9&seed=1"), 0, 9)
    assert base.column("value") != other.column("value")
    ranged = generate(stream("rows=999&value.min=-1&value.max=1&item.min=5&item.max=6&bulk.min=7&keys=3"), 0, 999)
    assert set(ranged.column("item").to_pylist()) == {5, 6}
    assert set(ranged.column("bulk").to_pylist()) == {7, 8, 9}
    assert -1 <= min(ranged.column("value").to_pylist()) < 0 < max(ranged.column("value").to_pylist()) <= 1


def test_a_longer_turn_makes_slower_waves_and_a_batch_smaller_steps():
    slow = generate(stream("rows=1000&keys=1&turn=100000"), 0, 1000).column("value").to_numpy()
    assert np.ptp(slow) < 11  # the noise
    assert np.ptp(generate(stream("rows=1000&keys=1"), 0, 1000).column("value").to_numpy()) > 90
    assert [b.num_rows for b, _ in read_rows(open_source(stream("rows=25&batch=10")), None, 100)] == [10, 10, 5]


def test_the_first_rows_never_change():
    schema = Schema.of(t=Type.BIGINT, k=Type.STRING, v=Type.DOUBLE, i=Type.INT, b=Type.BOOLEAN)
    batch = generate(SourceStream("g", schema, "generator://?rows=3&seed=7&disorder=1s", "t"), 0, 3)
    assert batch.to_pylist() == [
        {"t": 1_767_225_599_667_465, "k": "k7", "v": 40.656, "i": 1, "b": True},
        {"t": 1_767_225_600_824_654, "k": "k9", "v": 80.923, "i": 3, "b": False},
        {"t": 1_767_225_601_091_163, "k": "k5", "v": 5.824, "i": 0, "b": True},
    ]


def test_a_generator_is_read_resumed_and_decoded():
    source = open_source(stream("rows=25"))
    source.check()
    pieces = list(read_rows(source, None, 10))
    assert [(b.num_rows, progress_of(p)) for b, p in pieces] == [(10, {"": 10}), (10, {"": 20}), (5, {"": 25})]
    assert list(read_rows(source, pieces[1][1], 10)) == pieces[2:]
    assert list(read_rows(source, pieces[2][1], 10)) == []
    decoder = pickle.loads(pickle.dumps(source.decoder(frozenset({"item"}))))
    out = decoder.decode(pieces[0][0], BEGINNING)
    assert (len(out.batch), out.dead.num_rows, out.batch.columns.schema.names) == (10, 0, ["item"])


def test_the_example_of_the_documentation_is_valid():
    recipe = Recipe.of(SourceStream("g", SCHEMA, EXAMPLE, "at"))
    assert (recipe.rows, recipe.interval, recipe.disorder) == (100_000, 100_000, 2_000_000)
    assert Recipe.of(stream("rows=1&start=2026-01-01T01:00:00+01:00")).start == recipe.start


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("seed=1", "error[D105]: stream 'g': the generator has no number of rows\n   = hint: endless generators"),
        (
            "rows=1&key=3",
            "error[D105]: stream 'g': the generator has no parameter 'key'\n   = hint: did you mean 'keys'?",
        ),
        ("rows=1&machine.min=3", "error[D105]: stream 'g': the generator has no parameter 'machine.min'"),
        (
            "rows=many",
            "error[D105]: stream 'g': generator://?rows=many cannot be understood: invalid literal for int()",
        ),
        ("rows=1&keys=0", "rows must be at least 0; keys, turn and batch at least 1"),
        ("rows=1&interval=soon", "'soon' is not a duration"),
        ("rows=1&start=soon", "Invalid isoformat string: 'soon'"),
        ("rows=999999999999&interval=9h", "its times are too far from 1970"),
        ("rows=1&value.min=3&value.max=2", "value cannot lie between 3.0 and 2.0"),
        ("rows=1&item.min=3000000000", "item cannot lie between"),
    ],
)
def test_what_makes_no_sense_is_refused(query, message):
    with pytest.raises(DataError) as caught:
        open_source(stream(query))
    assert message in caught.value.render()


def test_options_that_mean_nothing_are_refused():
    with pytest.raises(DataError, match="unknown option 'header'"):
        open_source(stream(header="false")).check()
