"""Run a program with a tracer, and see which functions of the package are called, in which order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from support.paths import ROOT
from tidegate import Session

Called = tuple[str, str]
"""A file below src/tidegate, and the qualified name of a function in it."""

_PACKAGE = str(ROOT / "src/tidegate") + "/"


def calls_of_run(text: str, files: Mapping[str, str], folder: Path) -> list[Called]:
    """Run a program over files in a folder, and return the calls in the thread of the run, in order.

    The program runs twice, because the first run of a process also loads machine code. The second run is traced.
    """
    for name, content in files.items():
        (folder / name).write_text(content)
    calls: list[Called] = []
    _run(text, files, folder)
    with _tracing(calls):
        _run(text, files, folder)
    return calls


def _run(text: str, files: Mapping[str, str], folder: Path) -> None:
    # With one core everything runs in the thread of the run, in order.
    with (
        patch("tidegate.runtime.threads.core_count", return_value=1),
        Session(runtime="embedded", buckets=1) as session,
    ):
        running = session.sql(_with_folder(text, files, folder), once=True, out=str(folder / "out"), format="csv")
        assert running is not None
        running.wait()


def _with_folder(text: str, files: Mapping[str, str], folder: Path) -> str:
    for name in files:
        text = text.replace(f"'{name}'", f"'{folder / name}'")
    return text


@contextmanager
def _tracing(calls: list[Called]) -> Iterator[None]:
    """Note the calls in threads that are started meanwhile."""

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PACKAGE):
            calls.append((code.co_filename.removeprefix(_PACKAGE), code.co_qualname))

    threading.setprofile(note)
    try:
        yield
    finally:
        threading.setprofile(None)
