"""The positive-negative approach against the interval approach: chapter 14 of the dissertation on PIPES.

Both approaches are written with the same containers, one element at a time, as the dissertation compares them
(`baselines/positive_negative.py`, `baselines/intervals.py`), over auctions as bursty as its own. Each query is pushed
through as fast as possible. Tidegate's own operators, which work on columns, run the same query in SQL.
`out/positive_negative` gets the table and the pictures.

`equal`: for every query, the positive and negative elements, the ends of intervals and those of Tidegate's results say
the same of every row at every instant; and an interval that is converted to positive and negative elements, and back,
is the same.

`…_seconds_vs_intervals` is the time of the positive-negative operators in units of the interval operators; `…_kept` are
average numbers of elements in all states; `tidegate_…_rows_per_s` is Tidegate's rate. `count_window_delay_…` is the
delay of the first result of a window of 100 rows at 50 rows a second. `list_vs_queue` is the time of a join that links
its elements by a queue of ends in units of one that has them in a list (section 14.3.4), and `…_ms` say what it would
save Tidegate, whose runs are sorted, to know that a million ends are in order: to see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.baselines.intervals import FirstInFirstOut, FirstToEnd
from benchmarks.baselines.positive_negative import to_intervals, to_signed
from benchmarks.support.positive_negative_pictures import publish
from benchmarks.support.positive_negative_runs import (
    EXPERIMENTS,
    HOUR,
    MINUTE,
    Auction,
    Experiment,
    Outcome,
    count_window_delays,
    join_seconds,
    make_auction,
    order_costs,
    run_plan,
    run_tidegate,
    window_sizes,
)
from benchmarks.support.report import Report, main, say

BIDS, QUICK_BIDS = 1_000_000, 20_000
JOINED, QUICK_JOINED = 100_000, 10_000
LONG = "nested loops"
LONG_SHARE = 0.1
"""Part of the bids for plans whose time grows with the square of their windows."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What both approaches and Tidegate did with one query."""

    rows: int
    signed: Outcome
    interval: Outcome
    tidegate: float
    is_equal: bool

    @property
    def ratio(self) -> float:
        return self.signed.seconds / self.interval.seconds


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    count = QUICK_BIDS if quick else BIDS
    auction = make_auction(count)
    found: dict[str, Comparison] = {}
    for each in EXPERIMENTS:
        data = auction if LONG not in each.name or quick else make_auction(int(count * LONG_SHARE))
        found[each.name] = compare(each, data, repeats=3 if quick else 1)
        say(f"{each.name}: {found[each.name].ratio:.2f} times the time of intervals")
    windows = {name: window_sizes(auction, size) for name, size in WINDOWS.items()}
    delays = {rows: count_window_delays(rows) for rows in (1, 10, 100)}
    joined = QUICK_JOINED if quick else JOINED
    linkages = {
        "interval, list": join_seconds(joined, FirstInFirstOut),
        "interval, queue": join_seconds(joined, FirstToEnd),
        "positive-negative": join_seconds(joined, None),
    }
    publish(
        {name: (each.signed, each.interval, each.tidegate) for name, each in found.items()}, windows, delays, linkages
    )
    equal = all(each.is_equal for each in found.values()) and are_converted(auction)
    return make_report(found, windows, delays, linkages, equal=equal)


WINDOWS = {"now": 1, "10 minutes": 10 * MINUTE, "5 hours": 5 * HOUR}


def compare(experiment: Experiment, data: Auction, repeats: int) -> Comparison:
    """Run a query in both approaches and in Tidegate."""
    signed = run_plan(experiment.positive_negative, data, repeats)
    interval = run_plan(experiment.interval, data, repeats)
    seconds, edges = run_tidegate(experiment.sql, data)
    rows = len(data.opened) + len(data.closed) if "opened" in experiment.sql else len(data.bids)
    return Comparison(rows, signed, interval, seconds, signed.edges == interval.edges == edges)


def are_converted(data: Auction) -> bool:
    """Return whether intervals that become positive and negative elements become the same intervals again."""
    given = [(row, at, at + 10 * MINUTE) for row, at in data.bids]
    return sorted(to_intervals(to_signed(given))) == sorted(given)


def make_report(
    found: Mapping[str, Comparison],
    windows: Mapping[str, list[tuple[int, int]]],
    delays: Mapping[int, Mapping[str, list[float]]],
    linkages: Mapping[str, float],
    *,
    equal: bool,
) -> Report:
    ratios = {f"{key(name)}_seconds_vs_intervals": each.ratio for name, each in found.items()}
    ratios["list_vs_queue"] = linkages["interval, queue"] / linkages["interval, list"]
    figures: dict[str, float] = {}
    for name, each in found.items():
        figures[f"{key(name)}_rows_per_s"] = each.rows / each.signed.seconds
        figures[f"{key(name)}_intervals_rows_per_s"] = each.rows / each.interval.seconds
        figures[f"{key(name)}_tidegate_rows_per_s"] = each.rows / each.tidegate
        figures[f"{key(name)}_kept"] = each.signed.average
        figures[f"{key(name)}_intervals_kept"] = each.interval.average
    for name, samples in windows.items():
        figures[f"window_{key(name)}_kept"] = sum(size for _, size in samples) / len(samples)
    for name, found_delays in delays[100].items():
        figures[f"count_window_delay_{key(name)}_s"] = found_delays[0]
    figures |= order_costs()
    return Report("positive_negative", equal, ratios, figures)


def key(name: str) -> str:
    """Return the name of a query as a part of the name of a figure."""
    return name.replace(",", "").replace("-", "_").replace(" ", "_").lower()


if __name__ == "__main__":
    main(measure, __doc__ or "")
