"""Queries that join streams by likeness, and what the optimiser makes of them; for tests."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import Join, Plan, walk
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding, SimilarityJoin, Utility
from tidegate.expressions.nodes import Column
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.similarity_join import describe_missed_similarity
from tidegate.schema import Type

COLUMNS = """k INT, n INT, few INT CHECK (few BETWEEN -1000 AND 1000), long BIGINT, x DOUBLE, r REAL, ids ARRAY<INT>,
  longs ARRAY<BIGINT>, times ARRAY<TIMESTAMP>, flags ARRAY<BOOLEAN>, words ARRAY<STRING>, points ARRAY<DOUBLE>,
  weights MAP<STRING, DOUBLE>, ts TIMESTAMP"""
STREAMS = "".join(f"CREATE STREAM {s} ({COLUMNS}) FROM '{s}.csv' TIMESTAMP BY ts;\n" for s in "abc")
ON = Shedding(Policy.ON)


def typed(*names: str) -> Shedding:
    """Shedding by what rows are worth, by these columns."""
    types = tuple(Column(name, Type.INT) for name in names)
    return replace(ON, utility=Utility(types, by_value=((1, 10.0), (2, 5.0)), otherwise=1.0))


def text_of(where: str, windows: tuple[str, str] = ("RANGE 1 MINUTE", "RANGE 2 MINUTES")) -> str:
    read = ", ".join(f"{name} WINDOW({window})" for name, window in zip("ab", windows, strict=True))
    return f"SELECT a.k FROM {read} WHERE {where}"


def plan_of(text: str, shedding: Shedding = NO_SHEDDING) -> Plan:
    return optimize(bind(STREAMS + text).queries[0].plan, shedding=shedding)[0]


def optimized(where: str, shedding: Shedding = NO_SHEDDING) -> Plan:
    return plan_of(text_of(where), shedding)


def joins(plan: Plan) -> list[SimilarityJoin]:
    return [node for node in walk(plan) if isinstance(node, SimilarityJoin)]


def the_join(where: str, shedding: Shedding = NO_SHEDDING) -> SimilarityJoin:
    (join,) = joins(optimized(where, shedding))
    return join


def why_plain(where: str, shedding: Shedding = NO_SHEDDING) -> list[str]:
    plan = optimized(where, shedding)
    assert any(isinstance(node, Join) for node in walk(plan))
    return describe_missed_similarity(plan, shedding)
