"""Progress of a running query on a terminal, and the summary at its end."""

from __future__ import annotations

import math
import posixpath
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.cli.warnings import Warnings
from tidegate.expressions.parse.times import instant_text
from tidegate.physical.common.control import Losses
from tidegate.physical.common.kernels.compilations import is_compiling
from tidegate.runtime.job import DEAD_LETTERS, Progress
from tidegate.runtime.running_query import RunningQuery
from tidegate.runtime.shedding import describe_overall_shedding

COMPILING = "compiling kernels, once on this machine …"


def watch(running: RunningQuery, warnings: Warnings, *, quiet: bool, enough: Callable[[], bool]) -> bool:
    """Wait until the query ends or `enough` returns true; return whether it has ended. Show progress on a terminal."""
    with _status_line(shown=not quiet and sys.stderr.isatty()) as show:
        while not running.has_ended(0.25):
            warnings.show(running.warnings)
            if enough():
                return False
            show(COMPILING if is_compiling() else progress_line(running.progress()))
    warnings.show(running.warnings)
    return True


@contextmanager
def _status_line(*, shown: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that replaces the last line of the terminal, if it is to be shown."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(Text("starting …"), console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield lambda line: live.update(Text(line))


def progress_line(progress: Progress) -> str:
    """Format the figures in one line.

    Examples
    --------
    >>> progress_line(Progress(rows_in=2000, rows_out={"q": 3}, state_bytes=1500, started=time.monotonic()))[:43]
    '2,000 rows in · 3 rows out · watermark none'
    """
    parts = [f"{progress.rows_in:,} rows in", f"{sum(progress.rows_out.values()):,} rows out"]
    parts.append(f"watermark {instant_text(progress.watermark)}")
    parts.append(f"state {_format_bytes(progress.state_bytes)}")
    if progress.cold_bytes:
        parts.append(f"cold {_format_bytes(progress.cold_bytes)}")
    if progress.omitted_rows:
        parts.append(f"{progress.omitted_rows:,} omitted")
    if progress.dead:
        parts.append(f"{sum(progress.dead.values()):,} dead letters")
    parts.append(f"{time.monotonic() - progress.started:.1f} s")
    return " · ".join(parts)


def summary(progress: Progress, out: str | None) -> str:
    """Format the summary of a run."""
    lines = [progress_line(progress)]
    if progress.dead:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(progress.dead.items()))
        where = f", in {posixpath.join(out, DEAD_LETTERS)}" if out is not None else ""
        lines.append(f"dead letters: {reasons}{where}")
    if progress.losses is not None:
        lines.append(_describe_losses(progress.losses))
    lines += describe_overall_shedding(progress.control)
    return "\n".join(lines)


def _describe_losses(losses: Losses) -> str:
    """Describe in one line the results that MODE lean lost.

    Examples
    --------
    >>> _describe_losses(Losses(estimate=12.4, low=3, high=20.5))
    'missing results: about 12, between 3 and 21 (MODE lean)'
    >>> _describe_losses(Losses(estimate=None, low=0, high=1200))
    'missing results: number unknown, at most 1,200, because nothing is sampled (MODE lean, monitor_sample = 0)'
    """
    if losses.estimate is None:
        how_many = f"number unknown, at most {math.ceil(losses.high):,}"
        return f"missing {losses.of}: {how_many}, because nothing is sampled (MODE lean, monitor_sample = 0)"
    bounds = f"between {math.floor(losses.low):,} and {math.ceil(losses.high):,}"
    return f"missing {losses.of}: about {losses.estimate:,.0f}, {bounds} (MODE lean)"


def _format_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError
