"""A real standalone cluster of Spark on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

import pyspark

from support.processes import Process, python_environment
from tidegate.runtime.spark.java import ensure_java

HOST = "127.0.0.1"
SPARK_HOME = Path(pyspark.__file__).parent


class Cluster:
    """Started with its first worker, ended with the last; ports are free ones that Spark chooses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Process] = []
        self._all: list[Process] = []
        self.master = self._start("master", "master.Master", "--port", "0")
        self.url = self._said(self.master, r"Starting Spark master at (spark://\S+)")

    def add_worker(self) -> Process:
        name = f"worker-{len(self._all)}"
        folder = self.folder / name
        worker = self._start(name, "worker.Worker", "-c", "1", "-m", "1g", "-d", str(folder), self.url)
        self._said(worker, "(Successfully registered) with master")
        self.workers.append(worker)
        return worker

    def kill_worker(self) -> Process:
        """End a worker and its executors, without a word to anyone."""
        worker = self.workers.pop(0)
        worker.kill()
        return worker

    def executors_of(self, worker: Process) -> list[Path]:
        """The folders of the executors that a worker has started."""
        return list((self.folder / worker.log.stem).glob("app-*/*"))

    @property
    def losses(self) -> int:
        """How many executors were lost to those who ran something on them."""
        return self.master.log.read_text().count("Telling app of lost executor")

    def close(self) -> None:
        for process in reversed(self._all):
            process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, name: str, what: str, *arguments: str) -> Process:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
        environment = {
            **python_environment(),
            "JAVA_HOME": ensure_java(),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        process = Process(
            [*command, "--host", HOST, "--webui-port", "0", *arguments],
            self.folder / f"{name}.log",
            environment=environment,
        )
        self._all.append(process)
        return process

    def _said(self, process: Process, pattern: str) -> str:
        process.wait_until(lambda: re.search(pattern, process.words) is not None)
        found = re.search(pattern, process.words)
        if found is None:
            self.close()
            raise AssertionError(process.words)
        return found[1]
