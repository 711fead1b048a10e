"""What is decided from reports: which distance is counted on, which constraints are made use of, and why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.recorded import recorded
from support.watched import EDGE, TICK, choice_of, followed

from benchmarks.support import kmon_data as made
from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse, Monitoring, Reach
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge
from tidegate.physical.keyed_join.control import MOST_WATCHED_ROWS, decide
from tidegate.physical.keyed_join.directive import WatchLimits
from tidegate.physical.keyed_join.distances import STEPS
from tidegate.physical.keyed_join.kernels.model import Size
from tidegate.physical.keyed_join.monitor import Watch, constraint_name
from tidegate.physical.keyed_join.report import ArrivalSummary, KeyedJoinReport, WatchReport
from tidegate.physical.keyed_join.verdicts import ConstraintChoice

MONITORED = ConstraintSettings(ConstraintUse.MONITORED)
FEW = Monitoring(events=5, window=12)
WINDOW = 350_000 * TICK


# --- what is made use of ----------------------------------------------------------------------------


def report(watched, **more):
    """A step of a second in which 1000 parents and 100 children came; validities are a minute."""
    step = more.pop("step", 1)
    first, last = (step - 1) * 10**6, step * 10**6
    seen = WatchReport(events=500, greatest=0, histogram=(500,), size=10)
    arrivals = ArrivalSummary(
        elements=more.pop("elements", (1000, 100)),
        first=(first, first),
        last=(last, last),
        longest=more.pop("longest", (60 * 10**6,) * 2),
        counters=more.pop("counters", (1000 * step, 100 * step)),
    )
    return KeyedJoinReport(
        arrivals=arrivals,
        watched={name: replace(seen, **observed) for name, observed in watched.items()},
        **{"sizes": (Size(0, 1000, 0, 0), Size(1000, 0, 0, 0)), "hits": (0,), **more},
    )


def after(choice, watched, steps=30, **more):
    record: Any = None
    for step in range(1, steps + 1):
        record = recorded(decide(choice, record, [recorded(report(watched, step=step, **more))]))
    return record


def found(record, name):
    return next(each for each in record.found if each.name == name)


def watching(kind, settings=MONITORED, **more):
    return choice_of([Watch(0, kind)], settings, **more)


def test_a_reference_that_is_found_is_made_use_of_if_it_saves_enough():
    record = after(watching(ConstraintKind.ARRIVING), {"0/arriving": {"greatest": 2_000_000}})
    told = found(record, "0/arriving")
    assert record.directive.within == {"0/arriving": Reach(None, 2_080_000 + 2 * 10**6)}
    assert (told.in_use, told.why, told.used) == ("yes", None, "2.08 seconds")
    # Half of the parents find a child: 500 a second wait for 4 s instead of 30.
    assert told.rows == pytest.approx(500 * 26, rel=0.01)


def test_what_is_found_is_not_made_use_of_unless_the_user_allows_it():
    told = found(after(watching(ConstraintKind.ARRIVING, ConstraintSettings()), {"0/arriving": {}}), "0/arriving")
    assert told.reach is None
    assert "SET constraints = monitored" in told.why
    assert told.rows > 0


def test_a_reference_that_is_no_nearer_than_the_window_saves_nothing():
    watched = {"0/arriving": {"greatest": 14_000_000, "events": 900}}
    record = after(watching(ConstraintKind.ARRIVING), watched, longest=(10 * 10**6,) * 2)
    assert record.directive.within == {}
    assert "too few" in found(record, "0/arriving").why


def test_where_all_parents_find_their_child_a_reference_saves_nothing():
    assert after(watching(ConstraintKind.ARRIVING), {"0/arriving": {"events": 1000}}).directive.within == {}


@pytest.mark.parametrize(
    ("steps", "events", "greatest", "why"),
    [
        (30, 0, 0, "0 events of 50, seen in 0 steps of 5"),
        (2, 500, 0, "seen in 2 steps of 5"),
        (1, 30, 0, "30 events of 50, seen in 1 step of 5"),
        (6, 5, 0, "30 events of 50"),
        (6, 500, 8_000_000, "watched over 5 seconds of 16 seconds, twice the farthest"),
    ],
)
def test_what_is_missing_before_a_constraint_is_known_is_said(steps, events, greatest, why):
    watched = {"0/arriving": {"events": events, "greatest": greatest}}
    told = found(after(watching(ConstraintKind.ARRIVING), watched, steps=steps), "0/arriving")
    assert told.why == f"not enough is known yet: {why}"


def test_what_is_found_is_made_use_of_where_what_is_declared_cannot_be():
    declared = [EdgeConstraint(0, ConstraintKind.ARRIVING, Reach(time=10**9), "it reaches too far")]
    record = after(watching(ConstraintKind.ARRIVING, declared=declared), {"0/arriving": {"greatest": 2_000_000}})
    assert [(each.is_declared, each.in_use, each.used) for each in record.found] == [
        (True, "no: it reaches too far", ""),
        (False, "yes", "2.08 seconds"),
    ]


def test_beyond_the_threshold_nothing_is_made_use_of():
    settings = replace(MONITORED, monitoring=Monitoring(threshold=100))
    told = found(
        after(watching(ConstraintKind.ARRIVING, settings), {"0/arriving": {"greatest": 2_000_000}}), "0/arriving"
    )
    assert told.why == "it holds within 208 rows, more than monitor_threshold = 100"


def test_clusters_are_made_use_of_unless_what_a_child_remembers_for_them_is_more():
    watched = {"0/clustered": {"events": 900, "greatest": 2_000_000}}
    assert "0/clustered" in after(watching(ConstraintKind.CLUSTERED), watched).directive.within
    wide = {"0/clustered": {"events": 900, "greatest": 12_000_000}}
    assert "0/clustered" in after(watching(ConstraintKind.CLUSTERED, row_bytes=(40, 400)), wide).directive.within
    assert "0/clustered" not in after(watching(ConstraintKind.CLUSTERED, row_bytes=(40, 27)), wide).directive.within


def test_clusters_of_one_of_two_parents_save_nothing():
    edges = (EDGE, JoinEdge(2, 1, ("b",), ("a",)))
    watches = (Watch(0, ConstraintKind.CLUSTERED), Watch(1, ConstraintKind.CLUSTERED))
    choice = ConstraintChoice(edges, ("p", "c", "q"), (), watches, MONITORED, (40, 40, 40))
    three = {
        "elements": (1000, 100, 1000),
        "longest": (60 * 10**6,) * 3,
        "sizes": (Size(0, 1000, 0, 0),) * 3,
        "counters": (0, 0, 0),
        "hits": (0, 0),
    }
    both = {"0/clustered": {"events": 900}, "1/clustered": {"events": 900}}
    assert set(after(choice, both, **three).directive.within) == set(both)
    one = {"0/clustered": {"events": 900}, "1/clustered": {"events": 0}}
    record = after(choice, one, **three)
    assert record.directive.within == {}
    assert "must be kept for other streams" in found(record, "0/clustered").why


def test_what_is_declared_is_told_with_what_it_saves():
    declared = [
        EdgeConstraint(0, ConstraintKind.ARRIVING, Reach(rows=50)),
        EdgeConstraint(0, ConstraintKind.CLUSTERED, Reach(rows=5), "so"),
    ]
    record = after(choice_of([], ConstraintSettings(), declared), {})
    told = found(record, "0/arriving")
    assert record.directive.within == {"0/arriving": Reach(50, None)}
    assert (told.stream, told.constraint, told.within) == ("p", "(a) references c (a)", "50 rows")
    assert told.rows > 500
    assert found(record, "0/clustered").in_use == "no: so"


def test_of_what_is_declared_twice_both_hold():
    declared = [
        EdgeConstraint(0, ConstraintKind.ARRIVING, reach) for reach in (Reach(rows=50), Reach(time=3), Reach(rows=60))
    ]
    record = after(choice_of([], ConstraintSettings(), declared), {})
    assert record.directive.within == {"0/arriving": Reach(50, 3)}
    assert [each.within for each in record.found] == ["50 rows", "3 microseconds", "60 rows"]


def test_of_what_is_declared_and_found_the_lesser_is_made_use_of():
    declared = [EdgeConstraint(0, ConstraintKind.ARRIVING, Reach(rows=500))]
    record = after(watching(ConstraintKind.ARRIVING, declared=declared), {"0/arriving": {"greatest": 10**6}})
    assert record.directive.within == {"0/arriving": Reach(500, 1_040_000 + 2 * 10**6)}


def test_reports_of_buckets_are_added_up():
    choice = watching(ConstraintKind.ARRIVING)
    whole = report({"0/arriving": {"events": 60, "greatest": 9}})
    half = {"elements": (500, 50), "sizes": (Size(0, 500, 0, 0), Size(500, 0, 0, 0))}
    parts = [report({"0/arriving": {"events": 30, "greatest": g, "size": 5}}, **half) for g in (9, 4)]
    record = decide(choice, None, [whole])
    assert record == decide(choice, None, parts)
    assert decide(choice, record, []) is record
    assert decide(choice, None, []) is None


def test_fewer_keys_are_watched_when_too_much_is_kept_for_that():
    choice = watching(ConstraintKind.ARRIVING)
    record = after(choice, {"0/arriving": {"size": 3 * MOST_WATCHED_ROWS}}, steps=1)
    assert record.directive.watch["0/arriving"].keys == 0.25
    more = decide(choice, record, [report({"0/arriving": {"size": 10}}, step=2)])
    assert more.directive.watch["0/arriving"].keys == 0.5


def test_as_far_as_is_kept_is_watched_and_of_a_sample_as_long_as_rows_are_valid():
    record = after(watching(ConstraintKind.ARRIVING), {"0/arriving": {"greatest": 10**6}})
    assert record.directive.watch["0/arriving"] == WatchLimits(3_040_000, 59_999_999, 0.01, 1.0)
    assert (
        after(watching(ConstraintKind.ARRIVING), {"0/arriving": {}}, steps=1).directive.watch["0/arriving"].kept
        == 59_999_999
    )


@pytest.mark.parametrize("watches", [[Watch(0, ConstraintKind.ARRIVING)], []])
def test_what_never_joins_is_forgotten_where_nobody_asks_for_it(watches):
    """Though parents would wait to their end, whether a distance is known of which no use is made, or none."""
    choice, watched = choice_of(watches, MONITORED), {"0/arriving": {"events": 1000}} if watches else {}
    never = {"sizes": (Size(0, 0, 0, 0), Size(1000, 0, 3000, 0))}
    assert after(choice, watched, **never).directive.within == {}
    assert after(choice, watched, **never).directive.keeps_no == ()
    assert after(choice, watched, **never, hits=(100,)).directive.keeps_no == (1,)
    record = after(choice, watched, **never)
    many = {"sizes": (Size(0, 5000, 0, 0), Size(1000, 0, 3000, 0))}
    assert decide(choice, record, [recorded(report(watched, step=31, **many))]).directive.keeps_no == (1,)


# --- on streams -------------------------------------------------------------------------------------


def run(data, kind, *, monitoring=None, in_rows=False, **more):
    settings = ConstraintSettings(ConstraintUse.MONITORED, exact=False, monitoring=monitoring or Monitoring())
    return followed(data, choice_of([Watch(0, kind, in_rows)], settings), 700, WINDOW, **more)


def missing(data, watched):
    plain = followed(data, choice_of([], ConstraintSettings(ConstraintUse.OFF, exact=False)), 700, WINDOW)
    return [all_ - some for all_, some in zip(plain.results, watched.results, strict=True)]


@pytest.mark.parametrize("in_rows", [True, False])
def test_a_constant_k_is_found_and_what_is_saved_is_told(in_rows):
    data = made.many_children(40_000, 400, seed=1)
    watched = run(data, ConstraintKind.ARRIVING, in_rows=in_rows)
    k = made.joins_k(data, 1, 2) * (1 if in_rows else 7 * TICK)
    late = watched.used("0/arriving")[2 * STEPS :]
    assert all(used is not None and abs(used / k - 1) < 0.05 for used in late)
    assert not any(missing(data, watched))
    plain = followed(data, choice_of([], ConstraintSettings(ConstraintUse.OFF)), 700, WINDOW)
    saved = plain.sizes[-1][0].unknown - watched.sizes[-1][0].unknown
    assert found(watched.records[-1], "0/arriving").rows == pytest.approx(saved, rel=0.1)


@pytest.mark.parametrize("kind", [ConstraintKind.CLUSTERED, ConstraintKind.ORDERED_PARENTS])
def test_parents_that_are_near_to_each_other_are_found(kind):
    data = made.one_edge(40_000, 3, clusters=500, selectivity=1.0)
    watched = run(data, kind)
    measure = made.clusters_k if kind is ConstraintKind.CLUSTERED else made.orders_k
    used = watched.used(constraint_name(0, kind))[-1]
    assert used is None or used == pytest.approx(measure(data, 1) * 1.2 * TICK, rel=0.15)
    assert not any(missing(data, watched))
    # A child is kept for a second or two, of the forty that it would be.
    assert min(size[1].yes for size in watched.sizes[-30:]) < 800


def test_a_jump_of_k_loses_nothing_as_long_as_some_distances_are_little_more():
    data = made.many_children(70_000, made.course("jump", 100, 500, 35_000, 1), seed=4)
    watched = run(data, ConstraintKind.ARRIVING)
    used = watched.used("0/arriving")
    assert used[45] == pytest.approx(728_000, rel=0.05)
    assert used[-1] == pytest.approx(3_640_000, rel=0.05)
    assert not any(missing(data, watched))


def test_a_jump_past_everything_that_is_kept_is_seen_by_the_sample():
    data = made.many_children(100_000, made.course("jump", 300, 1500, 40_000, 1), seed=5, nearest=0.9)
    watched = run(data, ConstraintKind.ARRIVING, monitoring=Monitoring(sample=0.05), sampled=True)
    lost = missing(data, watched)
    assert sum(lost) > 0
    assert max(step for step, count in enumerate(lost) if count) < 95
    assert min(used for used in watched.used("0/arriving") if used is not None) > 2_000_000
    told = watched.records[-1].losses
    assert told.low < sum(lost) < told.high


def test_without_evidence_and_sample_nothing_is_counted_on_that_is_less():
    data = made.many_children(80_000, made.course("jump", 300, 1500, 40_000, 1), seed=5, nearest=0.9)
    watched = run(data, ConstraintKind.ARRIVING, monitoring=Monitoring(sample=0.0))
    assert min(used for used in watched.used("0/arriving") if used is not None) > 2_000_000


@pytest.mark.parametrize(("k", "better"), [(50, ()), (1000, (1,))])
def test_what_never_joins_is_remembered_if_that_takes_less_than_parents_that_wait_for_it(k, better):
    data = made.one_edge(20_000, seed=1, joins=k, clusters=1000, selectivity=0.1, multiplicity=2)
    declared = [
        EdgeConstraint(0, ConstraintKind.ARRIVING, Reach(time=made.joins_k(data, 1, 2) * 3 * TICK)),
        EdgeConstraint(0, ConstraintKind.CLUSTERED, Reach(rows=made.clusters_k(data, 1))),
    ]
    choice = choice_of([], ConstraintSettings(exact=False), declared)
    kept_no = {no: followed(data, choice, 500, 30_000 * TICK, keeps_no=no) for no in ((), (1,), "chosen")}
    taken = {no: sum(map(sum, map(_bytes, each.sizes[20:]))) for no, each in kept_no.items()}
    assert min(taken[()], taken[1,]) == taken[better]
    assert taken["chosen"] == taken[better]
    assert kept_no["chosen"].records[-1].directive.keeps_no == better


def _bytes(sizes):
    return [40 * (size.yes + size.unknown) + 16 * size.no for size in sizes]
