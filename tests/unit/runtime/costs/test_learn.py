"""What is learnt from figures: distances, selectivities, groups, and prices."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import SECOND, Prices, Work
from tidegate.language.bind.program import bind
from tidegate.physical.aggregate.cost import count_groups, live_groups
from tidegate.runtime.calibration.calibrate import STREAMS, measure_query
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.costs.estimate import estimate_graph
from tidegate.runtime.costs.knowledge import Knowledge
from tidegate.runtime.costs.learn import RunSample, RunSpan, learn, span_between
from tidegate.runtime.costs.prices import (
    DEFAULT_PRICES,
    MeasuredWork,
    fit_prices,
    load_prices,
    scale_prices,
    store_prices,
)
from tidegate.runtime.figures import OperatorFigures
from tidegate.runtime.source_distances import THRESHOLD, ObservedDistance, replace_distance
from tidegate.runtime.state import StateSize
from tidegate.time import BEGINNING, FOREVER

# ---- distances


def test_a_distance_is_the_advance_of_the_watermark_over_the_rows():
    watched = ObservedDistance().after(7, 100).after(4, 300)
    assert watched.used == 50.0
    assert (watched.since, watched.watermark) == (100, 300)


def test_rows_wait_until_the_watermark_advances():
    assert ObservedDistance().after(7, 100).after(1, 100).after(3, 300).used == 50.0


@pytest.mark.parametrize("mark", [BEGINNING, FOREVER])
def test_nothing_is_concluded_without_a_watermark(mark):
    assert ObservedDistance().after(5, mark) == ObservedDistance()


def test_a_distance_is_replaced_when_it_differs_by_the_threshold():
    assert replace_distance(None, 5.0) == 5.0
    assert replace_distance(100.0, 100.0 * (1 + 0.9 * THRESHOLD)) == 100.0
    assert replace_distance(100.0, 100.0 * (1 + 1.1 * THRESHOLD)) == pytest.approx(111.0)
    assert replace_distance(100.0, 100.0 * (1 - 1.1 * THRESHOLD)) == pytest.approx(89.0)


def test_old_rows_count_less():
    watched = ObservedDistance()
    for second in range(600):
        watched = watched.after(10 if second < 300 else 40, int(second * SECOND))
    assert watched.used == pytest.approx(SECOND / 40, rel=0.15)


# ---- spans

JOIN = "SELECT x.k FROM a WINDOW(RANGE 4 SECONDS) x, b WINDOW(RANGE 2 SECONDS) y WHERE x.k = y.k AND x.value > 0.5"


def graph_of(text):
    return compile_queries(bind(STREAMS + text))[1]


def place_of(graph, word):
    return next(
        (s.number, n)
        for s in graph.stages
        for n, node in enumerate(s.nodes)
        if node.operator.describe().startswith(word)
    )


def span_of(figures, rows=None, sizes=None, steps=10):
    return RunSpan(10 * SECOND, steps, figures, sizes or {}, rows or {})


def test_a_span_is_what_happened_between_two_samples():
    one, two = OperatorFigures(10, 5, 1, 0.5, 100), OperatorFigures(30, 9, 2, 2.0, 300)
    before = RunSample({(1, 0): one}, {}, {"a": 100}, {"a": 10}, 3)
    after = RunSample({(1, 0): two, (2, 0): one}, {(1, 0): StateSize(1, 1, 0)}, {"a": 300}, {"a": 30}, 7)
    span = span_between(before, after)
    assert (span.time, span.steps, span.rows) == (200.0, 4, {"a": 20})
    assert span.figures == {(1, 0): OperatorFigures(20, 4, 1, 1.5, 300), (2, 0): one}
    assert span.sizes == after.sizes


def test_no_span_without_an_advance():
    sample = RunSample(watermarks={"a": 100})
    assert span_between(sample, sample) is None
    assert span_between(RunSample(), sample) is None
    assert span_between(sample, RunSample(watermarks={"a": FOREVER})) is None


def test_the_selectivity_of_a_filter_is_learnt():
    graph = graph_of("SELECT k FROM a WHERE value > 0.5")
    place = place_of(graph, "filter")
    known = learn(graph, Knowledge(), span_of({place: OperatorFigures(1_000, 250)}, {"a": 1_000}), {})
    assert known.operators[place].selectivity == pytest.approx(0.25)
    assert known.source("a").characteristics.distance == 10 * SECOND / 1_000
    assert estimate_graph(graph, known)[place].characteristics.rate * SECOND == pytest.approx(25.0)


def test_a_short_span_changes_a_selectivity_only_as_far_as_its_results_can_say():
    graph = graph_of("SELECT k FROM a WHERE value > 0.5")
    place = place_of(graph, "filter")
    known = learn(graph, Knowledge(), span_of({place: OperatorFigures(1_000, 250)}, {"a": 1_000}), {})
    span = span_of({place: OperatorFigures(100, 50)}, {"a": 100})
    # As if 100 of 400 rows had passed before.
    weighed = learn(graph, known, span, {}, evidence={place: 100.0})
    assert weighed.operators[place].selectivity == pytest.approx((100 + 50) / (400 + 100))
    assert learn(graph, known, span, {}, evidence={place: 1.0}).operators[place].selectivity == pytest.approx(51 / 104)
    assert learn(graph, known, span, {}).operators[place].selectivity == pytest.approx(0.5)


def test_what_is_assumed_hardly_counts_but_no_result_is_not_taken_for_never():
    graph = graph_of("SELECT k FROM a WHERE value > 0.5")
    place = place_of(graph, "filter")
    few, none = (span_of({place: OperatorFigures(100, rows)}, {"a": 100}) for rows in (5, 0))
    assert learn(graph, Knowledge(), few, {}, evidence={}).operators[place].selectivity == pytest.approx(0.05, rel=0.02)
    found = learn(graph, Knowledge(), none, {}, evidence={}).operators[place].selectivity
    assert found is not None
    assert 0 < found < 0.002


def test_a_stage_that_has_read_for_a_short_time_gives_less():
    graph = graph_of(JOIN)
    place = place_of(graph, "join")
    rows = {"a": 1_000, "b": 1_000}
    figures = {place: OperatorFigures(2_000, 300)}
    full = learn(graph, Knowledge(), span_of(figures, rows), {}).operators[place].selectivity
    young = learn(graph, Knowledge(ages={place[0]: SECOND}), span_of(figures, rows), {}).operators[place].selectivity
    assert full is not None
    # Instead of windows of four and two seconds, both hold one second.
    assert young == pytest.approx(full * (4 + 2) / (1 + 1), rel=0.01)


def test_a_source_that_leaves_out_rows_gives_the_selectivity_of_both():
    graph = graph_of("SELECT k FROM a WHERE value > 0.5")
    place = place_of(graph, "filter")
    known = learn(graph, Knowledge(), span_of({place: OperatorFigures(300, 250)}, {"a": 1_000}), {})
    assert known.operators[place].selectivity == pytest.approx(0.25)


def test_nothing_is_learnt_of_a_few_rows():
    graph = graph_of("SELECT k FROM a WHERE value > 0.5")
    place = place_of(graph, "filter")
    known = learn(graph, Knowledge(), span_of({place: OperatorFigures(19, 19)}, {"a": 19}), {})
    assert known.operators == {}


def test_the_selectivity_of_a_join_is_that_of_its_formula():
    graph = graph_of(JOIN)
    join, filter_ = place_of(graph, "join"), place_of(graph, "filter")
    # 100 and 50 rows a second, 4 and 2 seconds: 100 * 100 + 50 * 400 pairs a second, of which 1 % match.
    figures = {filter_: OperatorFigures(2_000, 1_000), join: OperatorFigures(1_500, 3_000)}
    known = learn(graph, Knowledge(), span_of(figures, {"a": 2_000, "b": 500}), {})
    assert known.operators[join].selectivity == pytest.approx(0.01, rel=0.02)
    assert estimate_graph(graph, known)[join].characteristics.rate * SECOND == pytest.approx(300.0)


@pytest.mark.parametrize("groups", [3.0, 60.0, 500.0])
def test_groups_follow_from_live_groups(groups):
    source = Characteristics(10.0, 1_000.0)
    assert count_groups(source, live_groups(source, groups)) == pytest.approx(groups, rel=1e-3)


def test_all_rows_in_groups_of_their_own():
    assert count_groups(Characteristics(10.0, 1_000.0), 100.0) >= 1e9


def test_the_groups_of_an_aggregation_are_learnt_from_its_state():
    graph = graph_of("SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 4 SECONDS) GROUP BY k")
    place = place_of(graph, "aggregate")
    span = span_of({place: OperatorFigures(1_000, 2_000)}, {"a": 1_000}, {place: StateSize(9, 9, 0, groups=50)})
    assert learn(graph, Knowledge(), span, {}).operators[place].groups == pytest.approx(50, rel=0.01)


def test_cuts_at_watermarks_are_no_changes_of_values():
    graph = graph_of(
        "SELECT x.n FROM (SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 5 SECONDS) GROUP BY k) x, "
        "b WINDOW(RANGE 1 SECOND) y WHERE x.k = y.k"
    )
    place = place_of(graph, "aggregate")
    # Fifty groups are cut at each of ten steps; the other thousand elements are values that changed.
    span = span_of({place: OperatorFigures(1_000, 1_500)}, {"a": 1_000}, {place: StateSize(9, 9, 0, groups=50)})
    known = learn(graph, Knowledge(), span, {})
    assert known.operators[place].selectivity == pytest.approx(0.5, rel=0.02)
    assert estimate_graph(graph, known)[place].characteristics.rate * SECOND == pytest.approx(150.0, rel=0.01)


def test_measured_seconds_refine_an_operator():
    graph = graph_of("SELECT k FROM a WHERE value > 0.5")
    place = place_of(graph, "filter")
    span = span_of({place: OperatorFigures(1_000, 250, seconds=2.0)}, {"a": 1_000})
    assert estimate_graph(graph, learn(graph, Knowledge(), span, {}))[place].seconds == pytest.approx(0.2)


# ---- prices

EXACT = Prices(1e-4, 2e-7, 3e-7, 4e-8)


def measured(prices=EXACT, kind="join", count=12):
    random = np.random.default_rng(2)
    works = [Work(kind, 1e-6, *(float(each) for each in 10.0 ** random.uniform(-4, -1, 3))) for _ in range(count)]
    return [MeasuredWork(each, prices.seconds_of(each)) for each in works]


def test_prices_are_found_again():
    found = fit_prices(measured())["join"]
    assert [found.step, found.row_in, found.row_out, found.touched] == pytest.approx([1e-4, 2e-7, 3e-7, 4e-8], rel=1e-4)


def test_no_price_is_negative():
    free = measured(Prices(1e-4, 0.0, 3e-7, 0.0))
    found = fit_prices([MeasuredWork(each.work, each.seconds - each.work.rows_in * 1e-9) for each in free])["join"]
    assert min(found.step, found.row_in, found.row_out, found.touched) >= 0


def test_prices_are_scaled_by_kind():
    found = scale_prices({"join": EXACT, "map": EXACT}, measured(EXACT.scale(3.0)))
    assert found["join"].step == pytest.approx(3e-4)
    assert found["map"] == EXACT


def test_stored_prices_are_read_again(tmp_path):
    file = store_prices({"join": EXACT}, tmp_path / "folder" / "prices.json")
    assert load_prices(file)["join"] == EXACT


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 99, "prices": {}}', '{"format": 1, "prices": {"join": [1]}}']
)
def test_damaged_prices_are_not_used(tmp_path, text):
    (tmp_path / "prices.json").write_text(text)
    assert load_prices(tmp_path / "prices.json") == DEFAULT_PRICES
    assert load_prices(tmp_path / "none.json") == DEFAULT_PRICES


def test_a_query_is_measured():
    found = measure_query(STREAMS + JOIN, 50)
    assert {"filter", "window", "join"} <= {each.work.kind for each in found}
    assert all(each.seconds > 0 for each in found)
