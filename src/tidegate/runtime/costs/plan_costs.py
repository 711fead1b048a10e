"""Costs of whole plans of a query, also of plans that do not run, by what is known of the query."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from math import prod

from tidegate.costs.estimates import NOTHING_KNOWN, CostEstimate, Flow, OperatorKnowledge, Prices
from tidegate.errors import deep_recursion
from tidegate.expressions.nodes import Column, Expression, conjuncts
from tidegate.optimizer.keyed_join_cost import WAITING_SHARE, expected_stays
from tidegate.optimizer.names import rename
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.operator import Operator
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.physical.estimate import estimate_operator
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.physical.stateless.operators import FilterOperator, MapOperator
from tidegate.runtime.costs.condition_texts import terms_of_edges, terms_of_join, texts_of
from tidegate.runtime.costs.explain import describe_bytes, describe_share
from tidegate.runtime.costs.knowledge import USUAL_SOURCE
from tidegate.runtime.costs.prices import USUAL_PRICES
from tidegate.runtime.costs.query_knowledge import QueryKnowledge
from tidegate.values import value

BYTES_OF_A_CORE = 4e9
"""Bytes of state that count as much as a whole core: machines mostly have about as much memory for each core."""


COMPARED_PRICES: Mapping[str, Prices] = {
    "aggregate": Prices(0.0, 1.0e-7, 0.0),
    "filter": Prices(0.0, 2.0e-9, 0.0),
    "join": Prices(0.0, 1.0e-7, 5.0e-8),
    "keyed join": Prices(0.0, 1.1e-7, 5.0e-8),
    "nested join": Prices(0.0, 6.0e-8, 5.0e-8, compared=2.4e-10),
    "similarity join": Prices(0.0, 1.2e-6, 5.0e-8, compared=5.0e-11),
    "slots": Prices(0.0, 1.0e-6, 0.0),
}
"""Prices of kinds of operators that take each other's place, measured side by side.

Prices that are fitted to runs of one kind each (`prices.py`) say how much a graph costs. They do not say which of two
kinds costs less: a join and a keyed join take about the same time, and their fitted prices differ by a factor of six.
`./dev bench plan_choices` measures them. Nested loops and similarity joins were measured on numbers. Steps without rows
are left out (`cost_of_plan`).
"""


Renamings = tuple[Mapping[str, str], ...]
"""The names that the columns of a part of a plan have above each map above it."""


@value
class PlanCost:
    """Processor seconds in a second of application time, and bytes of state."""

    seconds: float = 0.0
    bytes: float = 0.0

    @property
    def total(self) -> float:
        """The cost in cores: what is used of a processor, and of the memory that belongs to it.

        Examples
        --------
        >>> PlanCost(0.25, 1e9).total
        0.5
        """
        return self.seconds + self.bytes / BYTES_OF_A_CORE

    def plus(self, other: PlanCost) -> PlanCost:
        return PlanCost(self.seconds + other.seconds, self.bytes + other.bytes)

    def describe(self) -> str:
        """Describe the cost.

        Examples
        --------
        >>> PlanCost(0.012, 3.4e6).describe()
        '1.2 % of a core and 3.4 MB'
        """
        return f"{describe_share(self.seconds)} of a core and {describe_bytes(self.bytes)}"


@deep_recursion()
def cost_of_plan(plan: PhysicalPlan, known: QueryKnowledge, free: Collection[PhysicalPlan] = ()) -> PlanCost:
    """Return the cost of a plan. Parts that run for other queries as well are `free`.

    What a step costs without any row is left out. It is about the same in all plans, and where it is most of the cost,
    there are so few rows that no plan costs much.
    """
    found = _PlanEstimates(known)
    found.flow_of(plan)
    return reduce(PlanCost.plus, (found.cost_of(part) for part in found.estimates if part not in free), PlanCost())


class _PlanEstimates:
    """Estimates of the parts of one plan."""

    def __init__(self, known: QueryKnowledge) -> None:
        self.known = known
        self.estimates: dict[Apply, CostEstimate] = {}
        self._loose = iter(known.loose)

    def flow_of(self, part: PhysicalPlan, names: Renamings = ()) -> Flow:
        """Return the elements that a part gives; `names` are those that its columns have above it."""
        if isinstance(part, Read):
            return self.known.sources.get(part.stream, USUAL_SOURCE)
        if part not in self.estimates:
            below = _names_below(part.operator, names)
            inputs = [self.flow_of(each, below) for each in part.inputs]
            context = self.known.context(self._know_operator(part.operator, inputs, names))
            self.estimates[part] = estimate_operator(part.operator, inputs, context)
        return self.estimates[part].flow

    def cost_of(self, part: Apply) -> PlanCost:
        each = self.estimates[part]
        prices = COMPARED_PRICES.get(each.work.kind) or self.known.prices.get(each.work.kind, USUAL_PRICES)
        return PlanCost(prices.seconds_of(replace(each.work, steps=0.0, parts=0.0, busy=0.0)), each.bytes)

    def _know_operator(self, operator: Operator, inputs: list[Flow], names: Renamings) -> OperatorKnowledge:
        """Return what is known of an operator, or what follows for it from operators of another plan."""
        # Joins without an equality are in the same order in all plans of a query.
        loose = next(self._loose, None) if _is_loose(operator) else None
        own = self.known.operators.get(operator)
        if own is None and isinstance(operator, FilterOperator):
            return OperatorKnowledge(self._share_of_filter(operator.predicate, names))
        return own or self._conclude(operator, inputs, loose)

    def _share_of_filter(self, predicate: Expression, names: Renamings) -> float | None:
        """Return the share of the rows that pass a filter, which may be above a map in another plan."""
        forms = [predicate, *(rename(predicate, each) for each in names)]
        found = [self._share_of(terms) for each in forms for terms in ([each], conjuncts(each))]
        return next((share for share in found if share is not None), None)

    def _conclude(self, operator: Operator, inputs: list[Flow], loose: float | None) -> OperatorKnowledge:
        match operator:
            case JoinOperator():
                share = self._share_of(terms_of_join(operator))
                return OperatorKnowledge(loose if share is None else share)
            case KeyedJoinOperator():
                return OperatorKnowledge(
                    self._share_of_edges(operator, inputs), kept=self._share_kept(operator, inputs)
                )
            case SimilarityJoinOperator():
                return OperatorKnowledge(loose)
            case AggregateOperator(keys=keys) if keys:
                return OperatorKnowledge(groups=self.known.count_groups(frozenset(keys)))
        return NOTHING_KNOWN

    def _share_of(self, terms: Iterable[Expression]) -> float | None:
        """Return the share of the rows or pairs that satisfy all terms; None if one is not known."""
        shares = self.known.shares
        found = [next((shares[text] for text in texts_of(term) if text in shares), None) for term in terms]
        known = [each for each in found if each is not None]
        return prod(known) if len(known) == len(found) else None

    def _share_of_edges(self, join: KeyedJoinOperator, inputs: list[Flow]) -> float | None:
        """Return the share of the elements that meet all their children, of which each meets at most one."""
        met = 1.0
        for child, term in terms_of_edges(join):
            share = self._share_of([term])
            if share is None:
                return None
            met *= min(share * inputs[child].characteristics.valid_rows, 1.0)
        return met

    def _share_kept(self, join: KeyedJoinOperator, inputs: list[Flow]) -> float:
        """Return the share of the valid elements that a keyed join keeps: what it kept, or is expected to keep."""
        if (known := self.known.kept.get(join.describe())) is not None:
            return known
        windows, lengths = join.windows, [each.characteristics.length for each in inputs]
        rows = [windows[at].rows if at in windows else None for at in range(len(inputs))]
        met = self._share_of_edges(join, inputs)
        waiting = WAITING_SHARE if met is None else 1.0 - met
        stays = expected_stays(join.edges, lengths, rows, join.constraints, join.watched, waiting=waiting)
        valid = sum(each.characteristics.valid_rows for each in inputs)
        return sum(each.rate * stay for each, stay in zip(inputs, stays, strict=True)) / valid if valid else 1.0


def _names_below(operator: Operator, names: Renamings) -> Renamings:
    """Return the names that the columns below an operator have above it."""
    match operator:
        case MapOperator(outputs=outputs):
            own = {o.expression.name: o.name for o in outputs if isinstance(o.expression, Column)}
            return (own, *({old: each.get(new, new) for old, new in own.items()} for each in names))
        case AggregateOperator():
            return ()
    return names


def _is_loose(operator: Operator) -> bool:
    is_plain = isinstance(operator, JoinOperator) and not operator.left_keys
    return is_plain or (isinstance(operator, SimilarityJoinOperator) and not operator.is_keyed)
