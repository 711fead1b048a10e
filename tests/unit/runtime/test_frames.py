"""Which columns of DataFrames and tables a stream has, and what is said about the others."""

from __future__ import annotations

import warnings
from datetime import time, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tidegate.errors import DataError
from tidegate.session import Session


@pytest.fixture
def session():
    with Session(runtime="embedded") as opened:
        yield opened


def registered(session: Session, data: object) -> list[Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session.stream("s", data, time="at")
    return [each.message for each in caught]


def test_decimals_are_read_as_double_with_a_warning(session):
    frame = pd.DataFrame({"at": [1, 2], "price": [Decimal("1.25"), Decimal("2.50")]})
    [warning] = registered(session, frame)
    assert (warning.code, warning.message) == (
        "W312",
        "stream 's': column 'price' of decimal128(3, 2) is read as DOUBLE, which may round values",
    )
    rows = session.sql("SELECT price FROM s").finish().to_pylist()
    assert [row["price"] for row in rows] == [1.25, 2.5]


def test_decimals_within_arrays_are_doubles_too(session):
    prices = pa.array([[Decimal("1.5")], []], pa.list_(pa.decimal128(4, 1)))
    [warning] = registered(session, pa.table({"at": [1, 2], "prices": prices}))
    assert warning.code == "W312"
    rows = session.sql("SELECT prices FROM s").finish().to_pylist()
    assert [row["prices"] for row in rows] == [[1.5], []]


def test_a_column_that_no_query_can_read_is_left_out_with_a_warning(session):
    table = pa.table({"at": [1], "v": [2], "clock": pa.array([time(1)]), "point": [{"x": 1}]})
    assert [(w.code, w.message) for w in registered(session, table)] == [
        ("W313", f"stream 's': column '{name}' is left out: no query can read a column of {kind}")
        for name, kind in (("clock", "time64[us]"), ("point", "struct<x: int64>"))
    ]
    assert session.sql("SELECT * FROM s").finish().column_names == ["valid_from", "valid_to", "at", "v"]


def test_with_strict_a_column_that_would_be_left_out_is_an_error():
    with Session(runtime="embedded", strict=True) as session, pytest.raises(DataError, match="'point' is left out"):
        session.stream("s", pa.table({"at": [1], "point": [{"x": 1}]}), time="at")


def test_durations_of_pandas_are_intervals(session):
    frame = pd.DataFrame({"at": [1], "took": [timedelta(seconds=90)]})
    assert registered(session, frame) == []
    [row] = session.sql("SELECT took FROM s").finish().to_pylist()
    assert row["took"] == timedelta(seconds=90)
