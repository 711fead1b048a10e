"""shedding = sample: rewrite a query to estimates from a sample of its stream.

The stream becomes a `Sample`, whose weights pass through filters, maps and windows. The aggregate above them becomes
one of sums, and a map above that makes estimates and their intervals of the sums. What a sample cannot answer is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Changes,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Output,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Union,
    Validity,
    Window,
    walk,
)
from tidegate.algebra.properties import is_chronon
from tidegate.algebra.similarity_join import Shedding
from tidegate.errors import QueryError, Span
from tidegate.expressions.nodes import Call, Cast, Column, Expression, Literal, columns_of, transform
from tidegate.language.bind.names import is_same_name, unique_name
from tidegate.language.bind.shedding.estimates import EstimatedCall, estimate_call
from tidegate.schema import Type
from tidegate.values import value

_EXACT = "write WITH (shedding = off) after the query to have it exact"
_APPROXIMATE = "or add approximate = yes"


@value
class _Bounds:
    """The columns with the interval of an estimate, and the type of the exact value."""

    low: str
    high: str
    exact: Type


@value
class _Estimated:
    """A plan over a sample, and its columns that are estimates."""

    plan: Plan
    estimates: Mapping[str, _Bounds]

    def column(self, name: str, like: Expression | None = None) -> Column:
        found = Column(name, self.plan.schema.type_of(name))
        return found if like is None else replace(found, span=like.span)


def sample_query(plan: Plan, shedding: Shedding) -> Plan:
    """Return a query over a sample of its stream: COUNT, SUM and AVG are estimates with intervals."""
    return _sample(plan, shedding).plan


def _sample(plan: Plan, shedding: Shedding) -> _Estimated:
    match plan:
        case Map(source=source):
            return _map_estimates(plan, _sample(source, shedding), shedding)
        case Filter(source=source, predicate=predicate):
            below = _sample(source, shedding)
            read = _over_estimates(predicate, below, shedding, "a condition on an aggregate")
            return replace(below, plan=Filter(below.plan, read, plan.span))
        case Aggregate(calls=(_, *_)):
            return _estimate(plan, shedding)
        case Aggregate() | Distinct():
            raise _refusal("DISTINCT or GROUP BY without an aggregate", plan.span)
        case Scan() | Window() | Granularity():
            raise _refusal("no aggregate", plan.span)
    raise _refusal(_name(plan), plan.span)


# ---- below the aggregate


def _add_sample(plan: Plan, weight: str, shedding: Shedding) -> Plan:
    """Return the source of an aggregate over a sample, with the weights as the last column."""
    match plan:
        case Scan(validity=Validity.RELATION):
            raise _refusal("a table", plan.span)
        case Scan():
            return Sample(plan, weight, shedding.rate, shedding.target, plan.span)
        case Filter(source=source) | Granularity(source=source):
            return replace(plan, source=_add_sample(source, weight, shedding))
        case Window(source=source) if is_chronon(source):
            return replace(plan, source=_add_sample(source, weight, shedding))
        case Map(source=source, outputs=outputs):
            kept = Output(weight, Column(weight, Type.DOUBLE))
            return replace(plan, source=_add_sample(source, weight, shedding), outputs=(*outputs, kept))
    raise _refusal(_name(plan), plan.span)


# ---- the aggregate


def _estimate(plan: Aggregate, shedding: Shedding) -> _Estimated:
    """Replace an aggregate by one of sums, and a map that makes estimates of them."""
    taken = {name.lower() for node in walk(plan) for name in node.schema.names}
    weight = Column(unique_name("weight", taken), Type.DOUBLE)
    source = _add_sample(plan.source, weight.name, shedding)
    sums, kept, outputs, bounds = dict[Expression, str](), list[AggregateCall](), list[Output](), dict[str, _Bounds]()

    def sum_of(term: Expression) -> Expression:
        sums.setdefault(term, unique_name(f"sum_{len(sums) + 1}", taken))
        return Column(sums[term], Type.DOUBLE)

    for call in plan.calls:
        argument = None if call.column is None else Column(call.column, plan.source.schema.type_of(call.column))
        made = estimate_call(call, argument, weight, sum_of)
        if made is None:
            made = _extreme(call, plan.span, shedding)
            kept.append(call)
        low, high = (unique_name(f"{call.name}_{end}", taken) for end in ("low", "high"))
        bounds[call.name] = _Bounds(low, high, call.type)
        outputs += [Output(call.name, made.value), Output(low, made.low), Output(high, made.high)]
    keys = tuple(Output(key, Column(key, plan.source.schema.type_of(key))) for key in plan.keys)
    read = [*plan.keys, *dict.fromkeys(name for call in kept for name in call.columns if name not in plan.keys)]
    terms = [Output(name, Column(name, source.schema.type_of(name))) for name in read]
    terms += [Output(name, term) for term, name in sums.items()]
    calls = (*(AggregateCall("sum", name, name, Type.DOUBLE) for name in sums.values()), *kept)
    totals = Aggregate(Map(source, tuple(terms), plan.span), plan.keys, calls, plan.span)
    return _Estimated(Map(totals, (*keys, *outputs), plan.span), bounds)


def _extreme(call: AggregateCall, span: Span, shedding: Shedding) -> EstimatedCall:
    """Return MIN or MAX of the rows kept, which bounds that of all rows on one side."""
    if call.function not in ("min", "max"):
        name = f"{call.function.upper()}({'DISTINCT …' if call.distinct else ''})"
        raise _refusal(name.replace("()", ""), span)
    if not shedding.approximate:
        raise _refusal(call.function.upper(), span, f"{_EXACT}, {_APPROXIMATE} for that of the rows kept")
    found, unknown = Column(call.name, call.type), Literal(None, call.type)
    return EstimatedCall(found, unknown, found) if call.function == "min" else EstimatedCall(found, found, unknown)


# ---- above the aggregate


def _map_estimates(plan: Map, below: _Estimated, shedding: Shedding) -> _Estimated:
    """Return a map of estimates: each column that is an estimate gets two more for its interval."""
    outputs, bounds = list[Output](), dict[str, _Bounds]()
    for output in plan.outputs:
        read = output.expression
        if not (isinstance(read, Column) and read.name in below.estimates):
            made = _over_estimates(read, below, shedding, "an expression of an aggregate")
            outputs.append(Output(output.name, made))
            continue
        known = below.estimates[read.name]
        own = replace(known, low=f"{output.name}_low", high=f"{output.name}_high")
        bounds[output.name] = own
        outputs.append(Output(output.name, below.column(read.name, read)))
        outputs += [Output(own.low, below.column(known.low, read)), Output(own.high, below.column(known.high, read))]
    _refuse_same_names(outputs)
    return _Estimated(Map(below.plan, tuple(outputs), plan.span), bounds)


def _over_estimates(expression: Expression, below: _Estimated, shedding: Shedding, what: str) -> Expression:
    """Return an expression over estimates, which have the types of the exact values there."""
    if not columns_of(expression) & below.estimates.keys():
        return expression
    if not shedding.approximate:
        raise _refusal(
            what, expression.span, f"{_EXACT}, {_APPROXIMATE} to compute with estimates, without an interval"
        )
    return transform(expression, lambda part: _to_exact_type(part, below))


def _to_exact_type(part: Expression, below: _Estimated) -> Expression:
    if not (isinstance(part, Column) and part.name in below.estimates):
        return part
    found, exact = below.column(part.name, part), below.estimates[part.name].exact
    if found.type is exact:
        return found
    rounded = Call("round", (found,), Type.DOUBLE) if exact.is_integer else found
    return Cast(rounded, exact, part.span)


def _refuse_same_names(outputs: Sequence[Output]) -> None:
    for position, output in enumerate(outputs):
        if any(is_same_name(output.name, other.name) for other in outputs[:position]):
            message = f"'{output.name}' is the name of two columns: a sampled aggregate has an interval, _low and _high"
            raise QueryError("Q129", message, output.expression.span, hint="give one of them another alias")


# ---- refusals


def _refusal(what: str, span: Span, hint: str = "") -> QueryError:
    message = f"a sample cannot answer this query: it has {what}"
    if what == "no aggregate":
        message = "there is nothing to sample in this query: it has no aggregate"
    known = f"{_EXACT}; a sample serves COUNT, SUM and AVG of one stream, through conditions and windows of time"
    return QueryError("Q129", message, span, hint=hint or known)


def _name(plan: Plan) -> str:
    match plan:
        case Join():
            return "a join"
        case SemiJoin(anti=anti):
            return f"a condition with {'NOT EXISTS or NOT IN' if anti else 'EXISTS or IN'}"
        case SetOperation(rule=rule):
            return rule.value.upper()
        case Union():
            return "UNION ALL"
        case Limit():
            return "LIMIT"
        case CountWindow():
            return "a window of rows"
        case Window():
            return "a window over rows that last"
        case Distinct():
            return "DISTINCT"
        case Aggregate():
            return "an aggregate of an aggregate"
        case Changes() | Split():
            return "ISTREAM, DSTREAM or RSTREAM"
    return "an alert"
