"""The optimiser: rules in order, each with its law."""

from __future__ import annotations

from tidegate.algebra.constraints import DEFAULT_SETTINGS, ConstraintSettings, ConstraintUse
from tidegate.algebra.own_times import stamp_own_times
from tidegate.algebra.plan import Plan
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding
from tidegate.optimizer.advice import NO_ADVICE, GroupPosition, PlanAdvice
from tidegate.optimizer.aggregates import AGGREGATE_RULES, push_aggregate_below_join
from tidegate.optimizer.columns import prune_columns
from tidegate.optimizer.constants import CONSTANT_RULES
from tidegate.optimizer.disjunctions import DISJUNCTION_RULES
from tidegate.optimizer.extremes import EXTREME_RULES, omit_below_extremes
from tidegate.optimizer.filters import FILTER_RULES
from tidegate.optimizer.grouping import group_below_join_on_key
from tidegate.optimizer.join_order import order_joins_by_cost
from tidegate.optimizer.joins import reorder_joins
from tidegate.optimizer.keyed_join import find_keyed_joins
from tidegate.optimizer.omission import omit_what_cannot_alarm
from tidegate.optimizer.placement import PLACEMENT_RULES
from tidegate.optimizer.rule import Rule, apply_rules, plan_rule
from tidegate.optimizer.semi_joins import SEMI_JOIN_RULES
from tidegate.optimizer.similarity_join import find_similarity_joins
from tidegate.optimizer.simplify import SIMPLIFYING_RULES
from tidegate.optimizer.threshold_alert import THRESHOLD_RULES
from tidegate.optimizer.total_grouping import GROUPING_LAW, group_totals
from tidegate.optimizer.windows import WINDOW_RULES, extend_whole_elements

RULES: tuple[Rule, ...] = (
    *SIMPLIFYING_RULES,
    *CONSTANT_RULES,
    *FILTER_RULES,
    *WINDOW_RULES,
    *PLACEMENT_RULES,
    *AGGREGATE_RULES,
    *EXTREME_RULES,
    *DISJUNCTION_RULES,
    *SEMI_JOIN_RULES,
    *THRESHOLD_RULES,
)
"""Rules that nearly always help; they are applied wherever possible until none applies."""

STAMPING = plan_rule(
    "FIRST and LAST by own time = by a column that holds it, from below the windows that move elements",
    stamp_own_times,
)
OMISSION = plan_rule(
    "an element between greater (and smaller) ones within the window raises no alarm that these do not raise",
    omit_what_cannot_alarm,
)
EXTREMES = plan_rule(
    "γk,max(ωd(S)) = γk,max(ωd(S')) if S' lacks elements of S between two greater ones at most d apart; so for min",
    omit_below_extremes,
)
PRUNING = plan_rule("π(op(S)) = π(op(π(S))) if the inner π keeps what op reads", prune_columns)


def phases(
    settings: ConstraintSettings = DEFAULT_SETTINGS, shedding: Shedding = NO_SHEDDING, advice: PlanAdvice = NO_ADVICE
) -> tuple[tuple[Rule, ...], ...]:
    """Return all rules in phases: the rules of a phase are applied until none applies, then the next phase begins."""
    choices, rules = advice.choices, rules_of_choice(advice.choices.grouping, settings)
    join_order = plan_rule("(S1 ⋈ S2) ⋈ S3 = S1 ⋈ (S2 ⋈ S3) = (S1 ⋈ S3) ⋈ S2 (10.4)", order_joins_by_cost, advice)
    keyed_joins = plan_rule(
        "S1 ⋈ … ⋈ Sn = their keyed join, if the equal columns of each pair contain a key of one",
        find_keyed_joins,
        settings,
        choices.keyed_joins,
    )
    similarity_joins = plan_rule(
        "S1 ⋈ S2 = their similarity join, if the condition requires similar rows; a part of it, if it may shed",
        find_similarity_joins,
        shedding,
    )
    return (
        # First, because the rules preserve relations but not where validities begin.
        (STAMPING,),
        rules,
        # Conditions must be in their final place before reordering can see which joins have none.
        (reorder_joins,),
        (join_order,),
        rules,
        (OMISSION, EXTREMES),
        (keyed_joins,),
        (similarity_joins,) if choices.similarity_joins or shedding.policy is not Policy.OFF else (),
        # After everything that moves filters: their position determines which columns are read.
        (PRUNING,),
        (*SIMPLIFYING_RULES, extend_whole_elements),
    )


def rules_of_choice(grouping: GroupPosition, settings: ConstraintSettings) -> tuple[Rule, ...]:
    """Return the rules that are applied wherever possible, given where to group."""
    match grouping:
        case GroupPosition.ABOVE:
            return tuple(each for each in RULES if each is not push_aggregate_below_join)
        case GroupPosition.BELOW if settings.use is not ConstraintUse.OFF:
            return (*RULES, group_below_join_on_key)
    return RULES


LAWS = {rule.name: rule.law for phase in (*phases(), (group_below_join_on_key,)) for rule in phase}
LAWS[group_totals.__name__] = GROUPING_LAW
"""The law of each rule, by name; one of them is about the plans of several queries."""


def optimize(
    plan: Plan,
    settings: ConstraintSettings = DEFAULT_SETTINGS,
    shedding: Shedding = NO_SHEDDING,
    advice: PlanAdvice = NO_ADVICE,
) -> tuple[Plan, tuple[str, ...]]:
    """Return a better plan of the same meaning, and the names of the rules applied; shedding may leave rows out."""
    applied: list[str] = []
    for phase in phases(settings, shedding, advice):
        plan, names = apply_rules(plan, phase)
        applied += names
    return plan, tuple(dict.fromkeys(applied))
