"""Windows of so many elements against formulas 8.18, 8.19 and 17.2, computed at every instant."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.stepping import (
    INSTANTS,
    Bag,
    Delivery,
    Element,
    Row,
    bag_at,
    canonical,
    check,
    deliveries,
    intervals,
    lengths,
    run,
)

from tidegate.algebra.plan import CountWindow, Scan
from tidegate.physical.common.emit import Emit
from tidegate.physical.relation.kernels.count_window import count_windows
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING

COLUMNS = Schema.of(k=Type.STRING, x=Type.DOUBLE, n=Type.INT)
RAW, VALIDITIES = Scan("left", COLUMNS), intervals("left", COLUMNS)
ROWS = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([0.0, -0.0, math.nan, math.inf, None]), st.sampled_from([1, 2])
)
KEYS = st.sampled_from([(), ("k",), ("x",), ("k", "x")])


def value_order(row: Row) -> tuple[object, ...]:
    """Ascending, NaN greatest, NULL last."""
    return tuple((2, 0) if v is None else (1, 0) if v != v else (0, v) for v in row)  # noqa: PLR0124 - only NaN


def content(window: CountWindow, elements: list[Element], instant: int) -> Bag:
    """The last elements of each group, of those that were counted by then; multiples of the slide only."""
    groups: dict[Row, list[tuple[int, tuple[object, ...], Row]]] = {}
    for time, _, row in elements:
        if time <= instant:
            key = tuple(canonical(row[COLUMNS.names.index(k)]) for k in window.keys)
            groups.setdefault(key, []).append((time, value_order(row), row))
    found: Bag = Counter()
    for members in groups.values():
        last = len(members) // window.slide * window.slide
        first = 0 if window.rows is None else max(last - window.rows, 0)
        counted = sorted(members, key=lambda m: m[:2])[first:last]
        found.update(tuple(map(canonical, row)) for *_, row in counted)
    return found


@given(
    delivery=deliveries({"left": ROWS}, st.just(1), most=16),
    rows=st.sampled_from([1, 2, 3, 5, None]),
    slide=st.integers(1, 4),
    keys=KEYS,
    emit=st.sampled_from(Emit),
)
@settings(max_examples=examples(100), deadline=None)
def test_the_content_is_that_of_the_definition(
    delivery: Delivery, rows: int | None, slide: int, keys: tuple[str, ...], emit: Emit
) -> None:
    window = CountWindow(RAW, rows, slide, keys)
    outcome = run(window, delivery, emit=emit)
    elements = delivery.streams["left"]
    check(outcome, {t: content(window, elements, t) for t in INSTANTS})
    before = BEGINNING
    for mark, (promise, count) in zip(marks(delivery), outcome.promises, strict=True):
        assert promise == mark or (emit.holds_back and promise < mark)
        for instant in {start for start, *_ in elements if before <= start < mark and emit is not Emit.ENDED}:
            entered = content(window, elements, instant) - content(window, elements, before - 1)
            assert entered <= bag_at(outcome.elements[:count], instant)  # what enters is reported at once
        before = mark


def marks(delivery: Delivery) -> list[int]:
    return [step.watermarks["left"] for step in delivery.steps]


@given(delivery=deliveries({"left": ROWS}, lengths(3), most=8), rows=st.integers(1, 5), slide=st.integers(1, 3))
@settings(max_examples=examples(60), deadline=None)
def test_every_instant_of_a_validity_counts(delivery: Delivery, rows: int, slide: int) -> None:
    window = CountWindow(VALIDITIES, rows, slide, ("k",))
    chronons = [(t, t + 1, row) for start, end, row in delivery.streams["left"] for t in range(start, end)]
    check(run(window, delivery), {t: content(window, chronons, t) for t in INSTANTS})


@given(delivery=deliveries({"left": ROWS}, st.just(1), most=16), rows=st.integers(1, 3), keys=KEYS)
@settings(max_examples=examples(60), deadline=None)
def test_reported_early_an_element_comes_when_it_enters_and_when_it_leaves_only(
    delivery: Delivery, rows: int, keys: tuple[str, ...]
) -> None:
    outcome = run(CountWindow(RAW, rows, 1, keys), delivery, emit=Emit.EARLY)
    came = Counter(tuple(map(canonical, row)) for *_, row in delivery.streams["left"])
    emitted = Counter(row for *_, row in outcome.elements)
    assert all(emitted[row] <= 2 * came[row] for row in emitted)


@given(delivery=deliveries({"left": ROWS}, st.just(1), most=16), rows=st.integers(1, 3), keys=KEYS)
@settings(max_examples=examples(60), deadline=None)
def test_at_the_root_an_element_is_reported_once(delivery: Delivery, rows: int, keys: tuple[str, ...]) -> None:
    outcome = run(CountWindow(RAW, rows, 1, keys), delivery)
    came = Counter(tuple(map(canonical, row)) for *_, row in delivery.streams["left"])
    assert Counter(row for *_, row in outcome.elements) <= came


@given(delivery=deliveries({"left": ROWS}, st.just(1)), keys=KEYS)
@settings(max_examples=examples(30), deadline=None)
def test_the_kernel_is_compiled_once_whatever_it_works_on(delivery: Delivery, keys: tuple[str, ...]) -> None:
    for emit in Emit:
        run(CountWindow(RAW, 2, 1, keys), delivery, emit=emit)
        run(CountWindow(RAW, None, 2, keys), delivery, emit=emit)
    kernel: Any = count_windows
    assert len(kernel.machine_code.signatures) <= 1
