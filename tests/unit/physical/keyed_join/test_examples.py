"""Worked examples of keyed joins as programs, one row in a step: their results, and what is then remembered.

A condition on one stream is checked before its rows are joined. So rows that fail do not come, and what would be
known of them never to join waits as if they were still to come; rows are counted nevertheless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.optimizer import keyed_join
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job

STREAM = "CREATE STREAM {name} ({columns}, at BIGINT) FROM '{name}' TIMESTAMP BY at {said};\n"


@dataclass(frozen=True)
class Graph:
    """Streams by number with their columns and keys, and a query over all of them."""

    columns: dict[int, str]
    keys: dict[int, str]
    chosen: str
    where: str
    window: str = "RANGE 1000"

    def text(self, said: dict[int, str], settings: str) -> str:
        streams = [
            STREAM.format(
                name=f"s{number}",
                columns=", ".join(f"{c} BIGINT" for c in columns),
                said=(f"KEY ({self.keys[number]}) " if number in self.keys else "") + said.get(number, ""),
            )
            for number, columns in self.columns.items()
        ]
        read = ", ".join(f"s{number} WINDOW({self.window})" for number in self.columns)
        return f"{settings};\n{''.join(streams)}SELECT {self.chosen} FROM {read} WHERE {self.where}"


STAR = Graph(
    {1: "ab", 2: "ac", 3: "bd"},
    {2: "a", 3: "b"},
    "s1.a, s1.b, s2.c, s3.d",
    "s1.a = s2.a AND s1.b = s3.b AND s3.d < 8",
)
CHAIN = Graph(
    {1: "ab", 2: "bc", 3: "cd"},
    {2: "b", 3: "c"},
    "s1.a, s1.b, s2.c, s3.d",
    "s1.b = s2.b AND s2.c = s3.c AND s3.d > 10",
)
DIAMOND = Graph(
    {1: "ab", 2: "ac", 3: "bc", 4: "c"},
    {2: "a", 3: "b", 4: "c"},
    "s1.a, s1.b, s4.c",
    "s1.a = s2.a AND s1.b = s3.b AND s2.c = s4.c AND s3.c = s4.c",
)
CYCLE = Graph(
    {1: "ab", 2: "bc", 3: "ca"},
    {1: "a", 2: "b", 3: "c"},
    "s1.a, s1.b, s2.c",
    "s1.b = s2.b AND s2.c = s3.c AND s3.a = s1.a",
)
DETOUR = Graph({1: "xa", 2: "kl", 3: "ix"}, {2: "k", 3: "i"}, "s1.x", "s1.x = s2.k AND s1.a = s3.i AND s3.x = s2.l")
BOTH_WAYS = Graph({0: "k", 1: "k", 2: "k"}, {0: "k", 1: "k", 2: "k"}, "s0.k", "s0.k = s1.k AND s0.k = s2.k")

BEGIN = [(2, (6, 20)), (2, (4, 15)), (3, (5, 3)), (3, (7, 9)), (3, (10, 12))]
MORE = [(1, (4, 5)), (1, (6, 8)), (1, (3, 13))]
MISSED = [(1, (6, 10)), (1, (4, 10)), (1, (8, 8))]
COMES_1 = "CONSTRAINT (b) REFERENCES s3 (b) WITHIN 1 ROWS"
COMES_3 = "CONSTRAINT (b) REFERENCES s3 (b) WITHIN 3 ROWS"
A_0, B_0, B_1 = "CLUSTERED BY (a) WITHIN 0 ROWS", "CLUSTERED BY (b) WITHIN 0 ROWS", "CLUSTERED BY (b) WITHIN 1 ROWS"
IN_ORDER, WITHIN_2 = "ORDERED BY b WITHIN 0 ROWS", "ORDERED BY b WITHIN 2 ROWS"
LATE = [(3, (91, 1)), (3, (92, 1))]

ALL_PASS = [(2, (6, 20)), (2, (4, 15)), (3, (5, 3)), (3, (7, 2)), (3, (10, 2))]
BOTH = {1: f"{B_0} {COMES_3}"}
BELOW = [(2, (6, 20)), (2, (4, 15)), (3, (7, 1)), (3, (5, 3)), (3, (10, 2)), (1, (6, 4))]
WAITS = [(3, (5, 3)), (1, (4, 5)), (1, (9, 6)), (1, (9, 7)), (2, (4, 15))]
BEFORE = [(2, (4, 15)), (1, (4, 5)), (1, (9, 6)), (3, (5, 3)), (1, (9, 7))]
FIVE = [(6, 5, 20, 3), (4, 5, 15, 3)]

EXAMPLES: dict[str, Any] = {
    "3.1": (STAR, {}, [*BEGIN, (1, (6, 5)), (1, (8, 10))], [(6, 5, 20, 3)], "1U 1, 2Y 2, 3Y 1"),
    "3.2 waiting": (CHAIN, {}, [(2, (2, 4)), (1, (1, 2))], [], "1U 1, 2U 1"),
    "3.2": (CHAIN, {}, [(2, (2, 4)), (1, (1, 2)), (3, (4, 12))], [(1, 2, 4, 12)], "2Y 1, 3Y 1"),
    "4.1 waiting": (STAR, {1: COMES_1}, [*BEGIN, (1, (4, 10))], [], "1U 1, 2Y 2, 3Y 1"),
    "4.1 given up": (STAR, {1: COMES_1}, [*BEGIN, (1, (4, 10)), (3, (99, 1))], [], "2Y 2, 3Y 2"),
    "5.1 before": (STAR, {1: B_1}, [*BEGIN, (1, (6, 5)), (1, (8, 8)), (1, (4, 5))], FIVE, "1U 1, 2Y 2, 3Y 1"),
    "5.1": (STAR, {1: B_1}, [*BEGIN, (1, (6, 5)), (1, (8, 8)), (1, (4, 5)), (1, (11, 10))], FIVE, "1U 2, 2Y 2"),
    "8.1 i": (STAR, {1: A_0}, BEGIN + MORE, [(4, 5, 15, 3)], "1U 2, 2Y 1, 3Y 1"),
    "8.1 ii": (STAR, {3: IN_ORDER}, BEGIN + MORE, [(4, 5, 15, 3)], "1U 2, 2Y 2, 3Y 1"),
    "8.1 ii, all pass": (STAR, {3: IN_ORDER}, ALL_PASS + MORE, [(4, 5, 15, 3)], "1U 1, 2Y 2, 3Y 3"),
    "8.1 iii": (STAR, {1: A_0, 3: IN_ORDER}, BEGIN + MORE, [(4, 5, 15, 3)], "1U 2, 2Y 1, 3Y 1"),
    "8.1 iii, all pass": (STAR, {1: A_0, 3: IN_ORDER}, ALL_PASS + MORE, [(4, 5, 15, 3)], "1U 1, 3Y 3"),
    "8.2 i": (STAR, {1: B_0}, BEGIN + MISSED, [], "1U 3, 2Y 2, 3Y 1"),
    "8.2 ii": (STAR, BOTH, BEGIN + MISSED, [], "1U 3, 2Y 2, 3Y 1"),
    "8.2 ii, two later": (STAR, BOTH, BEGIN + MISSED + LATE, [], "1U 3, 2Y 2, 3Y 3"),
    "8.2 ii, three later": (STAR, BOTH, [*BEGIN, *MISSED, *LATE, (3, (93, 1))], [], "2Y 2, 3Y 4"),
    "F.1": (STAR, {3: WITHIN_2}, [(2, (6, 20)), (3, (7, 9)), (3, (5, 3)), (3, (10, 12)), (1, (6, 4))], [],
            "1U 1, 2Y 1, 3Y 1"),
    "F.1, all pass": (STAR, {3: WITHIN_2}, BELOW, [], "2Y 2, 3Y 3"),
    "a parent waits for another child": (STAR, {1: B_0}, WAITS, [(4, 5, 15, 3)], "1U 2, 2Y 1"),
    "parents came before": (STAR, {1: B_0}, BEFORE, [(4, 5, 15, 3)], "1U 2, 2Y 1"),
    "C.1": (DIAMOND, {}, [(4, (5,)), (4, (6,)), (2, (3, 5)), (3, (4, 6)), (1, (3, 4))], [], "2Y 1, 3Y 1, 4Y 2"),
    "D.1": (CYCLE, {}, [(3, (3, 1)), (2, (2, 3)), (1, (1, 2)), (1, (4, 2))], [(1, 2, 3)], "1U 1"),
    "a detour": (DETOUR, {}, [(2, (1, 1)), (2, (2, 2)), (3, (1, 2)), (1, (1, 1))], [], "2Y 2, 3Y 1"),
    "both ways": (BOTH_WAYS, {}, [(0, (1,)), (1, (1,)), (2, (1,))], [(1,)], ""),
}  # fmt: skip


def run(graph, said, arrivals, settings="SET constraints = declared MODE lean", *, last=None):
    """The results, and after the last row how many are Yes and Unknown in each stream; one row in a step.

    Each is an instant after the one before it; the last one may be said to be at another one.
    """
    program = bind(graph.text(said, settings))
    _, stages = compile_queries(program)
    sources = {}
    for number, columns in graph.columns.items():
        stream = program.catalog.find(f"s{number}")
        assert isinstance(stream, SourceStream)
        sources[f"s{number}"] = MemorySource(stream, table(columns, [], 0))
    engine, results = Engine(Job(stages, sources, {}, 1)), []
    times = [*range(len(arrivals) - 1), len(arrivals) - 1 if last is None else last]
    for at, (number, values) in zip(times, arrivals, strict=True):
        out, _ = engine.step({f"s{number}": table(graph.columns[number], [values], at).to_batches()})
        results += [tuple(row.values()) for _, batch in out.results for row in batch.columns.to_pylist()]
        assert not out.dead
    return engine, results


def table(columns, rows, at):
    values = {name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(columns)}
    return pa.table({**values, "at": pa.array([at] * len(rows), pa.int64())})


def kept(engine, graph):
    """How many rows are complete (Y), and wait (U), of each stream that has any."""
    (record,) = engine.control.values()
    sizes = dict(zip(graph.columns, record.pace.sizes, strict=True))
    return ", ".join(
        f"{number}{name} {count}"
        for number, size in sizes.items()
        for name, count in (("Y", size.yes), ("U", size.unknown))
        if count
    )


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch):
    monkeypatch.setattr(keyed_join, "why_plain_is_cheaper", lambda *_: None)


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_have_the_results_they_say_and_remember_no_more(name):
    graph, said, arrivals, results, remembered = EXAMPLES[name]
    engine, found = run(graph, said, arrivals)
    assert sorted(found) == sorted(results)
    assert kept(engine, graph) == remembered


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_have_the_same_results_if_constraints_are_off_or_only_found(name):
    graph, said, arrivals, results, _ = EXAMPLES[name]
    _, found = run(graph, said, arrivals, "SET constraints = monitored; SET monitor_events = 1; SET monitor_window = 1")
    _, plain = run(graph, said, arrivals, "SET constraints = off")
    assert sorted(found) == sorted(plain) == sorted(results)


PAIR = Graph({1: "k", 2: "k"}, {2: "k"}, "s1.k", "s1.k = s2.k")
SEEN = {
    "a child is the third behind its parent": ([(1, 7), (2, 1), (2, 2), (2, 7)], "0/arriving", 3),
    "a child came first": ([(2, 7), (1, 7)], "0/arriving", 0),
    "one parent between two": ([(1, 5), (1, 8), (1, 5), (1, 10)], "0/clustered", 2),
    "one place behind": ([(1, 7), (1, 5), (1, 10)], "0/ordered_parents", 1),
    "behind the first of two": ([(1, 3), (1, 9), (1, 4), (1, 5), (1, 9), (1, 8)], "0/ordered_parents", 4),
    "children behind": ([(2, 3), (2, 9), (2, 4), (2, 5), (2, 10), (2, 8)], "0/ordered_children", 4),
}
"""A row at each instant, and the greatest distance that is seen; in time, so two equal ones are two apart."""


@pytest.mark.parametrize("name", SEEN)
def test_distances_are_seen_as_they_are(name):
    arrivals, place, worst = SEEN[name]
    # Another row makes the time go on: then all that was before it is settled.
    rows = [(number, (key,)) for number, key in [*arrivals, (arrivals[-1][0], 99)]]
    engine, _ = run(PAIR, {}, rows, "SET constraints = monitored; SET monitor_events = 1")
    (record,) = engine.control.values()
    assert {each.name: each.worst for each in record.found}[place] == worst


LIMITS = {
    "arriving": ({1: "CONSTRAINT (k) REFERENCES s2 (k) WITHIN {}"}, [(1, 7)], (2, 7), {"ROWS": 2, "MICROSECONDS": 3}),
    "clustered": ({1: "CLUSTERED BY (k) WITHIN {}"}, [(2, 5), (1, 5)], (1, 5), {"ROWS": 3, "MICROSECONDS": 3}),
    "ordered parents": ({1: "ORDERED BY k WITHIN {}"}, [(2, 4), (1, 9)], (1, 4), {"ROWS": 2, "MICROSECONDS": 3}),
    "ordered children": ({2: "ORDERED BY k WITHIN {}"}, [(1, 4), (2, 9)], (2, 4), {"ROWS": 2, "MICROSECONDS": 3}),
}
"""What is declared within 3, rows at the beginning and the last one, and how many others are between at the limit."""


@pytest.mark.parametrize("unit", ["ROWS", "MICROSECONDS"])
@pytest.mark.parametrize("name", LIMITS)
def test_what_comes_at_the_limit_is_joined_and_what_comes_behind_it_is_not_if_joins_are_lean(name, unit):
    said, begin, last, others = LIMITS[name]
    said = {stream: text.format(f"3 {unit}") for stream, text in said.items()}

    def found(between, mode):
        fill = [(last[0], 100 + i) for i in range(between)]
        arrivals = [(number, (key,)) for number, key in [*begin, *fill, last]]
        # In time, the last one comes when its instant has come already.
        time = len(arrivals) - (1 if unit == "ROWS" else 2)
        return len(run(PAIR, said, arrivals, f"SET constraints = declared MODE {mode}", last=time)[1])

    at_limit, behind = others[unit], others[unit] + 1
    assert found(at_limit, "lean") == found(at_limit, "exact") == found(behind, "exact") == found(behind, "lean") + 1


CHILDREN = [(2, (key,)) for key in range(31)]
SPREAD = [0, 1, 0, 2, 1, 0, 3, 2, 1, 4, 3, 2, 5, 4, 3, 5, 4, 5]
PEERS = Graph({1: "hpt", 2: "pnt"}, {2: "p, t"}, "s1.h, s2.n", "s1.p = s2.p AND s1.t = s2.t")
TOLD = [*((1, (100 + p, p, 0)) for p in range(24)), *((2, (p, 1000 + p, 0)) for p in range(24)), (1, (1, 99, 1))]
APPENDIX = {
    "A.1, one of 15 sensors is two rounds late": (
        PAIR, {1: "ORDERED BY k WITHIN {} ROWS"}, [*CHILDREN, *((1, (key,)) for key in [*range(1, 31), 0])], 30, 1),
    "A.2, messages take one to three turns": (
        PAIR, {1: "ORDERED BY k WITHIN {} ROWS"}, [*CHILDREN, *((1, (key,)) for key in [1, 2, 3, 4, 0, 5])], 4, 1),
    "A.3, three flows at a time": (
        PAIR, {1: "CLUSTERED BY (k) WITHIN {} ROWS"}, [*CHILDREN, *((1, (key,)) for key in SPREAD)], 6, 2),
    "A.4, all of 24 peers tell": (
        PEERS, {1: "CONSTRAINT (p, t) REFERENCES s2 (p, t) WITHIN {} ROWS"}, TOLD, 24, 1),
}  # fmt: skip
"""Where constraints come from: what is declared, the arrivals, the k that holds, and what is lost with one less."""


@pytest.mark.parametrize("name", APPENDIX)
def test_constraints_that_follow_from_how_data_come_about_hold_with_their_k_and_not_with_less(name):
    graph, said, arrivals, k, lost = APPENDIX[name]

    def found(within):
        return run(graph, {stream: text.format(within) for stream, text in said.items()}, arrivals)[1]

    _, plain = run(graph, {}, arrivals, "SET constraints = off")
    assert sorted(found(k)) == sorted(found(k + 1)) == sorted(plain)
    assert len(found(k - 1)) == len(plain) - lost


FILTERED = Graph({1: "a", 2: "ab"}, {2: "a"}, "ISTREAM(s1.a, s2.b)", "s1.a = s2.a AND s2.b > 10", "ROWS 3")
WITH_ROWS = [
    (2, (1, 20)), (2, (2, 5)), (1, (1,)), (1, (2,)), (1, (3,)), (2, (3, 11)), (2, (4, 30)), (1, (1,)), (1, (4,)),
    (2, (9, 1)), (1, (8,)), (2, (10, 1)), (1, (8,)),
]  # fmt: skip
"""The second 1 of s1 finds nothing: its row of s2 has left the window."""


@pytest.mark.parametrize("said", [{}, {1: "CONSTRAINT (a) REFERENCES s2 (a) WITHIN 1 ROWS"}])
@pytest.mark.parametrize("setting", ["off", "declared MODE lean", "declared MODE exact"])
def test_new_results_of_windows_of_rows_section_1_4(said, setting):
    _, found = run(FILTERED, said, WITH_ROWS, f"SET constraints = {setting}")
    assert found == [(1, 20), (3, 11), (4, 30)]
