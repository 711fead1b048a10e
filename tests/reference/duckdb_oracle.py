"""A second opinion: the relation at one instant, computed by DuckDB.

A plan becomes one SQL query over tables named after the streams, which hold the raw elements
with their times in the column `t__`. Every intermediate result keeps `t__`: below a window it is
computed for all instants of raw elements, above it for the instants that were asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import isclose
from typing import Any

import duckdb
import pyarrow as pa

from reference.duckdb_expressions import fails, quote, value
from reference.semantics import Raw, Relation
from reference.values import INTEGER_RANGES, NAN, Row, canonical_row
from tidegate.algebra.own_times import stamp_own_times
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Join,
    Limit,
    Map,
    Order,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Stamp,
    Union,
    Window,
    walk,
)
from tidegate.schema import Schema, Type

UNKNOWN = frozenset(
    {"count_window", "validity_window", "granularity", "changes", "split", "sample"}
    | {"variance", "stddev", "var_pop", "stddev_pop"}
)
"""Kinds of operators, and aggregates, that the oracle has no opinion about."""

TIME, INSTANTS, WANTED = "t__", "instants__", "wanted__"


def duckdb_relation_at(plan: Plan, tables: Mapping[str, pa.Table], instant: int) -> Relation:
    """The multiset of rows of the plan at an instant, as DuckDB computes it."""
    rows = _executed(snapshot_sql(plan), {**tables, INSTANTS: _instants(tables)}, {"instant": instant})
    return Counter(canonical_row(row) for row in rows)


def duckdb_relations(plan: Plan, tables: Mapping[str, pa.Table], instants: Iterable[int]) -> dict[int, Relation]:
    """The relations at several instants, in one query."""
    found: dict[int, Relation] = {t: Counter() for t in instants}
    wanted = pa.table({TIME: pa.array(list(found), pa.int64())})
    query = f"SELECT {TIME}, {_columns(plan.schema)} FROM ({_history(stamp_own_times(plan), WANTED)}) AS snapshots"
    for t, *row in _executed(query, {**tables, INSTANTS: _instants(tables), WANTED: wanted}, {}):
        found[t][canonical_row(row)] += 1
    return found


def _executed(query: str, tables: Mapping[str, pa.Table], parameters: dict[str, int]) -> list[tuple[Any, ...]]:
    with connection().cursor() as cursor:
        for name, table in tables.items():
            cursor.register(name, table)
        return cursor.execute(query, parameters).fetchall()  # type: ignore[no-any-return]


@cache
def connection() -> Any:
    return duckdb.connect(config={"threads": 1})


def tables_of(schemas: Mapping[str, Schema], streams: Raw) -> dict[str, pa.Table]:
    """Raw streams as the tables that the oracle reads."""
    return {name: _table(schema, streams[name]) for name, schema in schemas.items()}


def _table(schema: Schema, elements: Sequence[tuple[int, Mapping[str, object]]]) -> pa.Table:
    columns = pa.schema([(TIME, pa.int64()), *schema.arrow])
    return pa.Table.from_pylist([{TIME: t, **row} for t, row in elements], schema=columns)


def _instants(tables: Mapping[str, pa.Table]) -> pa.Table:
    """All times of raw elements: there only, a plan of elements of one chronon can have rows."""
    times = {t for table in tables.values() for t in table.column(TIME).to_pylist()}
    return pa.table({TIME: pa.array(sorted(times), pa.int64())})


def snapshot_sql(plan: Plan) -> str:
    """DuckDB SQL of the relation at `$instant`; what stands below windows reads instants from `instants__`."""
    instant = f"(SELECT CAST($instant AS BIGINT) AS {TIME})"
    return f"SELECT {_columns(plan.schema)} FROM ({_history(stamp_own_times(plan), instant)}) AS snapshot"


def _history(plan: Plan, instants: str) -> str:
    """SQL of the plan's rows with their instants, for the instants of a relation."""
    match plan:
        case Scan(stream=stream):
            rows = f"SELECT {TIME}, {_columns(plan.schema)} FROM {quote(stream)}"
            return f"{rows} WHERE {TIME} IN (SELECT {TIME} FROM {instants} AS i)"
        case Window():
            return _window(plan, instants)
        case Stamp(source=source, column=column):
            return f"SELECT *, {TIME} AS {quote(column)} FROM ({_history(source, instants)}) AS stamped"
        case CountWindow(slide=1, keys=()):
            return _count_window(plan, instants)
        case Filter(source=source, predicate=predicate):
            where = f"NOT {fails(predicate)} AND {value(predicate)}"
            return f"SELECT * FROM ({_history(source, instants)}) AS filtered WHERE {where}"
        case Map(source=source, outputs=outputs):
            made = ", ".join(f"{value(o.expression)} AS {quote(o.name)}" for o in outputs)
            where = " AND ".join(f"NOT {fails(o.expression)}" for o in outputs)
            return f"SELECT {TIME}, {made} FROM ({_history(source, instants)}) AS mapped WHERE {where}"
        case Union(inputs=inputs):
            return " UNION ALL ".join(f"SELECT * FROM ({_history(each, instants)}) AS united" for each in inputs)
        case Join():
            return _join(plan, instants)
        case Aggregate():
            return _aggregate(plan, instants)
        case Split(source=source) | Coalesce(source=source):
            return _history(source, instants)
        case Limit():
            return _limit(plan, instants)
        case SemiJoin():
            return _semi_join(plan, instants)
        case SetOperation():
            return _set_operation(plan, instants)
        case Distinct(source=source):
            return f"SELECT DISTINCT * FROM ({_history(source, instants)}) AS repeated"
    raise NotImplementedError(type(plan).__name__)


def knows(plan: Plan) -> bool:
    """Whether the oracle has an opinion about every operator of the plan."""
    known = Scan | Window | Filter | Map | Union | Join | Aggregate | Split | Coalesce | Limit | SemiJoin
    return all(isinstance(node, known | SetOperation | Distinct) for node in walk(plan))


def _window(window: Window, instants: str) -> str:
    """Formula (17.1) as a condition on pairs of an instant and a row of the source."""
    grid = window.slide
    end = f"(i.{TIME} + 1 - ((i.{TIME} + 1) % {grid} + {grid}) % {grid})"  # ⌊(t̂+1)/a⌋·a, also of negative instants
    low = "" if window.size is None else f" AND e.{TIME} >= {end} - {window.size}"
    elements = f"({_history(window.source, INSTANTS)}) AS e"
    columns = f"i.{TIME}, {_columns(window.schema)}"
    return f"SELECT {columns} FROM {instants} AS i JOIN {elements} ON e.{TIME} < {end}{low}"


def _count_window(window: CountWindow, instants: str) -> str:
    """Formula (8.18): at each instant the last rows; of one instant by their values, NULL last."""
    order = ", ".join(f"{each} DESC NULLS FIRST" for each in (f"e.{TIME}", *map(quote, window.schema.names)))
    elements = f"({_history(window.source, INSTANTS)}) AS e"
    last = f"QUALIFY ROW_NUMBER() OVER (PARTITION BY i.{TIME} ORDER BY {order}) <= {window.rows}"
    columns = f"i.{TIME}, {_columns(window.schema)}"
    pairs = f"SELECT {columns} FROM {instants} AS i JOIN {elements} ON e.{TIME} <= i.{TIME}"
    return pairs if window.rows is None else f"{pairs} {last}"


def _join(join: Join, instants: str) -> str:
    names = f"a.{TIME}, {_columns(join.schema)}"
    left, right = _history(join.left, instants), _history(join.right, instants)
    pairs = f"({left}) AS a JOIN ({right}) AS b ON a.{TIME} = b.{TIME}"
    return f"SELECT {names} FROM {pairs} WHERE NOT {fails(join.predicate)} AND {value(join.predicate)}"


def _semi_join(semi: SemiJoin, instants: str) -> str:
    left, right = _history(semi.left, instants), _history(semi.right, instants)
    met = f"a.{TIME} = b.{TIME} AND NOT {fails(semi.predicate)} AND {value(semi.predicate)}"
    exists = f"{'NOT ' if semi.anti else ''}EXISTS (SELECT 1 FROM ({right}) AS b WHERE {met})"
    return f"SELECT a.* FROM ({left}) AS a WHERE {exists}"


def _set_operation(plan: SetOperation, instants: str) -> str:
    """Operations on sets of rows with their instants; the names are the left's."""
    names = f"({TIME}, {_columns(plan.schema)})"
    a, b = (f"SELECT * FROM ({_history(side, instants)}) AS s{names}" for side in (plan.left, plan.right))
    match plan.rule:
        case SetRule.MAX_UNION:
            return f"({a} EXCEPT ALL {b}) UNION ALL ({b})"
        case SetRule.STRICT_EXCEPT_ALL:
            return f"({a}) EXCEPT ALL (SELECT x.* FROM ({a}) AS x SEMI JOIN ({b}) AS y ON x IS NOT DISTINCT FROM y)"
    return f"({a}) {plan.rule.value.upper()} ({b})"


def _limit(plan: Limit, instants: str) -> str:
    groups = ", ".join([TIME, *(quote(k) for k in plan.keys)])
    order = ", ".join(_order(o) for o in (*plan.order, *(Order(name) for name in plan.schema.names)))
    number = f"row_number() OVER (PARTITION BY {groups} ORDER BY {order})"
    low, high = plan.offset + 1, plan.offset + plan.count
    within = f"{number} BETWEEN {low} AND {high}"
    if plan.ties:
        by = ", ".join(_order(o) for o in plan.order) or "1"
        within = f"{number} >= {low} AND rank() OVER (PARTITION BY {groups} ORDER BY {by}) <= {high}"
    return f"SELECT * FROM ({_history(plan.source, instants)}) AS many QUALIFY {within}"


def _order(order: Order) -> str:
    nulls = "FIRST" if order.nulls_first else "LAST"
    return f"{quote(order.column)} {'DESC' if order.descending else 'ASC'} NULLS {nulls}"


def _aggregate(plan: Aggregate, instants: str) -> str:
    """Grouping by the instant too: where there are no rows, there is no group."""
    keys = ", ".join([TIME, *(quote(k) for k in plan.keys)])
    made = "".join(f", {_called(c)} AS {quote(c.name)}" for c in plan.calls)
    low, high = INTEGER_RANGES[Type.BIGINT]
    integers = [c for c in plan.calls if c.function == "sum" and c.type is Type.BIGINT]
    sums = [f"sum({'DISTINCT ' if c.distinct else ''}{quote(str(c.column))})" for c in integers]
    having = " AND ".join(["TRUE", *(f"COALESCE({s} BETWEEN {low} AND {high}, TRUE)" for s in sums)])
    return f"SELECT {keys}{made} FROM ({_history(plan.source, instants)}) AS grouped GROUP BY {keys} HAVING {having}"


def _called(call: AggregateCall) -> str:
    if call.function in ("arg_max", "arg_min"):
        return _argument(call)
    if call.function in ("first", "last"):
        return _by_time(call)
    argument = "*" if call.column is None else quote(call.column)
    argument = f"DISTINCT {argument}" if call.distinct else argument
    if call.function in ("median", "quantile"):
        return f"quantile_cont(CAST({argument} AS DOUBLE), {call.options[0] if call.options else 0.5})"
    computed = f"{call.function}({argument})"
    return f"TRY_CAST({computed} AS BIGINT)" if call.type is Type.BIGINT else computed


def _argument(call: AggregateCall) -> str:
    a, b = quote(str(call.column)), quote(call.others[0])
    order = f"{b} {'DESC' if call.function == 'arg_max' else 'ASC'}, {a} ASC NULLS LAST"
    return f"(list({a} ORDER BY {order}) FILTER ({b} IS NOT NULL))[1]"


def _by_time(call: AggregateCall) -> str:
    a, direction = quote(str(call.column)), "DESC" if call.function == "last" else "ASC"
    order = f"{quote(call.others[0])} {direction}, {a} {direction}"
    return f"(list({a} ORDER BY {order}) FILTER ({a} IS NOT NULL))[1]"


def _columns(schema: Schema) -> str:
    return ", ".join(quote(name) for name in schema.names)


def assert_relations_close(actual: Relation, expected: Relation, *, tolerance: float = 1e-9) -> None:
    """Check that two relations are equal up to the rounding of floats."""
    left, missing = list((actual - expected).elements()), []
    for row in (expected - actual).elements():
        partner = next((other for other in left if _is_close(row, other, tolerance)), None)
        left.remove(partner) if partner is not None else missing.append(row)
    assert (missing, left) == ([], []), f"missing {missing}, surplus {left}"


def _is_close(row: Row, other: Row, tolerance: float) -> bool:
    return len(row) == len(other) and all(_agree(a, b, tolerance) for a, b in zip(row, other, strict=True))


def _agree(a: object, b: object, tolerance: float) -> bool:
    if isinstance(a, float) and isinstance(b, float) and a is not NAN and b is not NAN:
        return isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
    return a is b or a == b
