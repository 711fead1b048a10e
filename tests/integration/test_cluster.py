"""On a real cluster of Spark the results are the same, also when a worker dies on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.auctions import program, write_auctions
from support.cluster import Cluster
from support.processes import Process, tidegate
from support.results import Published, leftovers, published

from tidegate.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ENDED_WELL = (0, 3)  # 3: there were dead letters
FILES = 6
"""Each is a micro-batch of its own."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        started.add_worker()
        started.add_worker()
        yield started


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auctions")
    # What is late depends on how rows arrive, and with it on the runtime.
    write_auctions(folder, last=FILES, late=False)
    path = folder / "query.sql"
    path.write_text(program(folder))
    return path


@pytest.fixture(scope="module")
def embedded(query: Path, tmp_path_factory: pytest.TempPathFactory) -> Published:
    out = tmp_path_factory.mktemp("embedded")
    with Session(runtime="embedded", buckets=3) as session:
        session.sql(query.read_text(), once=True, out=str(out)).wait()
    found = published(out)
    assert all(found.relations.values())
    assert found.reasons == {"malformed", "division_by_zero"}
    return found


def on_cluster(cluster: Cluster, query: Path, folder: Path) -> Process:
    places = ("--checkpoint", folder / "checkpoint", "--out", folder / "out")
    return tidegate("run", query, "--once", "--master", cluster.url, "--buckets", "2", *places, log=folder / "log")


def assert_ended_well(process: Process, folder: Path, expected: Published) -> None:
    try:
        assert process.wait() in ENDED_WELL, process.words
    finally:
        process.kill()
    found = published(folder / "out")
    assert found.relations == expected.relations
    assert found.dead == expected.dead
    assert leftovers(folder / "out") == []


def begun(process: Process, folder: Path, step: int) -> None:
    """Wait until a step writes its state."""
    assert process.wait_until(lambda: bool(list(folder.glob(f"checkpoint/state/*/*/{step:010d}-*")))), process.words
    assert process.is_alive, process.words


def assert_in_time(folder: Path) -> None:
    assert not (folder / "checkpoint" / "spark" / "commits" / str(FILES - 1)).exists(), "that was too late"


def test_a_cluster_gives_the_results_of_the_embedded_runtime_though_a_worker_dies(cluster, query, embedded, tmp_path):
    losses = cluster.losses
    process = on_cluster(cluster, query, tmp_path)
    try:
        begun(process, tmp_path, FILES // 2)
        assert all(cluster.executors_of(worker) for worker in cluster.workers), "all workers take part"
        assert cluster.executors_of(cluster.kill_worker())
        assert_in_time(tmp_path)
        assert_ended_well(process, tmp_path, embedded)
    finally:
        process.kill()
        cluster.add_worker()
    assert cluster.losses > losses, "the run has lost an executor"


def test_a_driver_that_dies_while_its_executors_go_on_can_be_started_again(cluster, query, embedded, tmp_path):
    """Executors are the workers' and outlive the driver by a moment: they may not disturb the next run."""
    process = on_cluster(cluster, query, tmp_path)
    try:
        begun(process, tmp_path, FILES // 2)
    finally:
        process.kill()
    assert_in_time(tmp_path)
    assert_ended_well(on_cluster(cluster, query, tmp_path), tmp_path, embedded)
