"""Random plans by hand mean what one subquery for each operator means, at every instant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from reference.semantics import Elements, relations_of
from support.examples import examples

from tidegate.errors import QueryError
from tidegate.plans.query_plan import QueryPlan
from tidegate.session import Session

INSTANTS = range(-2, 18)
STREAMS = """
CREATE STREAM s (k BIGINT, v BIGINT, at BIGINT) FROM 's' TIMESTAMP BY at;
CREATE STREAM i (k BIGINT, v BIGINT, a BIGINT, b BIGINT) FROM 'i' VALID FROM a TO b
"""

KEYS, VALUES = st.sampled_from([0, 1]), st.sampled_from([0, 1, 2, None])
INSTANT = st.builds(lambda t, k, v: (t, t + 1, {"k": k, "v": v, "at": t}), st.integers(0, 6), KEYS, VALUES)
INTERVAL = st.builds(
    lambda a, n, k, v: (a, a + n, {"k": k, "v": v, "a": a, "b": a + n}),
    st.integers(0, 6),
    st.integers(1, 4),
    KEYS,
    VALUES,
)
GIVEN: st.SearchStrategy[Elements] = st.fixed_dictionaries(
    {"s": st.lists(INSTANT, max_size=4), "i": st.lists(INTERVAL, max_size=3)}
)

SESSION = Session(runtime="embedded")
SESSION.sql(STREAMS)


def combine(method: str, p: Any, q: Any) -> Any:
    return getattr(p.select("k", "v"), method)(q.select("k", "v"))


def join(how: Any, p: Any, q: Any) -> Any:
    return p.alias("a").join(q.alias("b"), on="a.k = b.k", how=how).select("a.k", "b.v")


@dataclass(frozen=True)
class Pair:
    """A plan by hand with the columns k and v, and the SQL that has a subquery for each of its operators."""

    plan: QueryPlan
    sql: str


def scan(name: str) -> Pair:
    return Pair(SESSION.plan.scan(name).select("k", "v"), f"SELECT k, v FROM {name}")


def bare_scan(name: str) -> Pair:
    return Pair(SESSION.plan.scan(name), f"SELECT * FROM {name}")


UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "where": (lambda p: p.where("v > 0", "k = 0 OR v = 1"), "SELECT * FROM ({}) WHERE v > 0 AND (k = 0 OR v = 1)"),
    "select": (lambda p: p.select("k", v="-v"), "SELECT k, -v AS v FROM ({})"),
    "distinct": (lambda p: p.select("k", "v").distinct(), "SELECT DISTINCT k, v FROM ({})"),
    "window": (lambda p: p.window("3 microseconds"), "SELECT * FROM ({}) WINDOW(RANGE 3)"),
    "slide": (
        lambda p: p.window("4 microseconds", slide="2 microseconds"),
        "SELECT * FROM ({}) WINDOW(RANGE 4 SLIDE 2)",
    ),
    "now": (lambda p: p.window("now"), "SELECT * FROM ({})"),
    "rows": (lambda p: p.window(rows=2, partition_by="k"), "SELECT * FROM ({}) WINDOW(PARTITION BY k ROWS 2)"),
    "granularity": (lambda p: p.granularity("2 microseconds"), "SELECT * FROM ({}) GRANULARITY(2)"),
    "group": (lambda p: p.group_by("k").aggregate(v="SUM(v)"), "SELECT k, SUM(v) AS v FROM ({}) GROUP BY k"),
    "total": (lambda p: p.aggregate(k="COUNT(*)", v="MAX(v)"), "SELECT COUNT(*) AS k, MAX(v) AS v FROM ({})"),
    "limit": (
        lambda p: p.limit(1, order_by="v DESC", per="k"),
        "SELECT * FROM ({}) ORDER BY v DESC LIMIT 1 PER k",
    ),
    "coalesce": (lambda p: p.coalesce_time(), "SELECT COALESCE TIME * FROM ({})"),
    "istream": (lambda p: p.istream(), "ISTREAM({})"),
    "dstream": (lambda p: p.dstream(last=True), "SELECT * FROM DSTREAM(({}), LAST)"),
    "rstream": (lambda p: p.rstream(), "RSTREAM({})"),
}
SETS = {
    "union": "UNION",
    "union_all": "UNION ALL",
    "union_max": "UNION MAX",
    "except_": "EXCEPT",
    "except_all": "EXCEPT ALL",
    "except_strict": "EXCEPT STRICT",
    "intersect": "INTERSECT",
    "intersect_all": "INTERSECT ALL",
}
BINARY: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    **{
        method: (
            partial(combine, method),
            f"(SELECT k, v FROM ({{}})) {word} (SELECT k, v FROM ({{}}))",
        )
        for method, word in SETS.items()
    },
    **{
        how: (
            partial(join, how),
            f"SELECT a.k, b.v FROM ({{}}) a {how} JOIN ({{}}) b ON a.k = b.k",
        )
        for how in ("inner", "left", "full")
    },
    "semi": (
        lambda p, q: p.alias("a").semi_join(q.alias("b"), on="a.v = b.v"),
        "SELECT * FROM ({}) a WHERE EXISTS (SELECT * FROM ({}) b WHERE a.v = b.v)",
    ),
    "anti": (
        lambda p, q: p.alias("a").anti_join(q.alias("b"), on="a.v = b.v"),
        "SELECT * FROM ({}) a WHERE NOT EXISTS (SELECT * FROM ({}) b WHERE a.v = b.v)",
    ),
}


@st.composite
def pairs(draw: DrawFn, *, most: int = 4) -> Pair:
    found = draw(st.sampled_from([scan, bare_scan]))(draw(st.sampled_from(["s", "i"])))
    for _ in range(draw(st.integers(1, most))):
        if most > 2 and draw(st.integers(0, 3)) == 0:
            combined, text = BINARY[draw(st.sampled_from(sorted(BINARY)))]
            other = draw(pairs(most=2))
            found = Pair(combined(found.plan, other.plan), text.format(found.sql, other.sql))
        else:
            build, text = UNARY[draw(st.sampled_from(sorted(UNARY)))]
            found = Pair(build(found.plan), text.format(found.sql))
    return found


def meaning(sql: str, streams: Elements) -> object:
    """Return the relations of a query at every instant, or the code of its error."""
    try:
        [query] = SESSION.bind(sql).queries
    except QueryError as error:
        return error.code
    return relations_of(query.plan, streams, INSTANTS)


@settings(max_examples=examples(150))
@given(pair=pairs(), streams=GIVEN)
def test_a_plan_by_hand_means_what_its_operators_mean(pair: Pair, streams: Elements):
    assert meaning(pair.plan.sql, streams) == meaning(pair.sql, streams)
