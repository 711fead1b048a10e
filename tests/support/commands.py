"""The command line in processes of their own, forked from one that has imported all it needs: that is quicker."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

PATIENCE = 300


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    stdout: str
    stderr: str
    returncode: int


@cache
def _server() -> ForkServerContext:
    context = get_context("forkserver")
    context.set_forkserver_preload(["support.warm"])
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)):
        forkserver.ensure_running()
    return context


def forked(arguments: list[str], folder: Path, text: str | None, environment: dict[str, str]) -> Ended:
    """Run the command in a folder, with a text as its standard input."""
    with TemporaryDirectory() as name:
        streams = [Path(name) / str(number) for number in range(3)]
        streams[0].write_text(text or "")
        process = _server().Process(target=_run, args=(arguments, folder, streams, environment))
        process.start()
        process.join(PATIENCE)
        code = process.exitcode
        if code is None:
            process.kill()
            process.join()
            raise TimeoutError(f"tidegate {' '.join(arguments)} did not end")
        return Ended(streams[1].read_text(), streams[2].read_text(), code)


def _run(arguments: list[str], folder: Path, streams: list[Path], environment: dict[str, str]) -> None:
    from support.warm import main

    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - until it ends
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["tidegate", *arguments]
    main.main()
