"""What a run has shown of a query, in terms that hold in every plan of it.

A plan that does not run has operators of which nothing was measured. Plans of one query have conditions and columns in
common. So the share of the pairs that satisfy a condition is known by its text, and the number of groups by columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from tidegate.costs.estimates import (
    NO_SIZES,
    NOTHING_KNOWN,
    SECOND,
    CostContext,
    CostEstimate,
    Flow,
    OperatorKnowledge,
    Prices,
)
from tidegate.expressions.nodes import Call, Column, Expression
from tidegate.expressions.sql_text import to_sql
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.operator import Operator
from tidegate.physical.estimate import estimate_operator
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.physical.stateless.operators import FilterOperator
from tidegate.runtime.costs.condition_texts import terms_of_edges, terms_of_join, texts_of
from tidegate.runtime.costs.estimate import walk_estimates
from tidegate.runtime.costs.knowledge import Knowledge, Place
from tidegate.runtime.costs.prices import DEFAULT_PRICES
from tidegate.runtime.stage_graph import StageGraph
from tidegate.values import value


@value
class QueryKnowledge:
    """What a run has shown of a query."""

    sources: Mapping[str, Flow] = field(default_factory=dict)
    operators: Mapping[Operator, OperatorKnowledge] = field(default_factory=dict)
    """What is known of the operators that run."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Share of the rows, or of the pairs, that satisfy a condition, by its text."""
    loose: tuple[float, ...] = ()
    """Share of the pairs that joins without an equality give, bottom-up."""
    groups: Mapping[frozenset[str], float] = field(default_factory=dict)
    """Number of groups, by their columns."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Number of values of a column that is compared in a join."""
    kept: Mapping[str, float] = field(default_factory=dict)
    """Rows that keyed joins keep, or kept when they ran, as a share of the valid rows, by the text of the join."""
    prices: Mapping[str, Prices] = field(default_factory=lambda: DEFAULT_PRICES)
    step: float = SECOND

    def with_kept(self, kept: Mapping[str, float]) -> QueryKnowledge:
        return replace(self, kept={**kept, **self.kept})

    def context(self, known: OperatorKnowledge) -> CostContext:
        """Return what an estimate of an operator depends on besides its inputs, in a steady state."""
        return CostContext(known, self.step)

    def count_groups(self, columns: frozenset[str]) -> float | None:
        """Return the number of groups of some columns, or of one of them; None if nothing is known.

        It may be too large for rows of which a join has left few. That does no harm: no more groups than rows are live.

        Examples
        --------
        >>> known = QueryKnowledge(groups={frozenset(["a.k", "b.v"]): 50.0}, values={"a.k": 70.0})
        >>> known.count_groups(frozenset(["a.k", "b.v"])), known.count_groups(frozenset(["a.k"]))
        (50.0, 70.0)
        """
        if columns in self.groups:
            return self.groups[columns]
        related = [count for some, count in self.groups.items() if some & columns]
        return max([*related, *(self.values[name] for name in columns if name in self.values)], default=None)


def know_query(graph: StageGraph, known: Knowledge, shares: Mapping[str, float]) -> QueryKnowledge:
    """Return what is known of a query; `graph` is its part of the graph, `shares` are those of conditions of joins."""
    notes = _Notes(known, dict(shares))
    for _ in walk_estimates(graph, known, notes.note_operator):
        pass
    return QueryKnowledge(
        known.sources,
        notes.operators,
        notes.shares,
        tuple(notes.loose),
        notes.groups,
        notes.values,
        notes.kept,
        known.prices,
        known.step,
    )


class _Notes:
    """Collector of what is known of the operators of a query, as they are estimated bottom-up."""

    def __init__(self, known: Knowledge, shares: dict[str, float]) -> None:
        self.known, self.shares = known, shares
        self.operators: dict[Operator, OperatorKnowledge] = {}
        self.loose: list[float] = []
        self.groups: dict[frozenset[str], float] = {}
        self.values: dict[str, float] = {}
        self.kept: dict[str, float] = {}

    def note_operator(self, place: Place, operator: Operator, inputs: list[Flow]) -> CostEstimate:
        context = self.known.context(place, NO_SIZES)
        # Bytes of rows were measured of these operators alone, and would not compare with those of others.
        own = replace(context.known, row_bytes=None)
        if own != NOTHING_KNOWN:
            self.operators[operator] = own
        if isinstance(operator, AggregateOperator) and own.groups is not None:
            self.groups[frozenset(operator.keys)] = own.groups
        if isinstance(operator, KeyedJoinOperator) and own.kept is not None:
            self.kept[operator.describe()] = own.kept
        if own.selectivity is not None:
            self._note_selectivity(operator, inputs, own.selectivity)
        return estimate_operator(operator, inputs, replace(context, known=own))

    def _note_selectivity(self, operator: Operator, inputs: list[Flow], selectivity: float) -> None:
        match operator:
            case FilterOperator(predicate=predicate):
                self.shares.setdefault(to_sql(predicate), selectivity)
            case KeyedJoinOperator(edges=edges):
                # All edges are assumed to leave the same share over.
                share = selectivity ** (1 / len(edges))
                for child, term in terms_of_edges(operator):
                    valid = max(inputs[child].characteristics.valid_rows, 1.0)
                    self.shares |= {text: share / valid for text in texts_of(term) if text not in self.shares}
                    self._note_values(term)
            case JoinOperator(left_keys=()) | SimilarityJoinOperator(keys=((), ())):
                self.loose.append(selectivity)
            case JoinOperator():
                for term in terms_of_join(operator):
                    self._note_values(term)

    def _note_values(self, term: Expression) -> None:
        """Note how many values columns have, from the share of the pairs in which they are equal."""
        share = self.shares.get(to_sql(term))
        match term:
            case Call("=", (Column() as left, Column() as right)) if share:
                for column in (left, right):
                    self.values[column.name] = max(1.0 / share, self.values.get(column.name, 0.0))
