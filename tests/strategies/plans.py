"""Plans over streams: every operator, valid by the contract, small enough to think about."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from strategies.expressions import COMPARISONS, draw_expression, draw_literal, widened
from strategies.streams import Arrival, Delivery, Streams, deliveries, streams
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Map,
    Output,
    Plan,
    Scan,
    Union,
    Window,
    inputs,
)
from tidegate.expressions.nodes import TRUE, Call, Column, Expression
from tidegate.schema import Field, Schema, Type

__all__ = ["Arrival", "Delivery", "Streams", "deliveries", "plans", "streams"]

MOST_SCANS = 3


@st.composite
def plans(draw: DrawFn, source: Streams, *, depth: int = 4) -> Plan:
    """A plan of at most `depth` operators from root to leaf, where a scan with its renaming is one leaf."""
    return _Drawing(draw, source, depth).plan(depth)


@dataclass(slots=True)
class _Drawing:
    """One plan in the making: what it may still scan, and the names it has used."""

    draw: DrawFn
    source: Streams
    depth: int
    scans: int = 0
    names: int = 0

    def plan(self, depth: int) -> Plan:
        kinds = ["filter", "map", "aggregate", "aggregate", "distinct", "window"] if depth > 1 else ["leaf"]
        if depth < self.depth:
            kinds = ["leaf", *kinds]
        if depth > 1 and self.scans < MOST_SCANS - 1:
            kinds += ["join", "join", "union"]
        kind = self.draw(st.sampled_from(kinds))
        return self.leaf() if kind == "leaf" else getattr(self, kind)(depth - 1)

    def leaf(self) -> Plan:
        """A scan, often in a window, whose columns have names of their own."""
        self.scans += 1
        stream = self.draw(st.sampled_from(sorted(self.source.schemas)))
        scan: Plan = Scan(stream, self.source.schemas[stream])
        if self.draw(st.integers(0, 3)) < 3:
            scan = self.windowed(scan)
        return self.renamed(scan)

    def renamed(self, plan: Plan) -> Plan:
        prefix = self.fresh("t")
        return Map(plan, tuple(Output(f"{prefix}.{f.name}", Column(f.name, f.type)) for f in plan.schema))

    def windowed(self, plan: Plan) -> Plan:
        return Window(plan, self.draw(st.sampled_from([2, 3, 4, 5, 6, 1])), self.draw(st.sampled_from([1, 1, 2, 3, 4])))

    def window(self, depth: int) -> Plan:
        source = self.plan(depth)
        return self.windowed(source) if _takes_window(source) else source

    def filter(self, depth: int) -> Plan:
        source = self.plan(depth)
        return Filter(source, draw_expression(self.draw, source.schema, Type.BOOLEAN, 2))

    def map(self, depth: int) -> Plan:
        source = self.plan(depth)
        likely = [*(f.type for f in source.schema), Type.DOUBLE, Type.INT, Type.BOOLEAN]
        types = self.draw(st.lists(st.sampled_from(likely), min_size=1, max_size=3))
        made = [draw_expression(self.draw, source.schema, type_, 2) for type_ in types]
        return Map(source, tuple(Output(self.fresh("m"), expression) for expression in made))

    def union(self, depth: int) -> Plan:
        first, second = self.plan(depth), self.plan(depth)
        outputs = tuple(Output(self.fresh("u"), self.like(f, second.schema)) for f in first.schema)
        return Union((first, Map(second, outputs)))

    def like(self, wanted: Field, schema: Schema) -> Expression:
        columns = [Column(f.name, f.type) for f in schema if f.type is wanted.type]
        return self.draw(st.sampled_from(columns)) if columns else draw_literal(self.draw, wanted.type)

    def join(self, depth: int) -> Plan:
        left, right = self.plan(depth), self.plan(depth)
        terms = [self.equality(left.schema, right.schema) for _ in range(self.draw(st.sampled_from([1, 2, 0])))]
        terms = [t for t in terms if t != TRUE]
        if not terms or not self.draw(st.integers(0, 2)):
            terms.append(self.condition(left.schema, right.schema))
        predicate = terms[0]
        for term in terms[1:]:
            predicate = Call("and", (predicate, term), Type.BOOLEAN)
        return Join(left, right, predicate)

    def equality(self, left: Schema, right: Schema) -> Expression:
        """Columns of both sides are equal, the narrower one widened; TRUE where none are alike."""
        pairs = [(a, b) for a in left for b in right if a.type is b.type or (a.type.is_numeric and b.type.is_numeric)]
        if not pairs:
            return TRUE
        a, b = self.draw(st.sampled_from(pairs))
        return self.compared("=", a, b)

    def condition(self, left: Schema, right: Schema) -> Expression:
        """Any condition over the pair: a comparison of columns, or one that may fail."""
        pairs = [(a, b) for a in left for b in right if a.type is b.type]
        if self.draw(st.booleans()) and pairs:
            return self.compared(self.draw(st.sampled_from(COMPARISONS)), *self.draw(st.sampled_from(pairs)))
        return draw_expression(self.draw, left + right, Type.BOOLEAN, 2)

    def compared(self, comparison: str, a: Field, b: Field) -> Expression:
        wider = max(a.type, b.type, key=[Type.INT, Type.BIGINT, Type.DOUBLE].index) if a.type is not b.type else a.type
        sides = tuple(widened(Column(f.name, f.type), wider) for f in (a, b))
        return Call(comparison, sides, Type.BOOLEAN)

    def aggregate(self, depth: int) -> Plan:
        source = self.plan(depth)
        width = min(self.draw(st.sampled_from([0, 1, 1, 2])), len(source.schema))
        keys = self.draw(st.permutations(source.schema.names))[:width]
        count = self.draw(st.integers(0 if keys else 1, 3))
        return Aggregate(source, tuple(keys), tuple(self.call(source.schema) for _ in range(count)))

    def call(self, schema: Schema) -> AggregateCall:
        column = self.draw(st.sampled_from(schema.fields))
        functions = ["min", "max", "sum", "avg", "count"] if column.type.is_numeric else ["min", "max", "count"]
        function = self.draw(st.sampled_from([*functions, "count(*)"]))
        if function == "count(*)":
            return AggregateCall("count", None, self.fresh("c"), Type.BIGINT)
        return AggregateCall(function, column.name, self.fresh("c"), _result(function, column.type))

    def distinct(self, depth: int) -> Plan:
        """Of all columns, or of a few, so that there is something to do."""
        source = self.plan(depth)
        kept = self.draw(st.lists(st.sampled_from(source.schema.fields), max_size=2, unique=True))
        outputs = tuple(Output(self.fresh("d"), Column(f.name, f.type)) for f in kept)
        return Distinct(Map(source, outputs) if outputs else source)

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"


def _takes_window(plan: Plan) -> bool:
    """Whether all elements are valid for one chronon; aggregates and DISTINCT may join equal neighbours to one."""
    match plan:
        case Window() | Aggregate() | Distinct():
            return False
        case Join(left=left, right=right):
            return _takes_window(left) or _takes_window(right)
    return all(_takes_window(each) for each in inputs(plan))


def _result(function: str, argument: Type) -> Type:
    match function:
        case "count":
            return Type.BIGINT
        case "sum":
            return Type.BIGINT if argument.is_integer else Type.DOUBLE
        case "avg":
            return Type.DOUBLE
    return argument
