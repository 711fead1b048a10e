"""Groupings over a join with a stream that has a key, over rows in which the key holds; and plans a little off that."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from reference.semantics import Elements

from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    CountWindow,
    Filter,
    Join,
    Map,
    Output,
    Plan,
    Scan,
    Validity,
    Window,
)
from tidegate.expressions.nodes import Call, Cast, Column, Expression, Literal, columns_of, conjunction
from tidegate.schema import Schema, Type

SCHEMA = Schema.of(k=Type.INT, v=Type.INT)
VALUES = st.sampled_from([0, 1, 1, None])
KEYS = st.sampled_from([("k",), ("k",), ("k", "v"), ("v",), ()])


@st.composite
def grouped_joins(draw: DrawFn) -> tuple[Plan, Elements]:
    """A grouping over a join, mostly by the join columns and on the whole key, and rows for the streams."""
    partner = _partner(draw)
    (scan,) = _scans(partner)
    own = _renamed(_windowed(draw, Scan("a", SCHEMA)), "a")
    if draw(st.integers(0, 4)) == 0:
        other = _renamed(_windowed(draw, Scan("c", SCHEMA)), "c")
        own = Join(own, other, _equal(draw, Column("a.v", Type.INT), Column("c.k", Type.INT)))
    terms = _terms(draw, own, scan)
    left, right = draw(st.permutations([own, partner]))
    joined: Plan = Join(left, right, conjunction(tuple(terms)))
    keys, arguments = _group_columns(draw, terms, joined), own.schema.names
    if draw(st.integers(0, 2)) == 0:
        joined, names = _computed(draw, joined)
        keys, arguments = tuple(names[key] for key in keys), tuple(names[each] for each in arguments)
    return Aggregate(joined, keys, (_call(draw, joined, arguments),)), _rows(draw, scan)


def _partner(draw: DrawFn) -> Plan:
    """The stream with the key, as whole rows; sometimes in a window that has copies of them."""
    validity = draw(st.sampled_from([Validity.INSTANT, Validity.INSTANT, Validity.INTERVAL]))
    plan: Plan = Scan("b", SCHEMA, validity=validity, key=draw(KEYS))
    if draw(st.integers(0, 4)) == 0:
        plan = Filter(plan, _comparison(draw, "v"))
    if validity is Validity.INSTANT or draw(st.booleans()):
        kinds = [lambda: _windowed(draw, plan)] * 3 + [lambda: CountWindow(plan, draw(st.integers(1, 3)))]
        return _renamed(draw(st.sampled_from(kinds))(), "b")
    return _renamed(plan, "b")


def _scans(plan: Plan) -> tuple[Scan, ...]:
    return (plan,) if isinstance(plan, Scan) else _scans(plan.source)  # type: ignore[union-attr]


def _windowed(draw: DrawFn, plan: Plan) -> Plan:
    return Window(plan, draw(st.integers(3, 6)), draw(st.sampled_from([1, 1, 1, 2])))


def _renamed(plan: Plan, name: str) -> Plan:
    return Map(plan, tuple(Output(f"{name}.{f.name}", Column(f.name, f.type)) for f in plan.schema))


def _terms(draw: DrawFn, own: Plan, scan: Scan) -> list[Expression]:
    """Equalities with the columns of the key, or with others; sometimes another condition."""
    columns = scan.key or ("k",)
    if draw(st.integers(0, 5)) == 0:
        columns = (draw(st.sampled_from(["k", "v"])),)
    mine = draw(st.permutations(own.schema.names))
    terms = [
        _equal(draw, Column(name, Type.INT), Column(f"b.{key}", Type.INT))
        for name, key in zip(mine, columns, strict=False)
    ]
    if draw(st.integers(0, 5)) == 0:
        terms.append(Call("<", (Column("a.v", Type.INT), Column("b.v", Type.INT)), Type.BOOLEAN))
    return terms


def _equal(draw: DrawFn, left: Column, right: Column) -> Expression:
    sides: tuple[Expression, ...] = (left, right)
    if draw(st.integers(0, 3)) == 0:
        sides = (Cast(left, Type.BIGINT), Cast(right, Type.BIGINT))
    return Call("=", sides[:: draw(st.sampled_from([1, -1]))], Type.BOOLEAN)


def _comparison(draw: DrawFn, name: str) -> Expression:
    compared = (Column(name, Type.INT), Literal(1, Type.INT))
    return Call(draw(st.sampled_from(["=", "<", "<="])), compared, Type.BOOLEAN)


def _group_columns(draw: DrawFn, terms: list[Expression], joined: Plan) -> tuple[str, ...]:
    """Mostly a column of each equality, and perhaps other columns."""
    found = [draw(st.sampled_from(sorted(columns_of(term)))) for term in terms]
    if draw(st.integers(0, 3)) == 0:
        found[0] = draw(st.sampled_from(joined.schema.names))
    if draw(st.integers(0, 2)) == 0:
        found.append(draw(st.sampled_from(joined.schema.names)))
    return tuple(dict.fromkeys(found))


def _computed(draw: DrawFn, plan: Plan) -> tuple[Plan, dict[str, str]]:
    """A map above a plan with the same columns, some renamed or computed; and their new names."""
    names = {each: each + "'" if draw(st.booleans()) else each for each in plan.schema.names}
    outputs = []
    for each in plan.schema:
        made: Expression = Column(each.name, each.type)
        if draw(st.integers(0, 5)) == 0:
            other = Column(draw(st.sampled_from(plan.schema.names)), each.type)
            made = Call("coalesce", (made, other), each.type)
        outputs.append(Output(names[each.name], made))
    return Map(plan, tuple(outputs)), names


def _call(draw: DrawFn, joined: Plan, arguments: tuple[str, ...]) -> AggregateCall:
    """A call of which the argument is mostly of the side that may be grouped."""
    column = draw(st.sampled_from([*arguments * 2, *joined.schema.names]))
    calls = [
        AggregateCall("count", None, "x", Type.BIGINT),
        AggregateCall("count", column, "x", Type.BIGINT),
        AggregateCall("max", column, "x", Type.INT),
        AggregateCall("avg", column, "x", Type.DOUBLE),
    ]
    return draw(st.sampled_from(calls))


def _rows(draw: DrawFn, scan: Scan) -> Elements:
    """Rows of which those of `b` do not repeat a key."""
    row = st.tuples(st.integers(0, 3), VALUES, VALUES)
    found: dict[str, list[tuple[int, int, dict[str, int | None]]]] = {name: [] for name in "abc"}
    for name in "ac":
        found[name] = [(at, at + 1, {"k": k, "v": v}) for at, k, v in draw(st.lists(row, min_size=3, max_size=6))]
    seen = set()
    for at, k, v in draw(st.lists(row, min_size=3, max_size=6)):
        values = {"k": k, "v": v}
        key = tuple(values[name] for name in scan.key)
        if not scan.key or key not in seen or None in key:
            end = at + (1 if scan.validity is Validity.INSTANT else draw(st.integers(1, 4)))
            found["b"].append((at, end, values))
        seen.add(key)
    return found
