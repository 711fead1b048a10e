"""Split, coalesce, granularity and windows of elements on the printed tables of PIPES, and what they promise."""

from __future__ import annotations

import pytest
from support.harness import rows_of, run_elements
from support.stepping import Element, at_once, bag_at, batch_of, in_steps, intervals, run

from tidegate.algebra.plan import Change, Changes, Coalesce, CountWindow, Granularity, Join, Plan, Scan, Split, Window
from tidegate.errors import DataError
from tidegate.expressions.nodes import TRUE
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.plan import Apply
from tidegate.physical.lower import lower
from tidegate.physical.relation.changes import ChangesOperator
from tidegate.physical.relation.count_window import CountWindowOperator
from tidegate.physical.stateless.operators import WindowOperator
from tidegate.physical.stateless.validities import GranularityOperator, SplitOperator
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING, FOREVER

Printed = list[tuple[str, int, int]]
INF = FOREVER

S1: Printed = [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("a", 9, 10), ("b", 12, 17)]  # Table 11.1 (a)
S2: Printed = [("b", 1, 7), ("d", 3, 9), ("a", 4, 5), ("b", 7, 15), ("e", 10, 18)]  # Table 11.1 (b)
S3: Printed = [("b", 1, 2), ("a", 3, 4), ("c", 4, 5), ("a", 7, 8), ("b", 10, 11)]  # Table 11.11 (a)

LETTERS = Schema.of(e=Type.STRING)
LEFT, RAW = intervals("left", LETTERS), Scan("left", LETTERS)
MARKS = [[], [2, 4, 6, 8, 10, 12]]


def elements(printed: Printed) -> list[Element]:
    return [(start, end, (letter,)) for letter, start, end in printed]


def assert_same(found: list[Element], expected: list[Element]) -> None:
    """Whether both say the same at every instant."""
    for instant in [*range(-1, 80), FOREVER - 1]:
        assert bag_at(found, instant) == bag_at(expected, instant), instant


TABLES: list[tuple[Plan, Printed, Printed]] = [
    (
        Split(LEFT, 1),  # Table 11.14
        S1,
        [(letter, t, t + 1) for letter, start, end in S1 for t in range(start, end)],
    ),
    (Coalesce(LEFT, 20), S2, [("b", 1, 15), ("d", 3, 9), ("a", 4, 5), ("e", 10, 18)]),  # Table 11.15
    (Coalesce(LEFT, 4), [("b", 0, 2), ("b", 2, 8)], [("b", 0, 2), ("b", 2, 8)]),  # erratum E-04: a strict bound
    (Granularity(LEFT, 2), S1, [("c", 2, 8), ("a", 6, 12), ("d", 6, 14), ("b", 12, 18)]),  # Table 20.2
    (Window(RAW, 50), S3, [("b", 1, 51), ("a", 3, 53), ("c", 4, 54), ("a", 7, 57), ("b", 10, 60)]),  # Table 11.11 (b)
    (CountWindow(RAW, 1), S3, [("b", 1, 3), ("a", 3, 4), ("c", 4, 7), ("a", 7, 10), ("b", 10, INF)]),  # Table 11.12
    (CountWindow(RAW, 2, 2), S3, [("b", 3, 7), ("a", 3, 7), ("c", 7, INF), ("a", 7, INF)]),  # Table 17.2, E-22
    (
        CountWindow(RAW, 1, keys=("e",)),  # Table 11.13
        S3,
        [("b", 1, 10), ("a", 3, 7), ("c", 4, INF), ("a", 7, INF), ("b", 10, INF)],
    ),
    (CountWindow(RAW, None), S3, [(letter, start, INF) for letter, start, _ in S3]),
    (CountWindow(RAW, 1, 3), S3, [("c", 4, INF)]),  # most leave when they enter
]


@pytest.mark.parametrize("marks", MARKS, ids=["at once", "in steps"])
@pytest.mark.parametrize(("plan", "given", "expected"), TABLES)
def test_the_printed_rows_come_out(plan: Plan, given: Printed, expected: Printed, marks: list[int]) -> None:
    found = run(plan, in_steps(elements(given), marks)).elements
    assert_same(found, elements(expected))
    if not marks:
        assert sorted(found) == sorted(elements(expected))  # with nothing held back, the very same rows


@pytest.mark.parametrize("emit", list(Emit))
@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize(("plan", "given", "expected"), TABLES)
def test_stages_and_buckets_change_nothing(
    plan: Plan, given: Printed, expected: Printed, buckets: int, emit: Emit
) -> None:
    if emit is Emit.SETTLED:
        plan = Coalesce(plan, 2)  # below a stateful operator
    rows = {"left": [(start, end, {"e": letter}) for letter, start, end in given]}
    assert_same(rows_of(run_elements(plan, rows, buckets=buckets, cuts=4)), elements(expected))


def test_count_windows_of_the_logical_algebra() -> None:
    """Tables 8.12 and 8.13 over the stream of erratum E-02."""
    stream = elements([(letter, t, t + 1) for t, letter in enumerate("cabbac", 1)])
    last_three = run(CountWindow(RAW, 3), in_steps(stream, [3, 5])).elements
    contents = {1: "c", 2: "ac", 3: "abc", 4: "abb", 5: "abb", 6: "abc", FOREVER - 1: "abc"}
    for instant, content in contents.items():
        assert sorted(row[0] for row in bag_at(last_three, instant).elements()) == sorted(content)


def test_of_one_instant_the_greatest_values_are_the_last_ones() -> None:
    together = [(5, 6, (letter,)) for letter in ("b", None, "a", "c")]
    assert run(CountWindow(RAW, 2), at_once(left=together)).elements == [(5, INF, ("c",)), (5, INF, (None,))]


def test_an_element_is_reported_once_when_it_leaves() -> None:
    stream = elements([("a", 1, 2), ("b", 9, 10)])
    outcome = run(CountWindow(RAW, 1), in_steps(stream, [4, 6, 12]))
    assert outcome.elements == [(1, 9, ("a",)), (9, INF, ("b",))]
    assert outcome.promises == [(1, 0), (1, 0), (9, 1), (INF, 2)]


def test_reported_early_an_element_comes_when_it_is_counted_and_again_when_it_leaves() -> None:
    stream = elements([("a", 1, 2), ("b", 9, 10)])
    outcome = run(CountWindow(RAW, 1), in_steps(stream, [4, 6, 12]), emit=Emit.EARLY)
    assert outcome.elements == [(1, 4, ("a",)), (4, 9, ("a",)), (9, 12, ("b",)), (12, INF, ("b",))]
    assert outcome.promises == [(4, 1), (4, 1), (12, 3), (INF, 4)]


def test_below_a_stateful_operator_what_is_open_is_cut_at_each_watermark() -> None:
    outcome = run(CountWindow(RAW, 1), in_steps(elements([("a", 1, 2)]), [4, 6]), emit=Emit.SETTLED)
    assert outcome.elements == [(1, 4, ("a",)), (4, 6, ("a",)), (6, INF, ("a",))]
    assert [promise for promise, _ in outcome.promises] == [4, 6, INF]


def test_elements_that_wait_for_the_slide_do_not_hold_time_back() -> None:
    outcome = run(CountWindow(RAW, 2, 3), in_steps(elements([("a", 1, 2), ("b", 2, 3)]), [4, 6]))
    assert outcome.elements == []
    assert [promise for promise, _ in outcome.promises] == [4, 6, INF]


@pytest.mark.parametrize("emit", list(Emit))
def test_a_step_in_which_nothing_happens_hands_on_the_same_chunks(emit: Emit) -> None:
    operator = CountWindowOperator(LETTERS, 2, 1, ("e",), emit)
    plan = CountWindow(RAW, 2, 1, ("e",))
    first, second = run(plan, in_steps(elements(S3), [20, 30]), emit=emit).states[:2]
    assert first["0"].keys() == second["0"].keys() >= {"groups", "elements"}
    assert all(first["0"][name] is second["0"][name] for name in first["0"] if name != "figures")
    assert operator.describe().startswith("window last 2 elements of each e")


def test_only_the_last_elements_of_a_group_are_remembered() -> None:
    stream = [(t, t + 1, ("a",)) for t in range(60)]
    states = run(CountWindow(RAW, 3, 1, ("e",)), in_steps(stream, [10, 50])).states
    assert [state["0"]["elements"].num_rows for state in states] == [3, 3, 0]


def test_coalesce_holds_an_element_back_no_longer_than_its_length() -> None:
    endless = [(t, t + 1, ("a",)) for t in range(20)]
    outcome = run(Coalesce(LEFT, 5), in_steps(endless, list(range(1, 20))))
    assert outcome.elements == [(t, t + 5, ("a",)) for t in (0, 5, 10, 15)]
    assert [promise for promise, _ in outcome.promises[:7]] == [0, 0, 0, 0, 5, 5, 5]


def test_split_is_left_out_where_all_elements_are_chronons() -> None:
    assert _below(Window(RAW, 5)) is None
    assert _below(CountWindow(Join(RAW, intervals("right", Schema.of(f=Type.STRING)), TRUE), 5)) is not SplitOperator
    assert _below(Window(LEFT, 5)) is SplitOperator
    assert _below(CountWindow(LEFT, 5)) is SplitOperator
    assert _below(Window(Changes(LEFT, Change.INSERTED), 5)) is ChangesOperator


def _below(plan: Plan) -> type | None:
    """The operator below the one of the plan."""
    physical = lower(plan)
    assert isinstance(physical, Apply)
    (below,) = physical.inputs
    return type(below.operator) if isinstance(below, Apply) else None


def test_a_window_of_all_elements_needs_no_state() -> None:
    plan = lower(CountWindow(RAW, None, 1, ("e",)))
    assert isinstance(plan, Apply)
    assert plan.operator == WindowOperator(LETTERS, None, 1)


def test_the_watermark_of_a_granularity_is_on_its_grid() -> None:
    operator = GranularityOperator(LETTERS, 5)
    for mark, expected in ((0, 0), (1, 5), (-7, -5), (BEGINNING, BEGINNING), (FOREVER, FOREVER)):
        assert operator.step({}, [batch_of(LETTERS, [])], [mark]).watermark == expected


def test_an_element_that_is_valid_for_ever_cannot_be_split() -> None:
    for start, end in ((0, FOREVER), (BEGINNING, 5), (BEGINNING, FOREVER)):
        with pytest.raises(DataError, match="valid for ever"):
            run(Split(LEFT, 1), at_once(left=[(start, end, ("a",))]))
