"""How many rows a step reads of a stream."""

from __future__ import annotations

from tidegate.runtime.job import Job

ROWS_OF_SHEDDING_STEP = 10_000
"""Most rows of a stream that a step reads if its work may be shed and all input is there already."""


def rows_to_read(job: Job, usual: int, *, once: bool) -> int:
    """Return how many rows a step may read of a stream, if `usual` ones may be read without limits.

    A run that sheds learns between steps which comparisons are productive. If it processes available input and ends, no
    result is late, and short steps let it learn early. If it follows its input, a step takes all that has come.
    """
    rows = job.limits.rows_per_step(usual)
    return min(rows, ROWS_OF_SHEDDING_STEP) if once and job.sheds else rows
