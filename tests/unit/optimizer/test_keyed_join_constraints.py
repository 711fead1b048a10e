"""Which constraints keyed joins make use of, and what EXPLAIN says of those and of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from support.keyed import (
    MONITORED,
    O_KEYED,
    P_TO_O,
    TO_O,
    P,
    Q,
    graph,
    joins,
    optimized,
    query,
    stream,
    the_join,
    why_plain,
)

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.explain_keyed_join import describe_wrong_results
from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.language.bind.program import bind
from tidegate.runtime.commands import explain_program
from tidegate.runtime.explain_format import ExplainFormat
from tidegate.time import MICROSECONDS


def constraints(
    parent: str, child: str = "KEY (pid)", *, where: str = "p.pid = o.pid"
) -> list[tuple[ConstraintKind, str | None]]:
    join = the_join(stream("p", parent) + stream("o", child) + query("p", "o", where=where))
    return [(each.kind, each.unused) for each in join.constraints]


@pytest.mark.parametrize(
    ("parent", "child", "kind"),
    [
        ("CONSTRAINT FOREIGN KEY (pid) REFERENCES o (pid) WITHIN 5 ROWS", "KEY (pid)", ConstraintKind.ARRIVING),
        ("CONSTRAINT (pid) REFERENCES o (pid) WITHIN 5 SECONDS", "KEY (pid)", ConstraintKind.ARRIVING),
        ("CLUSTERED BY (pid) WITHIN 5 ROWS", "KEY (pid)", ConstraintKind.CLUSTERED),
        ("ORDERED BY (pid) WITHIN 5 ROWS", "KEY (pid)", ConstraintKind.ORDERED_PARENTS),
        ("", "KEY (pid) ORDERED BY (pid) WITHIN 5 SECONDS", ConstraintKind.ORDERED_CHILDREN),
    ],
)
def test_constraints_on_the_columns_of_an_edge_are_made_use_of(parent: str, child: str, kind: ConstraintKind) -> None:
    assert constraints(parent, child) == [(kind, None)]


@pytest.mark.parametrize(
    ("parent", "where", "why"),
    [
        (
            "CONSTRAINT (oid) REFERENCES o (pid) WITHIN 5 ROWS",
            "p.pid = o.pid",
            "it refers by (oid), but these columns are not joined",
        ),
        (
            "CONSTRAINT (pid) REFERENCES o (pid) WITHIN 10 MINUTES",
            "p.pid = o.pid",
            "rows of p are valid for only 10 minutes",
        ),
        ("CLUSTERED BY (pid) WITHIN 11 MINUTES", "p.pid = o.pid", "rows of o are valid for only 10 minutes"),
        (
            "CLUSTERED BY (pid) WITHIN 5 ROWS",
            "p.pid = o.pid AND p.oid = o.oid",
            "it is by (pid), but rows are joined by (oid, pid)",
        ),
        (
            "ORDERED BY (pid) WITHIN 5 ROWS",
            "p.pid = o.pid AND p.oid = o.oid",
            "rows are joined by several columns, but only one is ordered",
        ),
    ],
)
def test_a_constraint_that_does_not_help_is_not_used(parent: str, where: str, why: str) -> None:
    ((_, unused),) = constraints(parent, where=where)
    assert unused == why


@pytest.mark.parametrize(
    ("window", "why"),
    [
        ("ROWS 50", None),
        ("ROWS 5", "the window of a has 5 rows only"),
        ("RANGE 5", None),
    ],
)
def test_rows_of_a_stream_are_compared_with_a_window_of_its_rows(window: str, why: str | None) -> None:
    said = stream("p", "KEY (pid) CONSTRAINT (oid) REFERENCES p (pid) WITHIN 5 ROWS")
    text = f"SELECT a.note FROM p a WINDOW({window}), p b WINDOW(ROWS 50) WHERE a.oid = b.pid;"
    (found,) = the_join(said + text).constraints
    assert found.unused == why


def test_in_time_rows_that_agree_in_more_columns_are_no_further_apart() -> None:
    found = constraints("CLUSTERED BY (pid) WITHIN 5 SECONDS", where="p.pid = o.pid AND p.oid = o.oid")
    assert found == [(ConstraintKind.CLUSTERED, None)]


def test_of_constraints_in_one_unit_the_shortest_counts() -> None:
    by = {"pid": "9 SECONDS", "pid, oid": "5 SECONDS", "oid, pid": "3 ROWS"}
    said = " ".join(f"CLUSTERED BY ({columns}) WITHIN {reach}" for columns, reach in by.items())
    found = constraints(said, where="p.pid = o.pid AND p.oid = o.oid")
    assert [unused for _, unused in found] == ["within 5 seconds also holds", None, None]


def test_of_texts_only_clusters_are_watched() -> None:
    join = the_join(P + stream("o", "KEY (note)") + query("p", "o", where="p.note = o.note"), MONITORED)
    assert join.watched == ((0, ConstraintKind.ARRIVING), (0, ConstraintKind.CLUSTERED))


def test_what_is_declared_and_used_is_not_watched() -> None:
    join = the_join(stream("p", "CLUSTERED BY (pid) WITHIN 5 ROWS") + O_KEYED + P_TO_O, MONITORED)
    assert (0, ConstraintKind.CLUSTERED) not in join.watched
    assert (0, ConstraintKind.ARRIVING) in join.watched


def test_rows_stay_while_another_source_may_join_them() -> None:
    text = stream("p", "CLUSTERED BY (pid) WITHIN 5 ROWS") + Q + O_KEYED + TO_O
    why = "q also joins o, and nothing says when its last row has arrived"
    assert why_plain(text)[1] == f"  not used: p of one o arrive within 5 rows of each other, because {why}"
    assert not [each for each in the_join(text, MONITORED).constraints if each.unused]
    assert joins(
        optimized(text.replace("q.csv' TIMESTAMP BY ts", "q.csv' TIMESTAMP BY ts ORDERED BY (pid) WITHIN 9 ROWS"))
    )


def test_rows_stay_while_sources_that_join_them_by_way_of_others_may_come() -> None:
    said = stream("p") + stream("o", "KEY (pid) CLUSTERED BY (oid) WITHIN 5 ROWS") + stream("s", "KEY (oid)")
    join = the_join(said + query("p", "o", "s", where="p.pid = o.pid AND o.oid = s.oid"))
    assert [each.unused for each in join.constraints] == ["o is itself joined by others: s must wait for these"]


def test_sources_must_join_the_row_directly() -> None:
    said = stream("p", "CLUSTERED BY (pid) WITHIN 5 ROWS") + Q + O_KEYED + stream("s", "KEY (oid)")
    where = "p.pid = o.pid AND p.oid = s.oid AND q.oid = s.oid"
    join = the_join(said + query("p", "q", "o", "s", where=where), MONITORED)
    (only,) = join.constraints
    assert only.unused == "combinations with o may begin at q, which does not join it directly"


def test_complete_rows_of_a_cover_need_no_constraint() -> None:
    text = stream("p", "KEY (pid) ORDERED BY (pid) WITHIN 5 ROWS") + O_KEYED + P_TO_O
    unused = {(each.edge, each.kind): each.unused for each in the_join(text).constraints}
    assert unused == {
        (0, ConstraintKind.ORDERED_PARENTS): "complete rows of o are not kept anyway",
        (1, ConstraintKind.ORDERED_CHILDREN): None,
    }


def test_windows_that_move_in_steps_make_reaches_longer() -> None:
    text = stream("p", "CONSTRAINT (pid) REFERENCES o (pid) WITHIN 5 SECONDS") + O_KEYED
    join = the_join(text + query("p", "o", where="p.pid = o.pid", window="RANGE 10 MINUTES SLIDE 1 MINUTE"))
    assert join.constraints[0].within.time == 5 * MICROSECONDS["second"] + MICROSECONDS["minute"] - 1


# ---- EXPLAIN


def test_the_graph_and_the_constraints_are_explained() -> None:
    text = (
        stream("o", "KEY (pid)")
        + stream("b", "KEY (pid) CONSTRAINT b_to_o FOREIGN KEY (pid) REFERENCES o (pid) WITHIN 5 SECONDS")
        + stream("c", "CLUSTERED BY (pid) WITHIN 10 ROWS CONSTRAINT (pid) REFERENCES b (pid) WITHIN 1 HOUR")
        + query("c", "b", "o", where="c.pid = b.pid AND b.pid = o.pid")
    )
    assert graph(text, replace(MONITORED, exact=False)) == snapshot("""\
c, b, o: cyclic, covered by {c}
  c → b on c.pid = b.pid
    not used: b arrives within 1 hour after c, because rows of c are valid for only 10 minutes
    used: c of one b arrive within 10 rows of each other
    watched: how late b arrives after c
    watched: how far c is out of order
    watched: how far b is out of order
  b → o on b.pid = o.pid
    used: o arrives within 5 seconds after b
    watched: how far o is out of order
  o → b on o.pid = b.pid
    watched: how late b arrives after o
    watched: how far b is out of order
  mode lean: rows that a constraint (declared or found) removes early are forgotten
  hashed by c.pid = b.pid = o.pid\
""")
    assert graph(text) == snapshot("""\
c, b, o: tree, covered by {c}
  c → b on c.pid = b.pid
    not used: b arrives within 1 hour after c, because rows of c are valid for only 10 minutes
    used: c of one b arrive within 10 rows of each other
  b → o on b.pid = o.pid
    used: o arrives within 5 seconds after b
  mode exact: rows that a constraint (declared) removes early stay in cold storage until their window ends
  hashed by c.pid = b.pid = o.pid\
""")


def test_a_join_without_a_common_column_is_in_one_bucket() -> None:
    text = P + O_KEYED + stream("s", "KEY (oid)") + query("p", "o", "s", where="p.pid = o.pid AND o.oid = s.oid")
    assert graph(text) == snapshot("""\
p, o, s: tree, covered by {p}
  p → o on p.pid = o.pid
  o → s on o.oid = s.oid
  mode exact: no constraint removes rows early
  in one bucket: no column is equal in all inputs\
""")


def test_a_program_is_explained_with_its_graphs_and_why_joins_are_plain() -> None:
    program = bind(P + Q + O_KEYED + P_TO_O + TO_O)
    shown = explain_program(program, ExplainFormat.TEXT)
    assert "join graphs\n  p, o: tree, covered by {p}\n    p → o on p.pid = o.pid\n" in shown
    assert "plain joins\n  p, o, q: plain joins are cheaper: " in shown
    assert "Keyed join on p.pid → o.pid" in explain_program(program, ExplainFormat.MERMAID)


# ---- above a lean join

LEAN = ConstraintSettings(ConstraintUse.DECLARED, exact=False)
REFERRING = stream("p", "CONSTRAINT (pid) REFERENCES o (pid) WITHIN 5 SECONDS") + O_KEYED + Q
FROM = "FROM p WINDOW(RANGE 10 MINUTES), o WINDOW(RANGE 10 MINUTES) WHERE p.pid = o.pid"
JOINED, OTHERS = f"SELECT p.pid {FROM}", "SELECT q.pid FROM q WINDOW(RANGE 10 MINUTES)"


@pytest.mark.parametrize(
    ("above", "what"),
    [
        (f"SELECT COUNT(*) AS n {FROM}", "an aggregate"),
        (f"SELECT COUNT(*) AS n FROM ({JOINED}) x LIMIT 1", "LIMIT and an aggregate"),
        (f"{OTHERS} EXCEPT {JOINED}", "EXCEPT"),
        (f"{OTHERS} WHERE NOT EXISTS ({JOINED} AND p.pid = q.pid)", "an anti- or outer join"),
        (f"{OTHERS} LEFT JOIN ({JOINED}) x ON x.pid = q.pid", "an anti- or outer join"),
        (f"SELECT x.pid FROM ISTREAM({JOINED}) x", "a stream of changes"),
    ],
)
def test_what_is_wrong_above_a_join_that_misses_results_is_said(above: str, what: str) -> None:
    said = f"mode lean: if the join misses results, the results of {what} above it are wrong, not only fewer"
    assert describe_wrong_results(optimized(REFERRING + above, LEAN)) == [said]
    assert describe_wrong_results(optimized(REFERRING + above)) == []
    explained = explain_program(bind("SET constraints = declared MODE lean;" + REFERRING + above), ExplainFormat.TEXT)
    assert f"\n  {said}\n" in explained


@pytest.mark.parametrize(
    "above",
    [
        JOINED,
        JOINED.replace("SELECT", "SELECT DISTINCT"),
        f"{JOINED} GROUP BY p.pid",
        f"{JOINED} EXCEPT {OTHERS}",
        f"{JOINED} INTERSECT {OTHERS}",
        f"{JOINED} AND NOT EXISTS ({OTHERS} WHERE q.pid = p.pid)",
    ],
)
def test_where_there_are_only_fewer_results_nothing_is_said(above: str) -> None:
    plan = optimized(REFERRING + above, LEAN)
    assert joins(plan)
    assert describe_wrong_results(plan) == []


def test_a_lean_join_that_makes_use_of_nothing_misses_nothing() -> None:
    plan = optimized(P + O_KEYED + f"SELECT COUNT(*) AS n {FROM}", LEAN)
    assert joins(plan)
    assert describe_wrong_results(plan) == []
