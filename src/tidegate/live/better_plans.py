"""Move queries to better plans without being asked, once the rows of their sources show that it pays."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping

from tidegate.errors import TidegateError
from tidegate.live.program import Phase
from tidegate.live.state import LiveProgram
from tidegate.optimizer.advice import PlanAdvice
from tidegate.optimizer.join_order import count_rows_between_joins
from tidegate.optimizer.optimize import optimize

LEAST_GAIN = 2.0
"""A query moves if its joins give each other at least this many times as many rows as in the best plan."""

FEWEST_ROWS = 10_000
"""Number of rows of sources before which nothing is concluded from them."""

MORE_ROWS = 1.2
"""Factor by which the rows of all sources must have grown since the last look."""

LOOK_EVERY = 5.0
"""Seconds between two looks at the rows of sources."""

_LOG = logging.getLogger("tidegate.live")


def queries_to_move(live: LiveProgram, rows: Mapping[str, int]) -> Iterator[str]:
    """Yield the queries that should move, given the rows that each source has had.

    A query that moves is left alone until it has moved.
    """
    phases = list(live.running_phases())
    for phase in phases:
        is_moving = sum(each.query == phase.query for each in phases) > 1
        compiled = live.compiled[phase.number]
        seen = sum(rows.get(stream, 0) for stream in compiled.streams)
        if not is_moving and seen >= FEWEST_ROWS and gain_of_move(live, phase, rows) >= LEAST_GAIN:
            yield phase.query


def gain_of_move(live: LiveProgram, phase: Phase, rows: Mapping[str, int]) -> float:
    """Return how many times as many rows the joins of a phase give to each other as in the best plan."""
    now = count_rows_between_joins(live.compiled[phase.number].optimized, rows)
    if not now:
        return 1.0
    program, query = live.bound[phase.definition.text], live.compiled[phase.number].query
    best, _ = optimize(query.plan, program.settings, query.shedding, PlanAdvice(rows=rows))
    return now / max(count_rows_between_joins(best, rows), 1.0)


class PlanWatch:
    """Thread that looks for better plans as long as a session runs."""

    def __init__(
        self, rows: Callable[[], Mapping[str, int]], live: Callable[[], LiveProgram], optimize: Callable[[str], object]
    ) -> None:
        self._rows, self._live, self._optimize = rows, live, optimize
        self._rows_seen = 0
        self._refused: set[str] = set()
        """Queries that could not be moved, for example because one was just dropped. They are not tried again."""
        self._ending = threading.Event()
        threading.Thread(target=self._watch, name="tidegate-better-plans", daemon=True).start()

    def stop(self) -> None:
        self._ending.set()

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_EVERY):
            rows = self._rows()
            # To compile plans takes time, and nothing follows from a few rows more.
            if sum(rows.values()) >= self._rows_seen * MORE_ROWS:
                self._rows_seen = sum(rows.values())
                for query in queries_to_move(self._live(), rows):
                    self._move(query)

    def _move(self, query: str) -> None:
        if query in self._refused:
            return
        try:
            self._optimize(query)
            _LOG.info("query %s moves to a better plan", query)
        except TidegateError as error:
            self._refused.add(query)
            _LOG.info("query %s stays as it is: %s", query, error)
