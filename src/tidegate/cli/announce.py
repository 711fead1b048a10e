"""Messages on standard error before a run starts: where results go, and which streams wait for files."""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.connectors.locations import is_uri
from tidegate.runtime.job import DEAD_LETTERS, Job
from tidegate.runtime.quality import QUALITY
from tidegate.runtime.shedding import SHEDDING

_OTHER_OUTPUTS = {DEAD_LETTERS: "dead letters", SHEDDING: "figures on shedding", QUALITY: "sizes of windows"}


def announce(job: Job) -> None:
    """Print the location of every file sink, and of every stream that has no file yet."""
    for name, sink in job.sinks.items():
        what = _OTHER_OUTPUTS.get(name, f"results of {name}")
        print(f"{what} go to {_resolve_folder(sink.folder)} ({sink.format})", file=sys.stderr)
    for stream, place in job.awaited.items():
        print(f"stream '{stream}' has no file yet: waiting for the first one at {place}", file=sys.stderr)


def _resolve_folder(folder: str) -> str:
    return folder if is_uri(folder) else str(Path(folder).resolve())
