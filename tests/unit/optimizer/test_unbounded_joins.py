"""Joins over unbounded windows: which constraints bound what they keep, and what is said where none does."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from support.keyed import joins, query, stream

from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.optimizer.advice import KeyedJoins, PlanAdvice, PlanChoices
from tidegate.optimizer.optimize import optimize
from tidegate.runtime.commands import explain_program
from tidegate.runtime.compile import compile_queries, plan_warnings

ENDLESS = "RANGE UNBOUNDED"
SOON = "CONSTRAINT (pid) REFERENCES o (pid) WITHIN 5 SECONDS"
ORDERED, CLUSTERED = "ORDERED BY pid WITHIN 5 ROWS", "CLUSTERED BY pid WITHIN 5 ROWS"
P_AND_O = query("p", "o", where="p.pid = o.pid", window=ENDLESS)
LEAN, MONITORED = "SET constraints = declared MODE lean;", "SET constraints = monitored MODE lean;"


def pair(parent: str, child: str = "", text: str = P_AND_O) -> str:
    return stream("p", parent) + stream("o", f"KEY (pid) {child}") + text


def refused(text: str) -> str:
    """What is said of a query, and what would help, in short lines."""
    with pytest.raises(QueryError) as caught:
        compile_queries(bind(text))
    assert caught.value.code == "Q201"
    return (
        f"{caught.value.message}; {caught.value.hint}".replace("; ", "\n").replace(": ", ":\n").replace(", or", "\nor")
    )


def warned(text: str) -> list[str]:
    program = bind(text)
    return [f"{each.code} {each.message}" for each in plan_warnings(program, compile_queries(program)[0])]


@pytest.mark.parametrize(
    ("parent", "child"),
    [
        (f"{SOON} {ORDERED}", ""),
        (ORDERED, "ORDERED BY pid WITHIN 5 SECONDS"),
        (f"KEY (pid) {SOON}", "CONSTRAINT (pid) REFERENCES p (pid) WITHIN 0 SECONDS"),
    ],
)
def test_constraints_that_bound_both_streams_make_the_join_possible(parent: str, child: str) -> None:
    assert warned(LEAN + pair(parent, child)) == []


def test_plain_joins_are_never_chosen_over_unbounded_windows() -> None:
    advice = PlanAdvice(choices=PlanChoices(keyed_joins=KeyedJoins.NEVER))
    for text, expected in ((pair(f"{SOON} {ORDERED}"), 1), (pair("", "", query("p", "o", where="p.pid = o.pid")), 0)):
        plan, _ = optimize(bind(text).queries[0].plan, advice=advice)
        assert len(joins(plan)) == expected


@pytest.mark.parametrize(
    "read",
    [
        "p WINDOW(RANGE UNBOUNDED), o WINDOW(RANGE 10 MINUTES)",
        "p WINDOW(RANGE UNBOUNDED), o WINDOW(ROWS 5)",
    ],
)
def test_a_window_with_a_bound_needs_no_constraint(read: str) -> None:
    assert warned(LEAN + pair(SOON, "", f"SELECT p.note FROM {read} WHERE p.pid = o.pid")) == []


def test_a_stream_without_a_window_needs_what_ends_the_other() -> None:
    text = "SELECT p.note FROM p WINDOW(NOW), o WINDOW(RANGE UNBOUNDED) WHERE p.pid = o.pid"
    assert warned(LEAN + pair(ORDERED, "", text)) == []
    assert "no more rows of p" in refused(pair("", "", text))


def test_what_nothing_bounds_is_refused_and_the_hint_says_what_to_declare() -> None:
    assert refused(pair(ORDERED)) == snapshot("""\
rows of p stay in memory for ever:
no constraint says how long they wait for rows of o
declare (pid) REFERENCES o (pid) WITHIN … of p or ORDERED BY pid WITHIN … of o
or give p a RANGE, such as RANGE 1 HOUR\
""")
    assert refused(pair(SOON)) == snapshot("""\
rows of o stay in memory for ever:
no constraint says when no more rows of p join them
declare ORDERED BY pid WITHIN … of p
or give o a RANGE, such as RANGE 1 HOUR\
""")
    assert refused(pair("", "", P_AND_O.replace("p.pid", "p.note").replace("o.pid", "o.note"))) == snapshot("""\
a join over an unbounded window would have to keep all elements for ever:
p, o:
no equality with another stream covers all columns of a key
give the window a RANGE, such as RANGE 1 HOUR\
""")
    strings = stream("p") + stream("o", "KEY (note)")
    assert refused(strings + query("p", "o", where="p.note = o.note", window=ENDLESS)) == snapshot("""\
rows of p stay in memory for ever:
no constraint says how long they wait for rows of o
declare (note) REFERENCES o (note) WITHIN … of p
or give p a RANGE, such as RANGE 1 HOUR\
""")
    assert refused("SET constraints = off;" + pair(f"{SOON} {ORDERED}")) == snapshot("""\
a join over an unbounded window would have to keep all elements for ever:
SET constraints = off
give the window a RANGE, such as RANGE 1 HOUR\
""")
    assert refused(stream("p", SOON) + stream("o") + P_AND_O) == snapshot("""\
a join over an unbounded window would have to keep all elements for ever
give the window a RANGE, such as RANGE 1 HOUR
or declare the KEY of a stream and how rows arrive\
""")
    three = stream("p", f"{SOON} {ORDERED}") + stream("o", "KEY (pid)") + stream("q", "KEY (oid)")
    three += query("p", "o", "q", where="p.pid = o.pid AND o.oid = q.oid", window=ENDLESS)
    assert refused(three) == snapshot("""\
rows of q stay in memory for ever:
p does not join them directly, so no constraint can end that
give q a RANGE, such as RANGE 1 HOUR\
""")


def test_all_rows_of_a_count_window_are_refused_as_before() -> None:
    assert "all rows" in refused(pair(f"{SOON} {ORDERED}", "", P_AND_O.replace("RANGE", "ROWS")))


def test_what_grows_outside_memory_or_in_spite_of_constraints_is_warned_about() -> None:
    assert warned(pair(f"{SOON} {ORDERED}")) == snapshot(
        ["W202 cold storage grows for ever: rows of p and o never end"]
    )
    assert warned(LEAN + pair(f"{SOON} {CLUSTERED}")) == snapshot(
        ["W203 rows of o that no row of p joins stay in memory for ever: CLUSTERED BY lets only joined rows go"]
    )
    assert warned(MONITORED + pair("")) == snapshot(
        [
            "W204 rows of p stay in memory until watching finds how long they wait for rows of o",
            "W204 rows of o stay in memory until watching finds when no more rows of p join them",
        ]
    )
    assert warned(MONITORED + pair(f"{SOON} {ORDERED}")) == snapshot([])


def test_explain_says_that_cold_storage_grows() -> None:
    text = explain_program(bind(pair(f"{SOON} {ORDERED}")))
    assert "stay in cold storage until their window ends; those of p, o for ever, so it grows" in text
    assert "keyed join of 2 along p.pid = o.pid, exact, 2 without an end" in text
