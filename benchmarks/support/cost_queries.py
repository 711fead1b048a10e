"""The query mix of Table 24.1 of the dissertation, over fifty Poisson streams of 2 to 600 elements a minute.

A third of the joins compare all pairs, the others have an equality. Selectivities are between 0.005 and 0.02, windows
between 1 and 30 minutes, granules between 1 ms and 10 s. Windows with more than 600
valid elements are halved until they have fewer, so that joins of joins fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

STREAMS = 50
MINUTE = 60_000_000
SELECTIVITIES = (0.005, 0.01, 0.02)


@dataclass(frozen=True, slots=True)
class Mix:
    """Size of a mix: its queries, and the shortest and the longest window in microseconds."""

    queries: int
    shortest: int = MINUTE
    longest: int = 30 * MINUTE
    seed: int = 24
    adapts: bool = False
    """Whether windows may shrink to the shortest one, and granules may become ten times as coarse."""


@dataclass(frozen=True, slots=True)
class Part:
    """A subquery, how many of its rows are valid at an instant, and its levels of operators with state."""

    text: str
    valid: float
    levels: int = 0


@dataclass(slots=True)
class MixWriter:
    """Writer of the queries of a mix."""

    mix: Mix
    random: np.random.Generator = field(init=False)
    rates: list[float] = field(init=False)
    """Elements a minute, by stream."""
    surge: float = 1.0
    """Factor by which all rates are larger at the moment."""

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.mix.seed)
        self.rates = [float(rate) for rate in np.exp(self.random.uniform(np.log(2), np.log(600), STREAMS))]

    def streams(self) -> str:
        return "\n".join(
            f"CREATE STREAM s{number} (at BIGINT, k50 INT, k100 INT, k200 INT, v DOUBLE) FROM 's{number}.csv' "
            "TIMESTAMP BY at;"
            for number in range(STREAMS)
        )

    def queries(self) -> Iterator[str]:
        kinds: list[Callable[[], Part]] = [
            lambda: self.join(self.window(), self.window()),
            lambda: self.join(self.join(self.window(), self.window()), self.window()),
            lambda: self.join(self.join(self.join(self.window(), self.window()), self.window()), self.window()),
            lambda: self.join(self.join(self.window(), self.window()), self.join(self.window(), self.window())),
            self.aggregate,
            lambda: self.join(self.aggregate(), self.window()),
            lambda: self.join(self.aggregate(), self.aggregate()),
        ]
        for kind in self.random.choice(len(kinds), self.mix.queries, p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]):
            yield kinds[kind]().text

    def window(self) -> Part:
        stream = int(self.random.integers(STREAMS))
        size = int(np.exp(self.random.uniform(np.log(self.mix.shortest), np.log(self.mix.longest))))
        rate = self.rates[stream] / MINUTE
        while rate * size > 600.0:
            size //= 2
        text = f"SELECT k50, k100, k200, v FROM s{stream} WINDOW(RANGE {self._range(size // 1000)})"
        return Part(text, rate * size)

    def _range(self, size: int) -> str:
        shortest = self.mix.shortest // 1000
        if not self.mix.adapts or size <= shortest:
            return f"{size} MILLISECONDS"
        return f"MIN {shortest} MILLISECONDS, MAX {size} MILLISECONDS"

    def aggregate(self) -> Part:
        """A count over granules; its columns are those of a join, computed from the count."""
        part = self.window()
        granule = int(np.exp(self.random.uniform(np.log(1), np.log(10_000))))
        finest = f"{granule} MILLISECONDS"
        granules = f"COARSEST {10 * granule} MILLISECONDS, FINEST {finest}" if self.mix.adapts else finest
        inner = f"SELECT COUNT(*) AS n FROM ({part.text}) GRANULARITY({granules})"
        text = (
            "SELECT CAST(n % 50 AS INT) AS k50, CAST(n % 100 AS INT) AS k100, CAST(n % 200 AS INT) AS k200, "
            f"n / 600.0 AS v FROM ({inner})"
        )
        return Part(text, 1.0, part.levels + 1)

    def join(self, left: Part, right: Part) -> Part:
        share = float(self.random.choice(SELECTIVITIES))
        if self.random.random() < 0.33:
            condition = f"x.v < y.v - {1.0 - (2.0 * share) ** 0.5:.6f}"
        else:
            key = {0.02: "k50", 0.01: "k100", 0.005: "k200"}[share]
            condition = f"x.{key} = y.{key}"
        text = f"SELECT x.k50, y.k100, x.k200, y.v FROM ({left.text}) x, ({right.text}) y WHERE {condition}"
        return Part(text, share * left.valid * right.valid, 1 + max(left.levels, right.levels))

    def rows(self, begin: int, end: int) -> dict[str, pa.RecordBatch]:
        """Return the elements of all streams in a span of time."""
        return {f"s{number}": self._elements(rate * self.surge, begin, end) for number, rate in enumerate(self.rates)}

    def _elements(self, rate: float, begin: int, end: int) -> pa.RecordBatch:
        random, count = self.random, int(self.random.poisson(rate * (end - begin) / MINUTE))
        columns = {
            "at": pa.array(np.sort(random.integers(begin, end, count)), pa.int64()),
            **{f"k{n}": pa.array(random.integers(0, n, count).astype(np.int32)) for n in (50, 100, 200)},
            "v": pa.array(random.random(count)),
        }
        return pa.RecordBatch.from_pydict(columns)
