"""Joins of streams that have keys, over rows in which the keys hold; and constraints that need not."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from reference.semantics import Elements

from strategies.plans import _all_of
from tidegate.algebra.constraints import (
    Clustered,
    Constraint,
    ConstraintSettings,
    ConstraintUse,
    Ordered,
    Reach,
    Reference,
)
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
from tidegate.expressions.nodes import Call, Cast, Column, Expression, Literal
from tidegate.schema import Schema, Type

SCHEMA = Schema.of(k=Type.INT, v=Type.INT)
NAMES = ("a", "b", "c", "d")
KEYS = (("k",), ("v",), ("k",), ("k", "v"), ())

SETTINGS = st.builds(
    ConstraintSettings,
    st.sampled_from([ConstraintUse.MONITORED] * 4 + [ConstraintUse.DECLARED, ConstraintUse.OFF]),
    st.booleans(),
)


@st.composite
def keyed_joins(draw: DrawFn) -> tuple[Plan, Elements]:
    """A plan with joins of two to four streams, and rows for these."""
    drawing = _Drawing(draw)
    plan = drawing.joined(drawing.leaf(), draw(st.integers(1, 3)))
    if draw(st.integers(0, 4)) == 0:
        plan = Aggregate(plan, plan.schema.names[:1], (AggregateCall("count", None, "n", Type.BIGINT),))
    return plan, {scan.stream: drawing.rows(scan) for scan in drawing.scans.values()}


@dataclass(slots=True)
class _Drawing:
    """One plan in the making: the streams that it reads, and how many names it has used."""

    draw: DrawFn
    scans: dict[str, Scan] = field(default_factory=dict)
    names: int = 0

    def joined(self, left: Plan, more: int) -> Plan:
        for _ in range(more):
            right = self.leaf()
            sides = (left, right) if self.draw(st.booleans()) else (right, left)
            terms = [self.equality(left, right) for _ in range(self.draw(st.sampled_from([1, 1, 2])))]
            if self.draw(st.integers(0, 3)) == 0:
                terms.append(self.comparison(Schema(left.schema.fields + right.schema.fields)))
            left = self.between(Join(*sides, _all_of(terms)))
        return left

    def between(self, plan: Plan) -> Plan:
        """Sometimes with a map or a filter above."""
        match self.draw(st.sampled_from(["map", "filter", "none", "none", "none"])):
            case "map":
                names = self.draw(st.permutations(plan.schema.names))[: max(2, len(plan.schema) - 1)]
                return self.renamed(plan, tuple(names))
            case "filter":
                return Filter(plan, self.comparison(plan.schema))
        return plan

    def leaf(self) -> Plan:
        """A stream, most often whole rows of it, under names of its own."""
        name = self.draw(st.sampled_from(NAMES))
        if name not in self.scans:
            validity = self.draw(st.sampled_from([Validity.INSTANT, Validity.INSTANT, Validity.INTERVAL]))
            key = self.draw(st.sampled_from(KEYS))
            self.scans[name] = Scan(name, SCHEMA, validity=validity, key=key, constraints=self.constraints())
        plan: Plan = self.scans[name]
        if self.draw(st.integers(0, 3)) == 0:
            plan = Filter(plan, self.comparison(plan.schema))
        kind = self.draw(st.sampled_from(["window"] * 7 + ["rows"] * 3 + ["none", "grouped"]))
        if kind == "rows":
            plan = CountWindow(plan, self.draw(st.integers(1, 3)), self.draw(st.sampled_from([1, 1, 1, 2])))
        elif kind == "window" and self.scans[name].validity is Validity.INSTANT:
            plan = Window(plan, self.draw(st.integers(2, 6)), self.draw(st.sampled_from([1, 1, 1, 2])))
        elif kind == "grouped":
            plan = Aggregate(plan, ("k",), (AggregateCall("max", "v", "v", Type.INT),))
        return self.renamed(plan, plan.schema.names)

    def constraints(self) -> tuple[Constraint, ...]:
        column, other = st.sampled_from(["k", "v"]), st.sampled_from(NAMES)
        within = st.one_of(st.builds(Reach, st.integers(0, 3)), st.builds(Reach, st.none(), st.integers(0, 8)))
        reference = st.builds(lambda a, o, b, w: Reference(None, (a,), o, (b,), w), column, other, column, within)
        clustered = st.builds(lambda a, w: Clustered((a,), w), column, within)
        ordered = st.builds(Ordered, column, within)
        return tuple(self.draw(st.lists(st.one_of(reference, clustered, ordered), max_size=2)))

    def renamed(self, plan: Plan, names: tuple[str, ...]) -> Plan:
        self.names += 1
        return Map(plan, tuple(Output(f"t{self.names}.c{i}", Column(n, Type.INT)) for i, n in enumerate(names)))

    def equality(self, left: Plan, right: Plan) -> Expression:
        sides = [
            Column(self.draw(st.sampled_from(each.schema.names[:1] * 2 + each.schema.names)), Type.INT)
            for each in (left, right)
        ]
        match self.draw(st.sampled_from(["plain", "plain", "plain", "cast", "computed"])):
            case "cast":
                return Call("=", tuple(Cast(side, Type.BIGINT) for side in sides), Type.BOOLEAN)
            case "computed":
                zero = Literal(0, Type.INT)
                both = (Call("coalesce", (sides[0], zero), Type.INT), Call("coalesce", (sides[1], zero), Type.INT))
                return Call("=", both, Type.BOOLEAN)
        return Call("=", tuple(sides), Type.BOOLEAN)

    def comparison(self, schema: Schema) -> Expression:
        column: Expression = Column(self.draw(st.sampled_from(schema.names)), Type.INT)
        if self.draw(st.integers(0, 5)) == 0:
            column = Call("div", (Literal(2, Type.INT), column), Type.INT)  # it may fail
        return Call(self.draw(st.sampled_from(["<>", "<"])), (column, Literal(2, Type.INT)), Type.BOOLEAN)

    def rows(self, scan: Scan) -> list[tuple[int, int, dict[str, int | None]]]:
        """Elements no two of which agree in the key."""
        value = st.sampled_from([0, 1, 2, 3, None])
        row = st.tuples(st.integers(0, 7), st.integers(1, 4), value, value)
        drawn = self.draw(st.lists(row, max_size=5))
        seen, kept = set(), []
        for start, length, k, v in drawn:
            made = {"k": k, "v": v}
            key = tuple(made[name] for name in scan.key)
            if scan.key and key in seen and None not in key:
                continue
            seen.add(key)
            kept.append((start, start + (length if scan.validity is Validity.INTERVAL else 1), made))
        return kept
