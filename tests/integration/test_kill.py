"""Whatever is killed when, the results are those of a run that nobody disturbed.

First by luck: a run is killed with all its processes, at moments that are watched for in its
folders. Then without: a checkpoint is put into the very state that a crash would have left.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.auctions import FILES, program, write_auctions
from support.processes import PATIENCE, Process, descendants, is_running, tidegate
from support.results import Published, leftovers, published

from tidegate.runtime.state import CLEAN_EVERY
from tidegate.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ENDED_WELL = (0, 3)  # 3: there were dead letters
ATTEMPTS = 5

ALERTS = """
CREATE ALERT bargain FROM bid b, auction a WITHIN 100 MICROSECONDS
  WHERE b.auction = a.id WHEN b.price - a.reserve > 10;
CREATE ALERTS wanted FROM bid b, auction a
  WHERE b.auction = a.id AND b.price >= a.reserve WHEN COUNT(*) >= 3;
CREATE ALERTS crowded FROM bid b, auction a WITHIN 150 MICROSECONDS
  WHERE b.price BETWEEN a.reserve AND a.reserve + 20 REPEAT WHEN TOTAL(b.bidder + 1) >= 15 + a.seller;
CREATE ALERT busy FROM bid MATCHING auction REPEAT WHEN COUNT(*) >= 4;
"""

REQUESTS = """
SET constraints = monitored;
SET monitor_events = 5; SET monitor_window = 20;
CREATE STREAM request (id INT, size INT, at BIGINT) FROM '{folder}/request' TIMESTAMP BY at UNIT MICROSECONDS DELAY 20
  KEY (id) CONSTRAINT (id) REFERENCES reply (id) WITHIN 40 MICROSECONDS WITH (files_per_batch = 1);
CREATE STREAM reply (id INT, code INT, at BIGINT) FROM '{folder}/reply' TIMESTAMP BY at UNIT MICROSECONDS DELAY 20
  KEY (id) ORDERED BY id WITHIN 30 ROWS WITH (files_per_batch = 1);
"""
ANSWERED = """
SELECT q.id, q.size, r.code, r.at - q.at AS took
  FROM request q WINDOW(RANGE 400), reply r WINDOW(RANGE 400) WHERE q.id = r.id;
"""
"""A join with constraints that are declared, and broken now and then, and others that are found."""


ALIKE = """
SELECT b.bidder, a.seller, b.price
  FROM bid b WINDOW(RANGE 200), auction a WINDOW(RANGE 200) WHERE b.price - a.reserve BETWEEN 0 AND 30
  WITH (shedding = on, budget = 300);
"""
"""Of its comparisons most are shed: those that are made are the same if a step is done again."""


def whole_program(folder: Path, more: str = "") -> str:
    return REQUESTS.format(folder=folder) + program(folder) + more + ANSWERED + ALIKE


def write_data(folder: Path, *, first: int = 0, last: int = FILES) -> None:
    """Files of all streams; of five requests one is never answered, and of ten one is so late."""
    write_auctions(folder, first=first, last=last)
    for name in ("request", "reply"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[list[tuple[int, int, int]]]] = {
        n: [[] for _ in range(FILES + 3)] for n in ("request", "reply")
    }
    for id_ in range(40 * FILES):
        dice, at = random.Random(id_), id_ * 100 // 40
        rows["request"][at // 100].append((id_, dice.randrange(9), at))
        then = at + dice.randrange(30) + 150 * (id_ % 10 == 3)
        if id_ % 5:
            rows["reply"][then // 100].append((id_, dice.randrange(9), then))
    for name, column in (("request", "size"), ("reply", "code")):
        for number in range(first, last):
            lines = "".join(f"{a},{b},{c}\n" for a, b, c in rows[name][number])
            path = folder / name / f"{number:03d}.csv"
            path.write_text(f"id,{column},at\n{lines}")
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


@dataclass(frozen=True)
class Run:
    """The folders of a run: its checkpoint and its results."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def published(self) -> Published:
        return published(self.out)

    def state_files(self, step: int) -> list[Path]:
        return list(self.checkpoint.glob(f"state/*/*/{step:010d}-*"))

    def record(self, step: int) -> Path:
        return self.checkpoint / "steps" / f"{step:010d}.json"

    @property
    def record_names(self) -> set[str]:
        return {path.name for path in self.checkpoint.glob("steps/*.json")}

    def results(self, label: str, *, of: str = "*") -> list[Path]:
        return list(self.out.glob(f"{of}/{label}-*"))

    @property
    def is_finishing(self) -> bool:
        return bool(list(self.out.glob("*/.staging/final-*")))

    def copied(self, folder: Path) -> Run:
        shutil.copytree(self.folder, folder)
        return Run(folder)


def batch(step: int) -> str:
    return f"batch-{step:08d}"


def assert_same(run: Run, expected: Published) -> None:
    found = run.published
    assert found.relations == expected.relations
    assert found.dead == expected.dead
    assert found.shed == expected.shed
    assert leftovers(run.out) == []
    assert not list(run.checkpoint.glob("steps/*.part"))


# ---- killed while it runs


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auctions")
    write_data(folder)
    path = folder / "query.sql"
    path.write_text(whole_program(folder, ALERTS))
    return path


def started(query: Path, run: Run, runtime: str = "spark") -> Process:
    run.folder.mkdir(exist_ok=True)
    arguments = ("run", query, "--once", "--checkpoint", run.checkpoint, "--out", run.out, "--buckets", "2")
    return tidegate(*arguments, "--runtime", runtime, log=run.folder / "log")


def finished(query: Path, run: Run, runtime: str = "spark") -> None:
    process = started(query, run, runtime)
    try:
        assert process.wait() in ENDED_WELL, process.words
    finally:
        process.kill()


@pytest.fixture(scope="module")
def undisturbed(query: Path, tmp_path_factory: pytest.TempPathFactory) -> Published:
    run = Run(tmp_path_factory.mktemp("undisturbed"))
    finished(query, run)
    found = run.published
    assert run.record(FILES).exists(), "each file is a step of its own"
    queries = {f"query_{number}" for number in range(1, 6)}
    assert found.relations.keys() == queries | {"bargain", "wanted", "crowded", "busy"}
    assert all(found.relations.values())
    assert found.reasons == {"late", "malformed", "division_by_zero", "registered_twice"}
    recorded = json.loads(run.record(FILES).read_text())["content"]
    assert '"step": ' in json.dumps(recorded["control"]), "the join is steered"
    assert [json.loads(line)["compared_share"] < 0.9 for line in found.shed] == [True] * FILES
    return found


@dataclass(frozen=True)
class Moment:
    """When to kill: what to wait for, and how long after it at most."""

    has_come: Callable[[Run], bool]
    delay: float


MOMENTS = [
    # When results were published: perhaps before the record of the step is written.
    Moment(lambda run: bool(run.results(batch(3), of="dead_letters")), 0.0),
    # In the middle of a step, while state is written and old state removed.
    Moment(lambda run: bool(run.state_files(CLEAN_EVERY)), 0.05),
    # While all that is held back comes out.
    Moment(lambda run: run.record(FILES).exists() and run.is_finishing, 0.0),
]


def is_hit(query: Path, run: Run, moment: Moment, delay: float) -> bool:
    """Kill a run at the moment; answers whether it still ran."""
    process = started(query, run)
    try:
        came = process.wait_until(lambda: moment.has_come(run))
        time.sleep(delay)
        is_running = process.is_alive
    finally:
        process.kill()
    return came and is_running


def test_a_run_that_is_killed_thrice_and_started_again_gives_the_same_results(query, undisturbed, tmp_path):
    dice = random.Random(1)
    runs = (Run(tmp_path / f"run-{attempt}") for attempt in range(ATTEMPTS))
    run = next((r for r in runs if all(is_hit(query, r, m, dice.uniform(0, m.delay)) for m in MOMENTS)), None)
    assert run is not None, "always too late"
    finished(query, run)
    assert_same(run, undisturbed)


KILLS = int(os.environ.get("KILLS", "0"))
"""Number of kills in each campaign; by default a few."""


@pytest.mark.timeout(max(600, 30 * KILLS))
@pytest.mark.parametrize(("runtime", "kills"), [("embedded", KILLS or 6), ("spark", KILLS or 1)])
def test_a_run_that_is_killed_at_random_moments_gives_the_same_results(query, tmp_path, runtime, kills):
    whole = Run(tmp_path / "whole")
    finished(query, whole, runtime)
    expected, dice, done = whole.published, random.Random(kills), 0
    for number in range(1, 1 + kills):
        run = Run(tmp_path / f"run-{number}")
        while done < kills and kill_after_progress(query, run, runtime, dice.uniform(0, 0.4)):
            done += 1
        finished(query, run, runtime)
        assert_same(run, expected)
        if done == kills:
            return
    raise AssertionError(f"only {done} of {kills} kills hit a running process")


def kill_after_progress(query: Path, run: Run, runtime: str, delay: float) -> bool:
    """Start a run, wait until it has done another step, kill it after a delay; answers whether it still ran."""
    before = run.record_names
    process = started(query, run, runtime)
    try:
        process.wait_until(lambda: run.record_names != before)
        time.sleep(delay)
        return process.is_alive
    finally:
        process.kill()


def stopped(query: Path, run: Run, step: int, stop: Callable[[Process], None]) -> tuple[int, list[str]]:
    """Start a run, wait for a step, do something to it; its exit code and words. Nothing of it is left running."""
    process = started(query, run)
    before = len(process.words)
    try:
        assert process.wait_until(run.record(step).exists), process.words
        family = descendants(process.popen.pid)
        stop(process)
        code = process.wait()
        until = time.monotonic() + PATIENCE
        while left := [command for pid, command in family.items() if is_running(pid)]:
            assert time.monotonic() < until, left
            time.sleep(0.05)
        # Where results go is said when the run starts.
        return code, [line for line in process.words[before:].splitlines() if " go to " not in line]
    finally:
        process.kill()


def kill_java(process: Process) -> None:
    family = descendants(process.popen.pid)
    os.kill(next(pid for pid, command in family.items() if "/bin/java " in command), 9)


def kill_workers(process: Process, run: Run) -> None:
    """Kill all Python workers of Spark, once in each of several steps."""
    for step in range(FILES - 3, FILES):
        process.wait_until(run.record(step).exists)
        family = descendants(process.popen.pid)
        daemons = {pid for pid, command in family.items() if "-m tidegate.runtime.spark.daemon" in command}
        for pid in {worker for daemon in daemons for worker in descendants(daemon)}:
            with suppress(ProcessLookupError):  # the run may have ended meanwhile
                os.kill(pid, signal.SIGKILL)


def test_what_is_lost_or_told_to_stop_says_so_leaves_nothing_running_and_goes_on_when_started_again(
    query, undisturbed, tmp_path
):
    run = Run(tmp_path / "run")
    code, words = stopped(query, run, 2, kill_java)
    assert (code, len(words)) == (3, 2)
    assert words[0].startswith("error[D402]: the Java process of Spark ended while the query ran (killed by signal 9)")
    assert "the checkpoint is intact" in words[0]
    code, words = stopped(query, run, 4, lambda process: process.popen.terminate())
    assert (code, words[0]) == (143, "stopping after the current step …")
    assert [line.partition(":")[0].partition(" about")[0] for line in words[2:]] == ["dead letters", "query_5 found"]
    code, words = stopped(query, run, FILES - 4, lambda process: kill_workers(process, run))
    assert code in ENDED_WELL, words
    assert_same(run, undisturbed)


# ---- the state that a crash leaves behind, made by hand

BEFORE, AFTER = 4, 6
LAST = BEFORE


def ran(spark: SparkSession, data: Path, run: Run) -> None:
    with Session(spark=spark, buckets=2) as session:
        running = session.sql(whole_program(data), once=True, checkpoint=str(run.checkpoint), out=str(run.out))
        running.wait()


@dataclass(frozen=True)
class Half:
    """A run over the first files, to be gone on with over all; and what then comes out."""

    data: Path
    run: Run
    expected: Published


@pytest.fixture(scope="module")
def half(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Half:
    folder = tmp_path_factory.mktemp("half")
    data, whole, run = folder / "data", Run(folder / "whole"), Run(folder / "half")
    write_data(data, last=BEFORE)
    ran(spark, data, run)
    write_data(data, first=BEFORE, last=AFTER)
    ran(spark, data, whole)
    return Half(data, run, whole.published)


def forget_record(run: Run) -> None:
    """Results are published, state is written, and nobody knows."""
    run.record(LAST).unlink()


def forget_results(run: Run) -> None:
    """State is written, results are not published."""
    forget_record(run)
    for path in run.results(batch(LAST)):
        path.unlink()


def forget_some_results(run: Run) -> None:
    """An attempt was publishing; one before it had cut its results into other parts."""
    forget_record(run)
    for path in run.results(batch(LAST), of="query_2"):
        path.unlink()
    for path in run.results(batch(LAST), of="query_1"):
        shutil.copy(path, path.with_stem(f"{path.stem}_older"))
    staged = run.out / "query_1" / ".staging" / f"{batch(LAST)}-0123456789abcdef"
    staged.mkdir(parents=True)
    shutil.copy(path, staged / "level_2_00000_00000.parquet")
    staged.with_name(f"{staged.name}.manifest").write_text('["level_2_00000_00000.parquet"]')


def damage_state(run: Run) -> None:
    """An attempt was writing state."""
    forget_results(run)
    for path in run.state_files(LAST):
        path.write_bytes(path.read_bytes()[:-7])
        path.with_name(f"{LAST:010d}-0badcafe.part").write_bytes(b"half")


def forget_final(run: Run) -> None:
    """What is held back was being published when the run ended."""
    for path in run.results("final", of="query_1"):
        path.unlink()
    staged = run.out / "query_1" / ".staging" / "final-0123456789abcdef"
    staged.mkdir(parents=True)
    staged.with_name(f"{staged.name}.manifest").write_text('["level_2_00000_00000.parquet"]')


@pytest.mark.parametrize("fault", [forget_record, forget_results, forget_some_results, damage_state, forget_final])
def test_a_step_that_is_done_again_over_what_a_crash_left_gives_the_same_results(fault, spark, half, tmp_path):
    run = half.run.copied(tmp_path / "run")
    fault(run)
    ran(spark, half.data, run)
    assert_same(run, half.expected)


def test_what_the_end_brought_out_is_taken_back_when_the_run_goes_on(spark, half, tmp_path):
    """A later run may have more to say about the same instants: until it ends, only what is settled stands."""
    run = half.run.copied(tmp_path / "run")
    assert run.results("final")
    with Session(spark=spark, buckets=2) as session:
        running = session.sql(whole_program(half.data), checkpoint=str(run.checkpoint), out=str(run.out))
        while not run.record(AFTER).exists():
            assert not running.wait(0.1)
    assert not run.results("final")
    ran(spark, half.data, run)
    assert_same(run, half.expected)
