"""Queries that join streams with keys, and what the optimiser makes of them; for tests."""

from __future__ import annotations

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.explain_keyed_join import describe_join_graphs
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Plan, walk
from tidegate.language.bind.program import bind
from tidegate.optimizer.explain_fallback import describe_plain_joins
from tidegate.optimizer.optimize import optimize

DECLARED, MONITORED, OFF = (
    ConstraintSettings(ConstraintUse.DECLARED),
    ConstraintSettings(ConstraintUse.MONITORED),
    ConstraintSettings(ConstraintUse.OFF),
)


def stream(name: str, said: str = "") -> str:
    columns = "pid BIGINT, oid BIGINT, size INT, note STRING, ts TIMESTAMP"
    return f"CREATE STREAM {name} ({columns}) FROM '{name}.csv' TIMESTAMP BY ts {said};\n"


def query(*names: str, where: str, window: str = "RANGE 10 MINUTES") -> str:
    read = ", ".join(f"{name} WINDOW({window})" for name in names)
    return f"SELECT {names[0]}.note FROM {read} WHERE {where};"


def optimized(text: str, settings: ConstraintSettings = DECLARED) -> Plan:
    return optimize(bind(text).queries[0].plan, settings)[0]


def joins(plan: Plan) -> list[KeyedJoin]:
    return [node for node in walk(plan) if isinstance(node, KeyedJoin)]


def the_join(text: str, settings: ConstraintSettings = DECLARED) -> KeyedJoin:
    (join,) = joins(optimized(text, settings))
    return join


def graph(text: str, settings: ConstraintSettings = DECLARED) -> str:
    return "\n".join(describe_join_graphs(optimized(text, settings)))


def why_plain(text: str, settings: ConstraintSettings = DECLARED) -> list[str]:
    plan = optimized(text, settings)
    assert not joins(plan)
    return describe_plain_joins(plan, settings)


P, Q, UNKEYED, O_KEYED = stream("p"), stream("q"), stream("o"), stream("o", "KEY (pid)")
P_TO_O = query("p", "o", where="p.pid = o.pid")
TO_O = query("p", "q", "o", where="p.pid = o.pid AND q.pid = o.pid")
