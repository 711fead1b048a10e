"""Limits of live sessions: sizes follow them, and queries that cannot fit are refused."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidegate.errors import QueryError
from tidegate.live.feeds import ResultFeed
from tidegate.live.session import LiveSession
from tidegate.runtime.resources import manager

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
WINDOW = "WINDOW(RANGE MIN 2 SECONDS, MAX 20 SECONDS)"
JOIN = f"SELECT l.v AS x, r.v AS y FROM a {WINDOW} l, a {WINDOW} r WHERE l.k = r.k"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the manager take its time: on a busy machine it would not decide after each of many short steps."""
    monkeypatch.setattr(manager, "BUSY_AT_FIRST", inf)


@pytest.fixture
def session(folder: Path) -> Iterator[LiveSession]:
    with LiveSession(checkpoint=str(folder / "live"), buckets=1) as made:
        yield made


def stream(folder: Path) -> str:
    return f"CREATE STREAM a (k INT, v INT, at BIGINT) FROM '{folder / 'a'}' TIMESTAMP BY at WITH (format = 'csv');"


def add_second(folder: Path, session: LiveSession, second: int, rate: int = 200) -> None:
    """Add a file with the rows of a second, and wait until they are read."""
    random = np.random.default_rng(second)
    at = np.sort(random.integers(0, SECOND, rate)) + BEGIN + second * SECOND
    lines = [f"{k},{second},{t}" for k, t in zip(random.integers(0, 1000, rate), at, strict=True)]
    before = session.progress().rows_in
    (folder / f"{second}.tmp").write_text("\n".join(["k,v,at", *lines, ""]))
    (folder / f"{second}.tmp").rename(folder / "a" / f"{second:05}.csv")
    wait_until(lambda: session.progress().rows_in >= before + rate, session)


def wait_until(holds, session: LiveSession) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert session.error is None, session.error
        assert time.monotonic() < end
        time.sleep(0.005)


def sizes(session: LiveSession) -> set[int]:
    """The newest size of each window, in seconds."""
    newest = {row["window"]: row["size"] for row in session.quality().to_pylist()}
    return {size // SECOND for size in newest.values()}


def test_a_limit_that_is_set_later_takes_effect_and_goes_again(folder, session):
    session.execute(stream(folder) + f"CREATE QUERY q AS {JOIN}")
    for second in range(30):
        add_second(folder, session, second)
    used = session.progress().state_bytes
    session.execute(f"SET memory_limit = {used // 2}")
    for second in range(30, 75):
        add_second(folder, session, second)
    assert session.progress().state_bytes < 0.55 * used
    assert max(sizes(session)) < 20
    session.execute(f"SET memory_limit = {used * 10}")
    for second in range(75, 120):
        add_second(folder, session, second)
    assert sizes(session) == {20}


def newest_of(feed: ResultFeed, size: int) -> list[dict[str, Any]]:
    """The rows of a feed up to the one in which a window gets a size, in microseconds."""
    rows: list[dict[str, Any]] = []
    while not any(row["size"] == size for row in rows):
        batch = feed.next(30)
        assert batch is not None
        rows += batch.to_pylist()
    return rows


def test_subscribers_get_the_sizes_of_windows_as_they_change(folder, session):
    session.execute("SET memory_limit = '60 kB';" + stream(folder) + f"CREATE QUERY q AS {JOIN}")
    feed = session.subscribe("quality")
    for second in range(40):
        add_second(folder, session, second)
    late = session.subscribe("quality")
    session.execute("SET memory_limit = none")
    add_second(folder, session, 40)
    newest = newest_of(late, 20 * SECOND)
    assert {(row["query"], row["reason"]) for row in newest} == {("q", "there is no limit")}
    first, *others = rows = newest_of(feed, 20 * SECOND) + newest_of(feed, 20 * SECOND)
    assert (first["valid_from"], first["size"], first["reason"]) == (None, 20 * SECOND, "")
    assert any("state of" in row["reason"] for row in others)
    assert all((row["query"], row["best"], row["worst"]) == ("q", 20 * SECOND, 2 * SECOND) for row in rows)
    assert rows[-len(newest) :] == newest


def test_sizes_are_the_best_again_without_limits(folder):
    with LiveSession(checkpoint=str(folder / "live"), buckets=1) as session:
        session.execute("SET memory_limit = '60 kB';" + stream(folder) + f"CREATE QUERY q AS {JOIN}")
        for second in range(40):
            add_second(folder, session, second)
        assert max(sizes(session)) < 20
        session.execute("SET memory_limit = none")
        add_second(folder, session, 40)
        assert sizes(session) == {20}


def test_a_query_that_needs_more_than_the_size_in_force_gets_it(folder, session):
    session.execute("SET memory_limit = '60 kB';" + stream(folder) + f"CREATE QUERY q AS {JOIN}")
    for second in range(40):
        add_second(folder, session, second)
    assert max(sizes(session)) < 12
    needs = JOIN.replace("MIN 2 SECONDS", "MIN 15 SECONDS")
    session.execute(f"CREATE QUERY needs AS {needs} ADMIT ANYWAY")
    add_second(folder, session, 40)
    assert sizes(session) == {15}


def test_a_query_that_cannot_fit_is_refused_with_the_numbers(folder, session):
    session.execute(stream(folder) + f"CREATE QUERY q AS {JOIN}")
    session.execute("SET memory_limit = '80 kB'")
    for second in range(8):
        add_second(folder, session, second)
    large = "SELECT x.v AS p, y.v AS q FROM a WINDOW(RANGE 5 MINUTES) x, a WINDOW(RANGE 5 MINUTES) y WHERE x.k = y.k"
    with pytest.raises(QueryError) as refused:
        session.execute(f"CREATE QUERY large AS {large}")
    assert refused.value.code == "Q326"
    assert "'large' does not fit: at the lowest quality, all queries would need" in str(refused.value)
    assert "ADMIT ANYWAY" in (refused.value.hint or "")
    assert [each.name for each in session.queries()] == ["q"]
    session.execute(f"CREATE QUERY small AS SELECT COUNT(*) AS n FROM a {WINDOW}")
    session.execute(f"CREATE QUERY large AS {large} ADMIT ANYWAY")
    assert [each.name for each in session.queries()] == ["q", "small", "large"]
    add_second(folder, session, 8)


def test_nothing_is_refused_before_rates_are_known(folder, session):
    session.execute("SET memory_limit = '2 kB';" + stream(folder) + f"CREATE QUERY q AS {JOIN}")
    assert [each.name for each in session.queries()] == ["q"]


def test_limits_and_sizes_survive_a_restart(folder):
    with LiveSession(checkpoint=str(folder / "live"), buckets=1) as session:
        session.execute("SET memory_limit = '60 kB';" + stream(folder) + f"CREATE QUERY q AS {JOIN}")
        for second in range(40):
            add_second(folder, session, second)
        before = sizes(session)
    assert max(before) < 20
    with LiveSession(checkpoint=str(folder / "live"), buckets=1) as session:
        assert session._run.job.limits.memory == 60_000
        add_second(folder, session, 40)
        assert max(each.newest.size for each in session._run._sizes.values()) < 20 * SECOND
