"""Find common subplans, within a query and between queries, and replace them by one plan.

Two plans are common if they differ only in the names of columns. The first is kept; others become a map that gives
its columns the expected names. A plan may also be *covered* by one that has more columns. This module shares only plans
that contain operators with state; stages make equal parts of plans run once.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    WHOLE,
    Aggregate,
    Coalesce,
    Filter,
    Granularity,
    Join,
    Map,
    Output,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    Split,
    Stamp,
    Union,
    Window,
    inputs,
    walk,
    with_inputs,
)
from tidegate.expressions.nodes import Column
from tidegate.optimizer.plan_keys import parameters, positions
from tidegate.optimizer.rule import apply_rules
from tidegate.optimizer.simplify import SIMPLIFYING_RULES
from tidegate.optimizer.widening import Widened, shape, widen
from tidegate.schema import Schema
from tidegate.values import value

_STATELESS = (Scan, Filter, Map, Union, Window, Granularity, Split, Stamp, Sample)
_SHARED_BY_COLUMNS = (Join, SemiJoin, KeyedJoin, Aggregate)


def share_subplans(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Return the plans, with subplans of the same meaning as equal values."""
    shared = SubplanTable()
    return tuple(shared.share_plan(plan, number)[0] for number, plan in enumerate(plans))


@value
class _KnownPlan:
    """The first plan of its key: made of known subplans, and as it was given."""

    shared: Plan
    given: Plan
    owner: int
    is_narrowed: bool = False
    """Whether it consists of columns of another plan."""


class SubplanTable:
    """The first plan of each key. Keys are numbered, so that a plan is compared without all that is below it.

    Each plan has an *owner*. A plan that uses a subplan of another owner has the column names of that one.

    With `covers`, a plan that has some of the columns of a known plan reads them from that one.
    """

    def __init__(self, *, covers: bool = False) -> None:
        self._covers = covers
        self._known: dict[int, tuple[_KnownPlan, ...]] = {}
        """Plans by the number of their key: the last one counts, and has replaced those before it."""
        self._by_shape: dict[Hashable, list[int]] = {}
        self._owner, self._used, self._once, self._replaced = 0, set[int](), False, frozenset[int]()
        self._covers_now = covers
        self._numbers: dict[Hashable, int] = {}
        self._seen: dict[int, tuple[Plan, int, bool]] = {}
        """Plans by identity, with the number of their key, and whether anything in them has state."""

    def share_plan(
        self, plan: Plan, owner: int, *, once: bool = False, replaced: Collection[int] = (), covered: bool = True
    ) -> tuple[Plan, frozenset[int]]:
        """Return the plan made of known subplans where it can be, and the other owners of these.

        With `once`, each result is to be reported once. `replaced` are owners of plans that this one replaces. If
        there are any, a plan that has other columns than a known one gets those, too, so that it can serve both.
        Without `covered`, only equal subplans are used.
        """
        self._covers_now = self._covers and covered
        self._owner, self._used, self._once, self._replaced = owner, set(), once, frozenset(replaced)
        # Simplification merges the renaming maps into maps above them; equal subplans stay equal.
        shared = apply_rules(self._share(plan, is_top=True), SIMPLIFYING_RULES)[0]
        self._seen.clear()
        return shared, frozenset(self._used - {owner})

    def owners(self) -> frozenset[int]:
        return frozenset(each.owner for known in self._known.values() for each in known)

    def forget(self, owners: Collection[int]) -> None:
        """Forget the subplans of some owners, which no other plan may use."""
        left = {n: tuple(each for each in known if each.owner not in owners) for n, known in self._known.items()}
        self._known = {number: known for number, known in left.items() if known}
        kept = {key: [n for n in numbers if n in self._known] for key, numbers in self._by_shape.items()}
        self._by_shape = {key: numbers for key, numbers in kept.items() if numbers}

    def _share(self, plan: Plan, *, is_top: bool = False) -> Plan:
        """Return a plan made of known subplans; a plan is on top if no operator with state is above it."""
        number, has_state = self._number_plan(plan)
        if not has_state:
            return plan  # sources are read once anyway
        known = self._find_known(plan, number) or self._add(number, self._make(plan, is_top=is_top))
        self._used.add(known.owner)
        shared = known.shared
        if known.is_narrowed and is_top and self._once:
            # Changes of the columns that are left out cut results in two.
            shared = Coalesce(shared, WHOLE)
        return _rename_columns(shared, plan.schema)

    def _find_known(self, plan: Plan, number: int) -> _KnownPlan | None:
        """Return a known plan that serves for a plan: an equal one, or some columns of another one.

        A plan that replaces another one rather takes columns of a wider plan: that one serves several queries.
        """
        equal = self._find_equal(number)
        if equal is not None and (equal.is_narrowed or not self._replaced):
            return equal
        narrowed = self._narrow_known(plan, number)
        return equal if narrowed is None else self._add(number, narrowed)

    def _find_equal(self, number: int) -> _KnownPlan | None:
        known = self._known[number][-1] if number in self._known else None
        return None if known is None or known.owner in self._replaced else known

    def _share_equal(self, plan: Plan) -> Plan:
        """Return a plan as it is known, without looking for a wider one."""
        number, _ = self._number_plan(plan)
        known = self._find_equal(number) or self._add(number, self._make(plan, is_top=False))
        self._used.add(known.owner)
        return _rename_columns(known.shared, plan.schema)

    def _add(self, number: int, known: _KnownPlan) -> _KnownPlan:
        before = self._known.get(number, ())
        self._known[number] = (*before, known)
        if isinstance(known.given, _SHARED_BY_COLUMNS) and not before:
            self._by_shape.setdefault(shape(known.given), []).append(number)
        return known

    def _make(self, plan: Plan, *, is_top: bool) -> _KnownPlan:
        passes = is_top and isinstance(plan, _STATELESS)
        below = tuple(self._share(each, is_top=passes) for each in inputs(plan))
        return _KnownPlan(with_inputs(plan, below), plan, self._owner)

    def _narrow_known(self, plan: Plan, number: int) -> _KnownPlan | None:
        """Return the plan as columns of a known plan, or of a new and wider one; None if there is no such plan."""
        if not self._covers_now or not isinstance(plan, _SHARED_BY_COLUMNS):
            return None
        found = self._find_wider(plan, number)
        if found is None:
            return None
        wide = self._share_equal(found.plan)
        return _KnownPlan(found.select(wide, plan.schema), plan, self._owner, is_narrowed=_cuts_results(wide))

    def _find_wider(self, plan: Plan, number: int) -> Widened | None:
        """Return the first known plan that covers a plan; otherwise, if asked for, the first known one widened."""
        wider: Widened | None = None
        alike = [self._known[each][-1] for each in self._by_shape.get(shape(plan), ()) if each != number]
        # In the order of owners: what is found must be the same when plans are made again.
        for known in sorted(alike, key=lambda each: each.owner):
            if known.owner in self._replaced:
                continue
            found = widen(known.given, plan)
            if found is not None and found.plan is known.given:
                return found
            if self._replaced and found is not None and not found.lifted and wider is None:
                self._used.add(known.owner)
                wider = found
        return wider

    def _number_plan(self, plan: Plan) -> tuple[int, bool]:
        if id(plan) not in self._seen:
            below = tuple(map(self._number_plan, inputs(plan)))
            key = (parameters(plan, positions(plan)), *(number for number, _ in below))
            has_state = not isinstance(plan, _STATELESS) or any(has_state for _, has_state in below)
            # The plan itself is kept, so that its identity stays its own.
            self._seen[id(plan)] = plan, self._numbers.setdefault(key, len(self._numbers)), has_state
        _, number, has_state = self._seen[id(plan)]
        return number, has_state


def _rename_columns(plan: Plan, schema: Schema) -> Plan:
    if plan.schema == schema:
        return plan
    pairs = zip(schema, plan.schema, strict=True)
    return Map(plan, tuple(Output(new.name, Column(old.name, old.type)) for new, old in pairs))


def _cuts_results(plan: Plan) -> bool:
    """Return whether results begin and end with changes of other columns; those of joins of sources do not."""
    return any(not isinstance(each, (*_STATELESS, Join, KeyedJoin)) for each in walk(plan))
