"""Processes that tests start, watch and end: always by their ids, never by a name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PATIENCE = 600.0
"""Seconds to wait for something that must happen: a machine may be busy."""


class Process:
    """A process in a session of its own, whose words go to a file."""

    def __init__(self, command: Sequence[str], log: Path, *, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **environment}, start_new_session=True
            )

    @property
    def is_alive(self) -> bool:
        return self.popen.poll() is None

    @property
    def words(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def wait(self) -> int:
        return self.popen.wait(PATIENCE)

    def wait_until(self, happened: Callable[[], bool]) -> bool:
        """Whether it happened before the process ended."""
        until = time.monotonic() + PATIENCE
        while self.is_alive and time.monotonic() < until:
            if happened():
                return True
            time.sleep(0.001)
        return happened()

    def kill(self) -> None:
        """End it and all that it started, at once and without a word."""
        started = [self.popen.pid, *descendants(self.popen.pid)] if self.is_alive else []
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        for pid in started:  # Spark puts Python workers into a group of their own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.popen.wait(PATIENCE)


def descendants(pid: int) -> dict[int, str]:
    """All processes that a process started, and those that they started: their ids and commands."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    ).stdout
    parts = [line.split(None, 2) for line in listed.splitlines()]
    found: dict[int, str] = {}
    new = {pid: ""}
    while new:
        new = {int(child): command for child, parent, command in parts if int(parent) in new}
        found |= new
    return found


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state) and not state.startswith("Z")


def python_environment() -> dict[str, str]:
    """Lets other processes import what this one can."""
    return {
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def tidegate(*arguments: str | Path, log: Path) -> Process:
    """The command line, in a process of its own."""
    command = [sys.executable, "-m", "tidegate.cli.main", *map(str, arguments)]
    return Process(command, log, environment=python_environment())
