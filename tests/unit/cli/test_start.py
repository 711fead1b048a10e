"""A command imports only what it needs."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest
from support.paths import ROOT

from tidegate.cli import process

QUERY = str(ROOT / "examples/auction/closing.sql")
HEAVY = ("numba", "llvmlite", "pandas", "pyspark", "py4j", "pydantic", "rich")
SCRIPT = """
import sys
import threading
from tidegate.cli.main import main
sys.argv = ["tidegate", *{arguments!r}]
try:
    main()
except SystemExit as ended:
    code = ended.code
print("\\nimported:", *(name for name in {names!r} if name in sys.modules))
sys.exit(code)
"""


def imported(*arguments: str, names: tuple[str, ...] = HEAVY) -> set[str]:
    """Those of the heavy packages that a command imports."""
    script = SCRIPT.format(arguments=arguments, names=names)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("command", ["check", "explain", "constraints"])
def test_commands_that_run_nothing_import_nothing_heavy(command):
    assert imported(command, QUERY) == set()


def test_help_imports_neither_numba_nor_pandas_nor_arrow():
    found = imported("--help", names=(*HEAVY, "pyarrow", "numpy", "lark"))
    assert found <= {"pydantic", "rich"}  # Typer's own


def test_an_embedded_run_imports_numba_and_nothing_else_that_is_heavy():
    assert imported("run", "--runtime", "embedded", QUERY, "--once") == {"numba", "llvmlite"}


def test_a_query_imports_only_the_features_that_it_uses():
    features = ("join", "aggregate", "keyed_join", "similarity_join", "subscriptions", "threshold_alert")
    found = imported("check", QUERY, names=tuple(f"tidegate.physical.{each}.operator" for each in features))
    assert found == {"tidegate.physical.join.operator", "tidegate.physical.aggregate.operator"}


def test_garbage_is_collected_once_a_command_has_started(monkeypatch):
    timers = []

    class Timer:
        def __init__(self, seconds, function):
            timers.append(function)

        def start(self):
            pass

    monkeypatch.setattr(threading, "Timer", Timer)
    try:
        process.collect_garbage_later()
        assert not gc.isenabled()
        timers[0]()
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.enable()
