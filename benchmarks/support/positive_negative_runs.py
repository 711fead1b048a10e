"""Data and queries of chapter 14, for the positive-negative operators, the interval operators, and Tidegate."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from benchmarks.baselines import intervals as tia
from benchmarks.baselines import positive_negative as pna
from benchmarks.baselines.positive_negative import Interval, Kept, Raw, Row, Signed
from tidegate.session import Session

MINUTE, HOUR = 60, 3_600
"""An instant is a second of the auction."""

SAMPLES = 200
"""Elements of the input between two counts of what is kept."""

Elements = Iterator[Interval] | Iterator[Signed]


@dataclass(frozen=True, slots=True)
class Auction:
    """Bids (item, price, bidder), openings (item, seller) and closings (item) of auctions, in the order of time."""

    bids: list[Raw]
    opened: list[Raw]
    closed: list[Raw]

    def table(self, name: str) -> pa.Table:
        columns = {"bids": ("item", "price", "bidder"), "opened": ("item", "seller"), "closed": ("item",)}[name]
        rows: list[Raw] = getattr(self, name)
        values = {column: [row[i] for row, _ in rows] for i, column in enumerate(columns)}
        return pa.table({**values, "at": [at for _, at in rows]})


def make_auction(count: int, seed: int = 14) -> Auction:
    """Return `count` bids in bursts: about six at one instant, 97 in ten minutes, ten for an item."""
    chance = np.random.default_rng(seed)
    sizes = np.minimum(chance.geometric(1 / 6, count), 17)
    at = np.repeat(np.cumsum(1 + chance.geometric(1 / 36, count)), sizes)[:count]
    opens = np.sort(at[chance.integers(0, count, count // 10)])
    # A bid is for one of the items that were opened of late.
    newest = np.maximum(np.searchsorted(opens, at), 1)
    item = np.maximum(newest - chance.geometric(1 / 30, count), 0)
    price, bidder = chance.integers(1, 1_000_000, count), chance.integers(0, count // 100 + 1, count)
    closes = opens + chance.integers(HOUR, 10 * HOUR, len(opens))
    ends = np.argsort(closes, kind="stable")
    return Auction(
        [((int(i), int(p), int(b)), int(t)) for i, p, b, t in zip(item, price, bidder, at, strict=True)],
        [
            ((n, int(s)), int(t))
            for n, (s, t) in enumerate(zip(chance.integers(0, 999, len(opens)), opens, strict=True))
        ],
        [((int(n),), int(closes[n])) for n in ends],
    )


@dataclass(slots=True)
class Meter:
    """What operators keep, counted while the input goes by."""

    kept: Kept = field(default_factory=list)
    samples: list[tuple[int, int]] = field(default_factory=list)
    is_on: bool = True

    def read(self, rows: Sequence[Raw]) -> Iterator[Raw]:
        if not self.is_on:
            yield from rows
            return
        for number, each in enumerate(rows):
            if number % SAMPLES == 0:
                self.samples.append((each[1], sum(map(len, self.kept))))
            yield each

    @property
    def average(self) -> float:
        return float(np.mean([size for _, size in self.samples])) if self.samples else 0.0


Plan = Callable[[Auction, Meter], Elements]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A query, as both approaches run it, and in SQL."""

    name: str
    positive_negative: Plan
    interval: Plan
    sql: str


def item_of(row: Row) -> object:
    return row[0]


def price_of(row: Row) -> object:
    return row[1]


def _convert(row: Row) -> Row:
    return (row[0], row[1] * 9, row[2])


def _is_wanted(row: Row) -> bool:
    return bool(10 <= row[0] < 40)


def _same_item(left: Row, right: Row) -> bool:
    return bool(left[0] == right[0])


def _price_alone(row: Row) -> Row:
    return (row[1],)


def _signed_max(find: Callable[[Iterator[Signed], Kept], Iterator[Signed]]) -> Plan:
    def run(data: Auction, meter: Meter) -> Elements:
        bids = pna.window_by_time(meter.read(data.bids), 10 * MINUTE, meter.kept)
        prices = pna.map_signed(pna.window_by_time(iter(data.bids), 10 * MINUTE, meter.kept), _price_alone)
        return pna.hash_join(bids, find(prices, meter.kept), (price_of, item_of), meter.kept)

    return run


def _interval_max(*, coalesced: bool) -> Plan:
    def run(data: Auction, meter: Meter) -> Elements:
        bids = tia.window_by_time(meter.read(data.bids), 10 * MINUTE)
        prices = tia.map_intervals(tia.window_by_time(iter(data.bids), 10 * MINUTE), _price_alone)
        most = tia.running_max(prices, meter.kept)
        return tia.hash_join(bids, tia.coalesce(most) if coalesced else most, (price_of, item_of), meter.kept)

    return run


_HIGHEST = """SELECT b.item, b.price, b.bidder, m.top
FROM bids b WINDOW(RANGE 600), (SELECT MAX(price) AS top FROM bids WINDOW(RANGE 600)) m WHERE b.price = m.top"""
_SHORT = "SELECT o.item, o.seller, c.item FROM opened o WINDOW(RANGE 18000), closed c WINDOW(NOW) WHERE o.item = c.item"

EXPERIMENTS = (
    Experiment(
        "Q1 currency conversion",
        lambda d, m: pna.map_signed(pna.window_by_time(m.read(d.bids), 1, m.kept), _convert),
        lambda d, m: tia.map_intervals(tia.window_by_time(m.read(d.bids), 1), _convert),
        "SELECT item, price * 9 AS price, bidder FROM bids",
    ),
    Experiment(
        "Q2 selection",
        lambda d, m: pna.filter_signed(pna.window_by_time(m.read(d.bids), 1, m.kept), _is_wanted),
        lambda d, m: tia.filter_intervals(tia.window_by_time(m.read(d.bids), 1), _is_wanted),
        "SELECT * FROM (SELECT item, price, bidder FROM bids) WHERE item >= 10 AND item < 40",
    ),
    Experiment(
        "Q3 short auctions, hash join",
        lambda d, m: pna.hash_join(
            pna.window_by_time(m.read(d.opened), 5 * HOUR, m.kept),
            pna.window_by_time(iter(d.closed), 1, m.kept),
            (item_of, item_of),
            m.kept,
        ),
        lambda d, m: tia.hash_join(
            tia.window_by_time(m.read(d.opened), 5 * HOUR),
            tia.window_by_time(iter(d.closed), 1),
            (item_of, item_of),
            m.kept,
        ),
        _SHORT,
    ),
    Experiment(
        "Q3 short auctions, nested loops",
        lambda d, m: pna.nested_loops_join(
            pna.window_by_time(m.read(d.opened), 5 * HOUR, m.kept),
            pna.window_by_time(iter(d.closed), 1, m.kept),
            _same_item,
            m.kept,
        ),
        lambda d, m: tia.nested_loops_join(
            tia.window_by_time(m.read(d.opened), 5 * HOUR),
            tia.window_by_time(iter(d.closed), 1),
            _same_item,
            m.kept,
        ),
        _SHORT,
    ),
    Experiment("Q4 highest bid", _signed_max(pna.running_max), _interval_max(coalesced=False), _HIGHEST),
    Experiment(
        "Q4 highest bid, recomputed or coalesced",
        _signed_max(pna.recomputed_max),
        _interval_max(coalesced=True),
        _HIGHEST,
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run took and gave, and how many elements it kept."""

    seconds: float
    curve: list[tuple[float, int]]
    """Results so far, by seconds."""
    average: float
    edges: object

    @property
    def results(self) -> int:
        return self.curve[-1][1]


def run_plan(plan: Plan, data: Auction, repeats: int) -> Outcome:
    """Run a plan as fast as possible, and once more to count what it keeps; the fastest run counts."""
    best: list[tuple[float, int]] = []
    gc.collect()
    gc.disable()  # its pauses come by the number of tuples so far, in whichever query that is
    for _ in range(repeats):
        curve, began, number = [(0.0, 0)], time.perf_counter(), 0
        for number, _ in enumerate(plan(data, Meter(is_on=False)), 1):
            if number % 500 == 0:
                curve.append((time.perf_counter() - began, number))
        curve.append((time.perf_counter() - began, number))
        best = curve if not best or curve[-1][0] < best[-1][0] else best
    gc.enable()
    meter = Meter()
    found = list(plan(data, meter))
    # A negative element has the sign -1, which no end of an interval has.
    signed = found if _is_signed(found) else tia.edges_of(found)
    return Outcome(best[-1][0], best, meter.average, pna.net_edges(signed))


def _is_signed(found: Sequence[tuple[Row, int, int]]) -> bool:
    return any(sign < 0 for _, _, sign in found)


def run_tidegate(sql: str, data: Auction) -> tuple[float, object]:
    """Return how many seconds Tidegate takes, and the edges of its results."""
    seconds, edges = float("inf"), None
    for _ in range(2):  # the first run loads the kernels
        with Session(runtime="embedded", buckets=1) as session:
            for name in ("bids", "opened", "closed"):
                session.stream(name, data.table(name), time="at", unit="microseconds")
            began = time.perf_counter()
            running = session.sql(sql, once=True, times="micros")
            assert running is not None
            found = running.results()
            seconds = min(seconds, time.perf_counter() - began)
        start, end, *values = (column.to_pylist() for column in found.columns)
        rows = zip(*values, strict=True)
        edges = pna.net_edges(tia.edges_of(zip(rows, start, end, strict=True)))
    return seconds, edges


# ---- windows


def window_sizes(data: Auction, size: int) -> list[tuple[int, int]]:
    """Return how many elements the positive-negative window keeps, over time."""
    meter = Meter()
    for _ in pna.window_by_time(meter.read(data.bids), size, meter.kept):
        pass
    return meter.samples


def count_window_delays(rows: int, *, elements: int = 1000, rate: int = 50) -> dict[str, list[float]]:
    """Return how long after an element of a constant stream its result comes, in seconds, for both approaches."""
    delays: dict[str, list[float]] = {}
    for name, window in (("positive-negative", pna.window_by_count), ("interval", tia.window_by_count)):
        now = [0]

        def read() -> Iterator[Raw]:
            for number in range(elements):
                now[0] = number  # noqa: B023 - read in this turn of the loop
                yield ((number,), number)

        found = window(read(), rows, [])
        delays[name] = [(now[0] - start) / rate for _, start, sign in found if name == "interval" or sign > 0]
    return delays


def join_seconds(count: int, linkage: tia.Linkage | None, seed: int = 9) -> float:
    """Return the seconds of a hash join of two streams, with a list or a queue of ends, or with negative elements."""
    chance = np.random.default_rng(seed)
    left, right = (
        list(
            zip(
                zip(chance.integers(0, 1001, count).tolist()),
                np.cumsum(chance.poisson(10, count)).tolist(),
                strict=True,
            )
        )
        for _ in range(2)
    )
    began = time.perf_counter()
    found: Elements
    if linkage is None:
        ours, others = (pna.window_by_time(iter(each), 5_000, []) for each in (left, right))
        found = pna.hash_join(ours, others, (item_of, item_of), [])
    else:
        mine, theirs = (tia.window_by_time(iter(each), 5_000) for each in (left, right))
        found = tia.hash_join(mine, theirs, (item_of, item_of), [], linkage)
    for _ in found:
        pass
    return time.perf_counter() - began


# ---- the order of ends, in columns


def order_costs(count: int = 1_000_000, seed: int = 5) -> dict[str, float]:
    """Return milliseconds to sort a million ends: known to be in order, in order, and not; and to see that they are."""
    chance = np.random.default_rng(seed)
    ends = np.cumsum(chance.integers(0, 10, count))
    mixed = ends + chance.integers(0, 5_000, count)

    def least_of(function: Callable[[], object]) -> float:
        times = [time.perf_counter()]
        for _ in range(7):
            function()
            times.append(time.perf_counter())
        return 1_000 * min(b - a for a, b in pairwise(times))

    return {
        "see_that_ends_are_in_order_ms": least_of(lambda: bool((ends[:-1] <= ends[1:]).all())),
        "sort_ends_in_order_ms": least_of(lambda: np.argsort(ends, kind="stable")),
        "sort_ends_in_any_order_ms": least_of(lambda: np.argsort(mixed, kind="stable")),
    }
