"""Connectors as functions: built-in ones by name, and those that users register."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.functions import NO_CONNECTORS, ReaderSource
from tidegate.connectors.ranges import BEGIN, START, PartProgress, Point, SourcePosition, SourceRange
from tidegate.connectors.source import open_source, version_of, with_connector
from tidegate.errors import DataError, QueryError
from tidegate.language.bind.program import bind
from tidegate.schema import Schema, Type

SCHEMA = Schema.of(n=Type.INT, at=Type.BIGINT)


def numbers(begin: int, end: int) -> pa.Table:
    return pa.table({"n": list(range(begin, end)), "at": list(range(begin, end))})


class Growing:
    """Rows that become more."""

    def __init__(self, count: int) -> None:
        self.count = count

    def count_rows(self) -> int:
        return self.count

    def read_rows(self, begin: int, end: int) -> pa.Table:
        return numbers(begin, end)


def stream(call: str) -> SourceStream:
    found = bind(f"CREATE STREAM s (n INT, at BIGINT) {call} TIMESTAMP BY at").catalog.find("s")
    assert isinstance(found, SourceStream)
    return found


def opened(call: str, connect, name: str = "feed"):
    source = open_source(stream(call), connectors=with_connector(NO_CONNECTORS, name, connect))
    source.check()
    return source


def rows(source, *parts: SourceRange, most: int = 100) -> list[int]:
    return [n for part in parts for batch, _ in source.read_range(part, most) for n in batch["n"].to_pylist()]


@pytest.mark.parametrize(
    ("call", "location", "options"),
    [
        ("SOURCE csv('data/a')", "data/a", (("format", "csv"),)),
        ("SOURCE JSONL('data/a')", "data/a", (("format", "jsonl"),)),
        ("SOURCE parquet('s3://b/a')", "s3://b/a", (("format", "parquet"),)),
        ("SOURCE file('data/a.csv')", "data/a.csv", ()),
        ("SOURCE generator('rows=7', 'seed=1')", "generator://?rows=7&seed=1", ()),
        ("SOURCE generator('?rows=7')", "generator://?rows=7", ()),
        ("SOURCE s3('bucket', 'a.csv')", "s3://bucket/a.csv", ()),
        ("SOURCE feed('a', 'b/c')", "feed://a/b/c", ()),
        ("SOURCE feed()", "feed://", ()),
    ],
)
def test_a_call_is_a_location(call, location, options):
    found = stream(call)
    assert (found.location, found.options) == (location, options)


def test_a_connector_of_files_takes_one_place():
    with pytest.raises(QueryError) as caught:
        stream("SOURCE csv('a', 'b')")
    assert caught.value.code == "Q109"
    assert "csv('a', 'b')" in caught.value.render()


@pytest.mark.parametrize(
    "made",
    [
        numbers(0, 3),
        numbers(0, 3).to_batches()[0],
        numbers(0, 3).to_pandas(),
        [numbers(0, 1), numbers(1, 3)],
        (numbers(i, i + 1) for i in range(3)),
        pa.RecordBatchReader.from_batches(numbers(0, 3).schema, numbers(0, 3).to_batches()),
    ],
    ids=["table", "batch", "pandas", "tables", "generator", "reader"],
)
def test_a_function_returns_all_rows_at_once(made):
    source = opened("SOURCE feed('a')", lambda _: made)
    assert rows(source, *source.find_ranges(START, growing=True)) == [0, 1, 2]


def test_a_function_gets_its_arguments_as_they_are_written():
    calls: list[tuple[str, ...]] = []

    def connect(*arguments: str) -> pa.Table:
        calls.append(arguments)
        return numbers(0, 1)

    opened("SOURCE Feed('https://a/b', '', 'c')", connect)
    opened("FROM 'feed://a/b'", connect)
    opened("SOURCE feed()", connect)
    assert calls == [("https://a/b", "", "c"), ("a", "b"), ()]


def test_rows_that_become_more_are_read_by_their_numbers():
    growing = Growing(5)
    source = opened("SOURCE feed('a')", lambda _: growing)
    [first] = source.find_ranges(START, growing=True)
    assert first == SourceRange("", BEGIN, 5)
    assert rows(source, first, most=2) == [0, 1, 2, 3, 4]
    assert [batch.num_rows for batch, _ in source.read_range(first, 2)] == [2, 2, 1]
    assert [(part.begin.offset, part.end) for part in source.split_range(first, 2)] == [(0, 3), (3, 5)]
    assert rows(source, *source.split_range(first, 3)) == [0, 1, 2, 3, 4]
    position = SourcePosition({"": PartProgress(Point(5), 5)})
    assert source.find_ranges(position, growing=True) == []
    before = version_of(source)
    growing.count = 7
    assert rows(source, *source.find_ranges(position, growing=True)) == [5, 6]
    assert version_of(source) != before
    growing.count = 4
    with pytest.raises(DataError, match="has 4 rows, but 5 were read"):
        source.find_ranges(position, growing=True)


class ReadsLess(Growing):
    def read_rows(self, begin: int, end: int) -> pa.Table:
        return numbers(begin, max(begin, end - 1))


class CountsTexts(Growing):
    def count_rows(self):
        return "many"


@pytest.mark.parametrize(
    ("connect", "said"),
    [
        (lambda _: 7, "returned int, which has no rows"),
        (lambda _: [], "returned list, which has no rows"),
        (lambda _: "rows", "returned str"),
        (lambda _: [numbers(0, 1), 7], "returned int"),
        (lambda: numbers(0, 1), "failed: TypeError"),
        (lambda _: 1 // 0, "failed: ZeroDivisionError: integer division"),
        (lambda _: pd.DataFrame({"n": [1]}), "no column 'at'"),
        (lambda _: pa.table({"n": [[1]], "at": [0]}), "declared INT"),
        (lambda _: ReadsLess(3), "read_rows(0, 3) returned 2 rows"),
        (lambda _: CountsTexts(3), "count_rows() returned 'many'"),
    ],
)
def test_what_a_function_does_wrong_is_an_error_with_its_name(connect, said):
    def read_all() -> None:
        source = opened("SOURCE feed('a')", connect)
        rows(source, *source.find_ranges(START, growing=True))

    with pytest.raises(DataError) as caught:
        read_all()
    assert said in caught.value.message
    assert "'s'" in caught.value.message


def test_an_unknown_connector_has_a_hint_with_near_names():
    connectors = with_connector(NO_CONNECTORS, "auction_feed", lambda: numbers(0, 1))
    with pytest.raises(DataError) as caught:
        open_source(stream("SOURCE action_feed('a')"), connectors=connectors)
    assert caught.value.code == "D101"
    assert caught.value.hint == "did you mean 'auction_feed'?"
    with pytest.raises(DataError) as caught:
        open_source(stream("SOURCE os('system')"), connectors=connectors)
    assert "auction_feed" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["csv", "S3", "Generator", "dataframe", "a-b", "", "a b", "7a"])
def test_names_that_connectors_cannot_have(name):
    with pytest.raises(QueryError) as caught:
        with_connector(NO_CONNECTORS, name, lambda: numbers(0, 1))
    assert caught.value.code == "Q122"


def test_a_connector_is_a_function():
    with pytest.raises(QueryError, match="is not a function"):
        with_connector(NO_CONNECTORS, "feed", numbers(0, 1))


def test_options_of_files_are_refused():
    with pytest.raises(DataError, match="delimiter"):
        opened("SOURCE feed('a') WITH (delimiter = ';')", lambda _: Growing(1))


def test_a_reader_is_known_by_its_methods():
    assert isinstance(opened("SOURCE feed('a')", lambda _: Growing(1)), ReaderSource)
