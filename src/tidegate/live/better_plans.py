"""Move queries to better plans without being asked, once what is known of their sources shows that it pays."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Join, walk
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.errors import TidegateError
from tidegate.live import plan_choice
from tidegate.live.plan_choice import Proposal
from tidegate.live.program import Phase
from tidegate.live.state import LiveProgram
from tidegate.optimizer.join_order import cost_of_joins
from tidegate.optimizer.optimize import optimize

MORE_ROWS = 1.2
"""Factor by which the rows of all sources must have grown since the last look."""

LOOK_EVERY = 5.0
"""Seconds between two looks at the rows of sources."""

Propose = Callable[[str], Proposal]
"""Function that proposes a plan for a query that runs."""

_JOINS = (Join, KeyedJoin, SimilarityJoin)
_LOG = logging.getLogger("tidegate.live")


def queries_to_move(live: LiveProgram, propose: Propose) -> Iterator[str]:
    """Yield the queries that should move, given the plans that are proposed for them.

    A query that moves is left alone until it has moved.
    """
    phases = list(live.running_phases())
    for phase in phases:
        is_moving = sum(each.query == phase.query for each in phases) > 1
        if is_moving or not any(isinstance(each, _JOINS) for each in walk(live.compiled[phase.number].optimized)):
            continue
        proposal = propose(phase.query)
        rows = sum(proposal.advice.rows.get(stream, 0) for stream in live.compiled[phase.number].streams)
        if rows >= plan_choice.FEWEST_ROWS and gain_of_move(live, phase, proposal) >= plan_choice.LEAST_GAIN:
            yield phase.query


def gain_of_move(live: LiveProgram, phase: Phase, proposal: Proposal) -> float:
    """Return how many times as much the plan of a phase costs as the proposed one, by estimate.

    Whole plans are compared, or, where too little is known for that, the joins whose order can be chosen.
    """
    if proposal.gain is not None:
        return proposal.gain
    advice = proposal.advice
    program, query = live.bound[phase.definition.text], live.compiled[phase.number].query
    now, _ = optimize(query.plan, program.settings, query.shedding, phase.advice)
    cost = cost_of_joins(now, advice)
    if not cost:
        return 1.0
    best, _ = optimize(query.plan, program.settings, query.shedding, advice)
    return cost / max(cost_of_joins(best, advice), 1e-12)


class PlanWatch:
    """Thread that looks for better plans as long as a session runs."""

    def __init__(
        self,
        rows: Callable[[], int],
        propose: Propose,
        live: Callable[[], LiveProgram],
        optimize: Callable[[str], object],
    ) -> None:
        self._rows, self._propose, self._live, self._optimize = rows, propose, live, optimize
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
            if rows >= self._rows_seen * MORE_ROWS:
                self._rows_seen = rows
                self._look()

    def _look(self) -> None:
        try:
            for query in queries_to_move(self._live(), self._propose):
                self._move(query)
        except TidegateError as error:
            # The run ends, or has failed, which others report.
            _LOG.info("no better plans are looked for: %s", error)

    def _move(self, query: str) -> None:
        if query in self._refused:
            return
        try:
            self._optimize(query)
            _LOG.info("query %s moves to a better plan", query)
        except TidegateError as error:
            self._refused.add(query)
            _LOG.info("query %s stays as it is: %s", query, error)
