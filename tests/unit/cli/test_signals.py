"""Ctrl-C and SIGTERM: noted once while a query runs, the end of the process otherwise."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from tidegate.cli.signals import StopSignals

with StopSignals(lambda: print("cleaned up", flush=True)) as signals:
    signals.running = {running}
    for _ in range({times}):
        os.kill(os.getpid(), {number})
    print("goes on", signals.received is not None, signals.exit_code, flush=True)
"""


def said(number: signal.Signals, *, running: bool, times: int) -> tuple[list[str], str, int]:
    program = PROGRAM.format(running=running, times=times, number=int(number))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return ended.stdout.splitlines(), ended.stderr, ended.returncode


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_the_first_signal_is_noted_and_the_run_may_finish_its_step(number, code):
    assert said(number, running=True, times=1) == ([f"goes on True {code}"], "", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("running", "times"), [(True, 2), (False, 1)])
def test_a_second_signal_or_one_before_the_query_runs_ends_the_process_at_once(number, running, times):
    assert said(number, running=running, times=times) == (["cleaned up"], "stopped\n", -number)
