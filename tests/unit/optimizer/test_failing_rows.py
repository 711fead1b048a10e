"""Rows that fail a condition tell their parents where these would wait long, and nowhere else."""

from __future__ import annotations

import pytest
from support.keyed import MONITORED, graph, query, stream, the_join

from tidegate.algebra.plan import Filter, walk

SOON = "CONSTRAINT (pid) REFERENCES o (pid) WITHIN 5 SECONDS"
O_READ = "o WINDOW(RANGE 10 MINUTES)"
BIG = "p.pid = o.pid AND o.size > 5"


def text(parent: str = "", child: str = "KEY (pid)", where: str = BIG) -> str:
    return stream("p", parent) + stream("o", child) + query("p", "o", where=where)


def test_a_child_that_fails_reaches_the_join_if_its_parents_would_wait_for_their_whole_window() -> None:
    join = the_join(text())
    assert join.marks == (None, "passes:1")
    assert not [node for node in walk(join) if isinstance(node, Filter)]
    assert "rows of o that fail a condition: waiting rows of p leave by their keys" in graph(text())


@pytest.mark.parametrize(
    "chosen",
    [
        text(SOON),
        text(child="KEY (pid) ORDERED BY pid WITHIN 5 SECONDS"),
        text(child="KEY (pid) ORDERED BY pid WITHIN 5 ROWS"),
        text(where="p.pid = o.pid AND p.size > 5"),
        text(where="p.pid = o.pid"),
        text(where="p.pid = o.pid").replace(O_READ, f"(SELECT * FROM {O_READ} WHERE 1 / size > 5) o"),
        text(where="p.pid = o.pid")
        .replace("p.note", "o.x")
        .replace(O_READ, f"(SELECT pid, 1 / size AS x FROM {O_READ} WHERE size <> 0) o"),
        text(child="KEY (pid, size)", where="p.pid = o.pid AND o.size = 5"),
        stream("p") + stream("o", "KEY (pid)") + query("p", "o", where=BIG, window="ROWS 10"),
    ],
    ids=[
        "reference",
        "order",
        "order in rows",
        "parent",
        "no condition",
        "may fail",
        "would fail",
        "part of the key",
        "rows",
    ],
)
def test_otherwise_conditions_stay_below_the_join(chosen: str) -> None:
    assert not any(the_join(chosen).marks)


def test_what_may_be_found_counts_as_a_short_wait() -> None:
    assert not any(the_join(text(), MONITORED).marks)


def test_several_conditions_are_one_column() -> None:
    both = (
        text(where=f"{BIG} AND o.note = 'x'")
        .replace("FROM p", "FROM p")
        .replace("o WINDOW(RANGE 10 MINUTES)", "(SELECT * FROM o WINDOW(RANGE 10 MINUTES) WHERE oid > 1) o")
    )
    join = the_join(both)
    assert join.marks == (None, "passes:1")
    assert not [node for node in walk(join) if isinstance(node, Filter)]
