"""NEXMark's events: people who register, auctions that open, and bids on them.

The proportions and skews are those of the benchmark's generator: of every 50 events one is a
person, three are auctions and 46 are bids; half of the bids are on a hot auction, three quarters of
the auctions are of a hot seller and three quarters of the bids of a hot bidder. Everything follows
from the number of the event and a seed, so the same call writes the same files everywhere.

    python examples/nexmark/generate.py FOLDER --events 2000000 --files 8
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Ints = npt.NDArray[np.int64]

BEGIN = 1_436_918_400_000_000
"""2015-07-15 00:00:00 UTC, in microseconds."""
FIRST_ID = 1_000
OF_FIFTY = {"person": (0, 1), "auction": (1, 4), "bid": (4, 50)}
"""Which of every fifty events are of a kind: from, and up to but not including."""

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


@dataclass(frozen=True, slots=True)
class Scale:
    """How many events there are in all, how many of them in a second, and from which seed."""

    events: int
    per_second: int = 10_000
    seed: int = 7

    @property
    def step(self) -> int:
        """Microseconds between two events."""
        return 1_000_000 // self.per_second


def events(kind: str, scale: Scale) -> pa.Table:
    """All events of a kind, in the order of time."""
    first, last = OF_FIFTY[kind]
    numbers = np.arange(scale.events, dtype=np.int64)
    numbers = numbers[(numbers % 50 >= first) & (numbers % 50 < last)]
    make = {"person": _people, "auction": _auctions, "bid": _bids}[kind]
    columns = make(numbers, scale, np.random.default_rng([scale.seed, first]))
    return pa.table({"ts_us": BEGIN + numbers * scale.step, **columns})


def write(folder: Path, scale: Scale, files: int = 1) -> None:
    """Parquet files in a folder for each kind, cut at the same instants for all kinds."""
    for kind in OF_FIFTY:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        table = events(kind, scale)
        ends = np.linspace(0, scale.events, files + 1).astype(np.int64) * scale.step + BEGIN
        cuts = np.searchsorted(table["ts_us"].to_numpy(), ends)
        for number, (begin, end) in enumerate(pairwise(cuts)):
            pq.write_table(table.slice(begin, end - begin), folder / kind / f"{number:04d}.parquet")


def _people(numbers: Ints, _: Scale, random: np.random.Generator) -> dict[str, pa.Array]:
    count = len(numbers)
    names = [f"{a} {b}" for a in FIRST_NAMES for b in LAST_NAMES]
    return {
        "id": pa.array(FIRST_ID + numbers // 50),
        "name": _chosen(names, random.integers(0, len(names), count)),
        "city": _chosen(CITIES, random.integers(0, len(CITIES), count)),
        "state": _chosen(STATES, random.integers(0, len(STATES), count)),
    }


def _auctions(numbers: Ints, scale: Scale, random: np.random.Generator) -> dict[str, pa.Array]:
    count = len(numbers)
    people = numbers // 50
    # An auction lives for about as long as a hundred auctions take to open.
    life = 1 + random.integers(0, 2 * 100 * 50 // 3, count) * scale.step
    initial = _prices(random, count)
    return {
        "id": pa.array(FIRST_ID + people * 3 + numbers % 50 - 1),
        "initial_bid": pa.array(initial),
        "reserve": pa.array(initial + _prices(random, count)),
        "seller": pa.array(FIRST_ID + _skewed(people, random, hot=0.75, among=1_000)),
        "category": pa.array(10 + random.integers(0, 5, count)),
        "expires_us": pa.array(BEGIN + numbers * scale.step + life),
    }


def _bids(numbers: Ints, _: Scale, random: np.random.Generator) -> dict[str, pa.Array]:
    count = len(numbers)
    people = numbers // 50
    is_hot = random.random(count) < 0.5
    rare = [f"channel-{n}" for n in range(10_000)]
    places = np.where(is_hot, random.integers(0, 4, count), 4 + random.integers(0, len(rare), count))
    return {
        "auction": pa.array(FIRST_ID + _skewed(people * 3 + 2, random, hot=0.5, among=100)),
        "bidder": pa.array(FIRST_ID + _skewed(people, random, hot=0.75, among=1_000)),
        "price": pa.array(_prices(random, count)),
        "channel": _chosen((*CHANNELS, *rare), places),
    }


def _skewed(newest: Ints, random: np.random.Generator, *, hot: float, among: int) -> Ints:
    """One of the newest; with a probability the hot one, which changes every hundred."""
    recent = newest - np.minimum(newest, random.integers(0, among, len(newest)))
    return np.where(random.random(len(newest)) < hot, newest // 100 * 100, recent)


def _prices(random: np.random.Generator, count: int) -> Ints:
    """Cents, from a dollar to a million dollars, as evenly spread over the powers of ten."""
    return np.round(10.0 ** (random.random(count) * 6) * 100).astype(np.int64)


def _chosen(texts: tuple[str, ...] | list[str], places: Ints) -> pa.Array:
    return pa.array(list(texts)).take(pa.array(places))


def main() -> None:
    parser = argparse.ArgumentParser(description="write NEXMark's events as Parquet files")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=100_000, help="how many events in all (default: %(default)s)")
    parser.add_argument("--files", type=int, default=1, help="how many files of each kind (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    write(given.folder, Scale(given.events, seed=given.seed), given.files)


if __name__ == "__main__":
    main()
