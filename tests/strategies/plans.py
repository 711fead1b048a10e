"""Plans over streams: every operator, valid by the contract, small enough to think about."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from reference.changes import has_own_times, is_chronon, is_finite

from strategies.calls import FUNCTIONS, draw_call
from strategies.expressions import COMPARISONS, draw_expression, draw_literal, widened
from strategies.streams import Arrival, Delivery, Sources, Streams, deliveries, sources, streams
from tidegate.algebra.plan import (
    Aggregate,
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Order,
    Output,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Union,
    Validity,
    Window,
    inputs,
)
from tidegate.expressions.nodes import TRUE, Call, Column, Expression
from tidegate.schema import Field, Schema, Type

__all__ = [
    "FUNCTIONS",
    "KINDS",
    "Arrival",
    "Delivery",
    "Sources",
    "Streams",
    "deliveries",
    "plans",
    "sources",
    "streams",
]

MOST_SCANS = 3

UNARY = (
    *("count_window", "changes", "aggregate", "granularity", "limit", "coalesce", "split", "sample"),
    *("validity_window", "aggregate", "distinct", "map", "window", "filter"),
)
BINARY = ("set_operation", "semi_join", "join", "union", "set_operation", "join")

KINDS = tuple(dict.fromkeys((*UNARY, *BINARY)))
"""The operators that plans are made of; a window over elements longer than a chronon is a kind of its own."""


@st.composite
def plans(
    draw: DrawFn,
    source: Streams | Sources,
    *,
    depth: int = 4,
    without: frozenset[str] = frozenset(),
    root: str | None = None,
) -> Plan:
    """A plan of at most `depth` operators from root to leaf, where a scan with its renaming is one leaf.

    `without` has `KINDS` of operators, and `FUNCTIONS` of aggregates, that do not occur in it; `root` is
    the kind of operator at the top.
    """
    drawing = _Drawing(draw, source, depth, without)
    return drawing.plan(depth) if root is None else drawing.made(root, depth)


@dataclass(slots=True)
class _Drawing:
    """One plan in the making: what it may still scan, and the names it has used."""

    draw: DrawFn
    source: Streams | Sources
    depth: int
    without: frozenset[str]
    scans: int = 0
    names: int = 0
    has_validity_window: bool = False

    def plan(self, depth: int) -> Plan:
        kinds = [*UNARY, *(BINARY if self.scans < MOST_SCANS - 1 else ())] if depth > 1 else []
        kinds = [kind for kind in kinds if kind not in self.without]
        if depth < self.depth or not kinds:
            kinds += ["leaf"] * (1 + len(kinds) // 6)
        return self.made(self.draw(st.sampled_from(kinds)), depth)

    def made(self, kind: str, depth: int) -> Plan:
        return self.leaf() if kind == "leaf" else getattr(self, kind)(depth - 1)

    def leaf(self) -> Plan:
        """A scan, often in a window, whose columns have names of their own."""
        scan: Plan = self.scan()
        if is_chronon(scan) and self.draw(st.integers(0, 3)) < 3:
            scan = self.windowed(scan)
        return self.renamed(scan)

    def scan(self) -> Scan:
        self.scans += 1
        stream = self.draw(st.sampled_from(sorted(self.source.schemas)))
        validity = self.source.validities[stream] if isinstance(self.source, Sources) else Validity.INSTANT
        return Scan(stream, self.source.schemas[stream], validity=validity)

    def renamed(self, plan: Plan) -> Plan:
        prefix = self.fresh("t")
        return Map(plan, tuple(Output(f"{prefix}.{f.name}", Column(f.name, f.type)) for f in plan.schema))

    def windowed(self, plan: Plan) -> Plan:
        return Window(plan, self.draw(st.sampled_from([2, 3, 4, 5, 6, 1])), self.draw(st.sampled_from([1, 1, 2, 3, 4])))

    def window(self, depth: int) -> Plan:
        source = self.plan(depth)
        return self.windowed(source) if _consists_of_chronons(source) else source

    def validity_window(self, depth: int) -> Plan:
        """A window over elements of any length, each instant of which it makes longer: once in a plan is enough."""
        source = self.plan(depth)
        if self.has_validity_window or not is_finite(source):
            return source
        self.has_validity_window = True
        return Window(source, self.draw(st.sampled_from([2, 3, 1])), self.draw(st.sampled_from([1, 1, 2])))

    def count_window(self, depth: int) -> Plan:
        """Where elements are longer than a chronon, each instant counts."""
        source = self.plan(depth)
        if not is_finite(source):
            return source
        rows = self.draw(st.sampled_from([2, 1, 3, 4, None]))
        slide = self.draw(st.sampled_from([1, 1, 2, 3]))
        return CountWindow(source, rows, slide, self.keys(source.schema, most=1))

    def granularity(self, depth: int) -> Plan:
        return Granularity(self.plan(depth), self.draw(st.sampled_from([2, 3, 4, 1])))

    def sample(self, _depth: int) -> Plan:
        """A sample of a source, some of whose rows a filter may have left out."""
        source = self.scan()
        read = self.draw(st.sampled_from(list(source.schema)))
        missing = Call("is_null", (Column(read.name, read.type),), Type.BOOLEAN)
        below: Plan = Filter(source, Call("not", (missing,), Type.BOOLEAN)) if self.draw(st.booleans()) else source
        return self.renamed(Sample(below, self.fresh("weight"), self.draw(st.sampled_from([200_000, 500_000, 10**6]))))

    def split(self, depth: int) -> Plan:
        source = self.plan(depth)
        return Split(source, self.draw(st.sampled_from([1, 2, 3]))) if is_finite(source) else source

    def coalesce(self, depth: int) -> Plan:
        return Coalesce(self.narrowed(self.plan(depth)), self.draw(st.sampled_from([2, 4, 20])))

    def changes(self, depth: int) -> Plan:
        return Changes(self.narrowed(self.plan(depth)), self.draw(st.sampled_from(list(Change))))

    def limit(self, depth: int) -> Plan:
        source = self.narrowed(self.plan(depth))
        columns = self.draw(st.permutations(source.schema.names))[: self.draw(st.integers(0, 2))]
        order = tuple(Order(name, self.draw(st.booleans()), self.draw(st.booleans())) for name in columns)
        count, offset = self.draw(st.sampled_from([1, 2, 3])), self.draw(st.sampled_from([0, 0, 1, 2]))
        ties = self.draw(st.booleans())
        return Limit(source, order, count, offset, self.keys(source.schema, most=1), ties=ties)

    def keys(self, schema: Schema, *, most: int) -> tuple[str, ...]:
        width = min(self.draw(st.integers(0, most)), len(schema))
        return tuple(self.draw(st.permutations(schema.names))[:width])

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
        first = self.plan(depth)
        return Union((first, self.alike(first.schema, self.plan(depth))))

    def set_operation(self, depth: int) -> Plan:
        left = self.narrowed(self.plan(depth))
        right = self.alike(left.schema, self.plan(depth))
        return SetOperation(left, right, self.draw(st.sampled_from(list(SetRule))))

    def narrowed(self, plan: Plan) -> Plan:
        """Of all columns, or of a few, so that some rows are equal."""
        kept = self.draw(st.lists(st.sampled_from(plan.schema.fields), max_size=2, unique=True))
        outputs = tuple(Output(self.fresh("d"), Column(f.name, f.type)) for f in kept)
        return Map(plan, outputs) if outputs else plan

    def alike(self, wanted: Schema, plan: Plan) -> Plan:
        """Columns of the wanted types from a plan: its own where it has such."""
        return Map(plan, tuple(Output(self.fresh("u"), self.like(f, plan.schema)) for f in wanted))

    def like(self, wanted: Field, schema: Schema) -> Expression:
        columns = [Column(f.name, f.type) for f in schema if f.type is wanted.type]
        return self.draw(st.sampled_from(columns)) if columns else draw_literal(self.draw, wanted.type)

    def join(self, depth: int) -> Plan:
        left, right = self.plan(depth), self.plan(depth)
        terms = [self.equality(left.schema, right.schema) for _ in range(self.draw(st.sampled_from([1, 2, 0])))]
        terms = [t for t in terms if t != TRUE]
        if not terms or not self.draw(st.integers(0, 2)):
            terms.append(self.condition(left.schema, right.schema))
        return Join(left, right, _all_of(terms))

    def semi_join(self, depth: int) -> Plan:
        """With conditions that cannot fail, as the contract says."""
        left, right = self.plan(depth), self.plan(depth)
        terms = [self.equality(left.schema, right.schema) for _ in range(self.draw(st.sampled_from([1, 2, 0])))]
        pairs = [(a, b) for a in left.schema for b in right.schema if a.type is b.type]
        if bool(pairs) and self.draw(st.booleans()):
            terms.append(self.compared(self.draw(st.sampled_from(COMPARISONS)), *self.draw(st.sampled_from(pairs))))
        return SemiJoin(left, right, _all_of([t for t in terms if t != TRUE]), anti=self.draw(st.booleans()))

    def equality(self, left: Schema, right: Schema) -> Expression:
        """Columns of both sides are equal, the narrower one widened; TRUE where none are alike."""
        pairs = [(a, b) for a in left for b in right if a.type is b.type or (a.type.is_numeric and b.type.is_numeric)]
        if not pairs:
            return TRUE
        likely = [(a, b) for a, b in pairs if a.name.endswith(".k") and b.name.endswith(".k")]
        a, b = self.draw(st.sampled_from([*likely * 3, *pairs]))
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
        keys = self.keys(source.schema, most=2)
        left_out = self.without if has_own_times(source) else self.without | {"first", "last"}
        names = [self.fresh("c") for _ in range(self.draw(st.integers(0 if keys else 1, 3)))]
        return Aggregate(source, keys, tuple(draw_call(self.draw, source.schema, name, left_out) for name in names))

    def distinct(self, depth: int) -> Plan:
        return Distinct(self.narrowed(self.plan(depth)))

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"


def _all_of(terms: list[Expression]) -> Expression:
    predicate: Expression = terms[0] if terms else TRUE
    for term in terms[1:]:
        predicate = Call("and", (predicate, term), Type.BOOLEAN)
    return predicate


def _consists_of_chronons(plan: Plan) -> bool:
    """Whether all elements are valid for one chronon; some operators may join equal neighbours to one."""
    match plan:
        case Scan(validity=validity):
            return validity is Validity.INSTANT
        case Split(length=1) | Changes():
            return True
        case Filter() | Map() | Limit() | Split() | Union():
            return all(_consists_of_chronons(each) for each in inputs(plan))
        case Join(left=left, right=right):
            return _consists_of_chronons(left) or _consists_of_chronons(right)
        case SemiJoin(left=left):
            return _consists_of_chronons(left)
    return False
