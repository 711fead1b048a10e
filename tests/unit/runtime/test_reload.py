"""What stages forget when a table is read again: its rows, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from strategies.streams import Streams
from support.harness import batch_of, job_of, rows_of

from tidegate.language.bind.program import bind
from tidegate.physical.lower import lower
from tidegate.runtime.cut_stages import cut_into_stages
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.reload import forget_tables, is_reloadable, tables_to_read_again
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING, FOREVER

STREAMS = (
    "CREATE STREAM a (k INT, at BIGINT) FROM 'a.csv' TIMESTAMP BY at;"
    "CREATE STREAM b (k INT, at BIGINT) FROM 'b.csv' TIMESTAMP BY at;"
    "CREATE TABLE item (k INT) FROM 'item.csv';"
    "CREATE TABLE other (k INT) FROM 'other.csv';"
)
K = Schema.of(k=Type.INT)
ALL = Schema.of(k=Type.INT, at=Type.BIGINT)


def plan_of(query: str):
    (bound,) = bind(STREAMS + query).queries
    return bound.plan


def test_a_join_forgets_the_table_but_not_what_has_met_it():
    plan = plan_of("SELECT a.at FROM a WINDOW(RANGE 100) JOIN item ON a.k = item.k JOIN b ON item.k = b.k")
    job = job_of(plan, Streams({"a": ALL, "b": ALL, "item": K}, {}), buckets=1, optimized=False)
    engine, element = Engine(job), {"k": 1, "at": 0}
    table = batch_of(K, [(BEGINNING, FOREVER, {"k": 1})])

    def step(time: int, **elements: list[tuple[int, int, dict[str, int]]]) -> list[int]:
        batches = [(name, batch_of(ALL, found)) for name, found in elements.items()]
        marks = {"a": time, "b": time, "item": FOREVER}
        return [start for start, _, _ in rows_of([engine.advance(batches, marks)])]

    engine.advance([("item", table)], {"a": 0, "b": 0, "item": FOREVER})
    assert step(10, a=[(10, 11, element)]) == []
    for (number, bucket), version in engine.state.items():
        chunks = forget_tables(job.graph, job.graph.stages[number], version.chunks, ["item"], ["item"], now=11)
        engine.state[number, bucket] = replace(version, chunks=chunks)
    assert step(20, b=[(20, 21, element)]) == [20]  # a has met the table, and is remembered with it
    assert step(30, a=[(200, 201, element)], b=[(200, 201, element)]) == []  # there is no such row in the table now


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a.k FROM a, item WHERE a.k = item.k", True),
        ("SELECT k FROM a WHERE k NOT IN (SELECT k FROM item)", True),
        ("SELECT k FROM a WHERE k IN (SELECT k FROM item)", True),
        ("SELECT k FROM a UNION ALL SELECT k FROM item", False),
        ("SELECT k FROM a EXCEPT SELECT k FROM item", False),
        ("SELECT COUNT(*) AS n FROM item", False),
        ("SELECT k + 1 AS k FROM ISTREAM(item) WHERE k > 0", True),
        ("DSTREAM(SELECT k, COUNT(*) AS n FROM item GROUP BY k)", True),
        ("SELECT k FROM ISTREAM(item) UNION ALL SELECT k FROM a", True),
        ("SELECT k FROM ISTREAM(item) UNION ALL SELECT k FROM item", False),
        ("SELECT COUNT(*) AS n FROM ISTREAM(item)", False),
        ("SELECT a.k FROM ISTREAM(item) WINDOW(RANGE 10) i, a WHERE a.k = i.k", False),
        ("ISTREAM(SELECT k FROM item UNION ALL SELECT k FROM other)", True),
        ("ISTREAM(SELECT i.k FROM item i JOIN other o ON i.k = o.k)", True),
    ],
)
def test_a_table_is_read_again_if_all_who_read_it_can_forget_it(query, expected):
    graph = cut_into_stages([("query", lower(plan_of(query)))])
    assert is_reloadable(graph, "item", ["item", "other"]) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ISTREAM(SELECT k FROM item)", {"item"}),
        ("ISTREAM(SELECT i.k FROM item i JOIN other o ON i.k = o.k)", {"item", "other"}),
        ("SELECT k FROM ISTREAM(item) UNION ALL SELECT k FROM ISTREAM(other)", {"item"}),
        ("SELECT a.k FROM a JOIN item ON a.k = item.k WHERE a.k NOT IN (SELECT k FROM other)", {"item"}),
    ],
)
def test_tables_that_meet_without_a_stream_are_read_together(query, expected):
    graph = cut_into_stages([("query", lower(plan_of(query)))])
    assert tables_to_read_again(graph, ["item"], ["item", "other"]) == expected
