"""A made-up story: queries come while others run, and what they will need is known before their windows are full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from support.live import SteppedSession

from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adaptation
from tidegate.runtime.resources.manager import ResourceManager

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
RATE, STEP, KEYS = 4, 2, 20
"""Rows of each stream a second, seconds of a step, and keys: each is five times as frequent as is assumed."""
WINDOW = "WINDOW(RANGE MIN 10 SECONDS, MAX 60 SECONDS)"
PAIRS = f"SELECT x.k AS k, x.v AS v FROM a x {WINDOW}, b y {WINDOW} WHERE x.k = y.k AND x.v > 0"
"""Many pairs, which a join above it keeps."""
QUERIES = {
    "first": f"SELECT a.v AS v FROM a {WINDOW}, c {WINDOW} WHERE a.k = c.k",
    "pairs": f"SELECT p.v AS v, z.v AS w FROM ({PAIRS}) p, c z {WINDOW} WHERE p.v = z.v",
}


class Managed:
    """A hook that asks a manager, and notes what a run uses and what it is expected to use."""

    def __init__(self, manager: ResourceManager) -> None:
        self.manager = manager
        self.used: list[int] = []
        self.expected: list[float] = []

    def __call__(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        found = self.manager(seen)
        sizes = {key: each.newest.size for key, each in {**seen.sizes, **found}.items()}
        self.used.append(seen.state.bytes)
        self.expected.append(self.manager.estimate(seen.graph, sizes).memory)
        return found


class Rows:
    """Writer of the rows of one step after the other."""

    def __init__(self, folder: Path, session: SteppedSession) -> None:
        self.folder, self.session, self.now = folder, session, 0
        self.random = np.random.default_rng(5)
        for name in "abc":
            (folder / name).mkdir()
            session.execute(
                f"CREATE STREAM {name} (k INT, v INT, at BIGINT) FROM '{folder / name}/*.csv' TIMESTAMP BY at;"
                f"CREATE QUERY reads_{name} AS SELECT v FROM {name} WHERE v < 0"
            )

    def run(self, seconds: int, times: int = 1) -> None:
        for _ in range(seconds // STEP):
            for name in "abc":
                count = RATE * STEP * times
                at = BEGIN + self.now * SECOND + np.sort(self.random.integers(0, STEP * SECOND, count))
                drawn = zip(self.random.integers(0, KEYS, count), self.random.integers(1, KEYS, count), at, strict=True)
                lines = [",".join(map(str, each)) for each in drawn]
                (self.folder / name / f"{self.now:05}.csv").write_text("\n".join(["k,v,at", *lines, ""]))
            while self.session.step():
                pass
            self.now += STEP


@pytest.fixture
def story(tmp_path: Path) -> Iterator[tuple[SteppedSession, Managed, Rows]]:
    # A clock that stands still: when the manager may decide does not depend on the speed of the machine.
    managed = Managed(ResourceManager(clock=lambda: 0.0))
    session = SteppedSession(tmp_path / "checkpoint", {}, adapt=managed)
    session.execute("SET memory_limit = '1 GB'")
    yield session, managed, Rows(tmp_path, session)
    session.abandon()


def test_a_query_that_comes_later_is_learnt_while_its_windows_fill(story):
    session, managed, rows = story
    session.execute(f"CREATE QUERY first AS {QUERIES['first']}")
    rows.run(140)
    session.execute(f"CREATE QUERY pairs AS {QUERIES['pairs']}")
    rows.run(2)
    unknown = managed.expected[-1]
    rows.run(18)
    early, used_early = managed.expected[-1], managed.used[-1]
    rows.run(120)
    full = np.mean(managed.used[-30:])
    assert used_early < 0.5 * full
    assert unknown < 0.6 * full
    assert early == pytest.approx(full, rel=0.3)


def test_what_is_learnt_while_sizes_and_the_load_change_is_right(story):
    """Windows that still hold elements of a larger size, or of another load, do not mislead."""
    session, managed, rows = story
    session.execute(";".join(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items()))
    rows.run(140)
    half = int(np.mean(managed.used[-30:]) / 2)
    session.execute(f"SET memory_limit = {half}")
    rows.run(30)
    expected = managed.expected[-1]
    rows.run(130)
    assert expected == pytest.approx(np.mean(managed.used[-30:]), rel=0.3)
    session.execute("SET memory_limit = '1 GB'")
    rows.run(200)
    full = np.mean(managed.used[-30:])
    rows.run(30, times=2)
    doubled = managed.expected[-1]
    rows.run(130, times=2)
    assert np.mean(managed.used[-30:]) > 2 * full
    assert doubled == pytest.approx(np.mean(managed.used[-30:]), rel=0.3)
