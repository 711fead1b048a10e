"""A live session: one query graph that runs, and statements that change it at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from tidegate.catalog.catalog import (
    AlterQuery,
    DropQuery,
    OptimizeQuery,
    PauseQuery,
    Program,
    ResumeQuery,
    SnapshotQuery,
    SourceStream,
)
from tidegate.connectors.functions import Connect
from tidegate.connectors.locations import is_uri
from tidegate.errors import QueryError, suggest_name
from tidegate.language.bind.create import kind_of
from tidegate.language.bind.program import bind
from tidegate.live.answers import Answer, QueryStatus, snapshot_table
from tidegate.live.better_plans import PlanWatch
from tidegate.live.feeds import ResultFeed
from tidegate.live.graph import LiveGraph
from tidegate.live.paths import refuse_outside
from tidegate.live.plan_choice import Proposal, propose_plan
from tidegate.live.prepared import find_query, prepare
from tidegate.live.program import LiveQuery
from tidegate.live.show import answer_command
from tidegate.live.snapshots import ViewState, answer_snapshot, view_stage, view_state
from tidegate.live.state import LiveProgram
from tidegate.optimizer.advice import NO_ADVICE
from tidegate.optimizer.unbounded_joins import growth_warnings
from tidegate.runtime.adaptation import Adapt
from tidegate.runtime.figures import Metadata, OperatorPlace
from tidegate.runtime.job import DEAD_LETTERS, Progress
from tidegate.runtime.outputs import dead_letter_schema
from tidegate.runtime.quality import QUALITY, quality_schema
from tidegate.runtime.state import StateSize
from tidegate.session import RuntimeName, Session
from tidegate.time import EARLIEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.runtime.costs.join_statistics import QueryStudy, StatesOfStages


_CHANGES = (DropQuery, AlterQuery, PauseQuery, ResumeQuery, OptimizeQuery, SnapshotQuery)


class LiveSession(LiveGraph):
    """One query graph that runs until it is closed, and whose queries come, go and change meanwhile.

    What is registered is kept in the checkpoint: a session over the same folder continues everything.

    Parameters
    ----------
    checkpoint
        Folder of the checkpoint.
    runtime, master, spark, buckets
        As for `tidegate.Session`.
    allowed_paths
        Folders, or beginnings of URIs, in which sources and sinks may be. By default they may be anywhere.
    adapt
        Decides the sizes of windows and granularities with a range of sizes, after each step. Without it, each has its
        best size.
    connectors
        Source functions by name, as for `Session.connector`.
    reoptimize
        Whether queries move to better plans by themselves, as ``OPTIMIZE QUERY`` moves them, when the rates of their
        sources show that another plan would cost two thirds as much, or less.
    """

    def __init__(
        self,
        *,
        checkpoint: str,
        runtime: RuntimeName = "embedded",
        master: str = "local[*]",
        spark: SparkSession | None = None,
        buckets: int | None = None,
        allowed_paths: Sequence[str] | None = None,
        connectors: Mapping[str, Connect] | None = None,
        reoptimize: bool = True,
        adapt: Adapt | None = None,
    ) -> None:
        self.allowed_paths = allowed_paths
        root = checkpoint if is_uri(checkpoint) else str(Path(checkpoint).absolute())
        session = Session(runtime=runtime, master=master, spark=spark, buckets=buckets)
        for name, connect in (connectors or {}).items():
            session.connector(name, connect)
        super().__init__(root, session, adapt)
        self._plans = (
            PlanWatch(self._rows_of_sources, self._propose_plan, lambda: self._live, self._move_query)
            if reoptimize
            else None
        )

    # --- statements ----------------------------------------------------------------------------------

    def execute(self, text: str) -> tuple[Answer, ...]:
        """Run statements, and return their answers once all changes are durable.

        A text is applied as a whole or not at all. Any thread may call this at any time.
        """
        return self._execute(text)

    def follow(self, text: str) -> tuple[tuple[Answer, ...], ResultFeed]:
        """Run statements that register one query, and subscribe to it before its first step."""
        opened: list[ResultFeed] = []
        answers = self._execute(text, opened)
        return answers, opened[0]

    def _execute(self, text: str, opened: list[ResultFeed] | None = None) -> tuple[Answer, ...]:
        """Run statements. With a list, add to it a feed of the one query that they register."""
        with self._changing:
            self._check_running()
            live = self._live
            program = bind(text, live.catalog, live.queries(), live=True)
            snapshots = [c for c in program.commands if isinstance(c, SnapshotQuery)]
            if opened is not None and snapshots:
                message = "a query over materialized views is answered at once, and cannot be followed"
                raise QueryError("Q324", message, hint="follow CREATE QUERY name AS SELECT …")
            if opened is not None and len(program.queries) != 1:
                message = f"the statements register {len(program.queries)} queries; only one can be followed"
                raise QueryError("Q322", message, hint="run the other statements before")
            self._refuse_paths(program)
            try:
                prepared = prepare(live, text, program, self._table, self._study_query)
                # Before the changes: a text that fails changes nothing.
                answered = [answer_snapshot(each, self._view_states(each.views), text) for each in snapshots]
                changes = self._apply(prepared, opened)
            finally:
                self._table.forget([n for n in self._table.owners() if n not in self._live.compiled])
            asked = [c for c in program.commands if not isinstance(c, _CHANGES)]
            shown = [answer_command(c, self._live, program, self._table, self._run) for c in asked]
        defined = _definition_answers(live, program)
        answers = (*defined, *changes, *answered, *shown)
        growing = (each for phase in prepared.compiled.values() for each in growth_warnings(phase.given))
        warnings = (*program.warnings, *(each.with_text(text) for each in growing))
        if warnings and answers:
            answers = (replace(answers[0], warnings=warnings), *answers[1:])
        return answers

    def _move_query(self, name: str) -> tuple[Answer, ...]:
        return self.execute('OPTIMIZE QUERY "' + name.replace('"', '""') + '"')

    def _rows_of_sources(self) -> int:
        return sum(each.rows for each in list(self._run.progress.sources.values()))

    def queries(self) -> tuple[QueryStatus, ...]:
        """Return the registered queries."""
        out = self._run.progress.rows_out
        return tuple(
            QueryStatus(
                q.name, q.statement, q.state, None if q.exact_from <= EARLIEST else q.exact_from, out.get(q.name, 0)
            )
            for q in self._live.version.queries
        )

    def subscribe(self, name: str) -> ResultFeed:
        """Return the results of a query from now on.

        "dead_letters" has the rows that could not be processed, "quality" the sizes of windows that change.
        """
        with self._changing:
            if name == DEAD_LETTERS:
                feed = ResultFeed(dead_letter_schema())
            elif name == QUALITY:
                feed = ResultFeed(quality_schema())
            else:
                query = self._find_query(name)
                if self._live.query(query.name).is_view:
                    hint = "ask it with SELECT, or follow CREATE QUERY name AS SELECT … over it"
                    raise QueryError("Q324", f"'{query.name}' is a materialized view: it reports no results", hint=hint)
                return self._open_feed(query.name)
            return self._add_feed(name, feed)

    def _find_query(self, name: str) -> LiveQuery:
        queries = self._live.version.queries
        if (query := find_query(queries, name)) is None:
            raise QueryError("Q301", f"there is no query '{name}'", hint=suggest_name(name, [q.name for q in queries]))
        return query

    def snapshot(self, text: str) -> pa.Table:
        """Return the rows of a query over materialized views and tables, as they are now.

        The metadata of the table's schema has the `instant`, in microseconds, if the rows depend on one.
        """
        return snapshot_table(self.execute(text))

    def _view_states(self, views: Sequence[str]) -> list[ViewState]:
        """Return what views keep, all of them between the same two steps."""
        stages = [view_stage(self._live, view) for view in views]

        def read_states() -> list[ViewState]:
            return [view_state(self._live, phase, self._run.stage_states(number)) for phase, number in stages]

        return self._submit(read_states) if views else []

    def _propose_plan(self, query: str) -> Proposal:
        """Return a better plan for a query, as far as one is known."""
        with self._changing:
            self._check_running()
            if find_query(self._live.version.queries, query) is None:
                return Proposal(NO_ADVICE)
            number = self._live.version.next_phase
            return propose_plan(self._live, query, self._study_query(query), self._table, number)

    def _study_query(self, query: str | None) -> QueryStudy:
        """Return what the run has shown of a query; the rows of joins are read between two steps."""
        if query is None:
            return self._run.study_sources()
        from tidegate.runtime.costs.join_statistics import stages_to_read

        if not stages_to_read(self._run.job.graph, query):
            return self._run.study_query(query)

        def read_states() -> StatesOfStages:
            return {each: self._run.stage_states(each) for each in stages_to_read(self._run.job.graph, query)}

        return self._run.study_query(query, self._submit(read_states))

    # --- the run -------------------------------------------------------------------------------------

    def metadata(self, name: str | None = None) -> Metadata:
        """Return what operators do, how fast sources are and where time goes, in all queries or in one."""
        with self._changing:
            return self._run.metadata(None if name is None else self._find_query(name).name)

    def quality(self) -> pa.Table:
        """Return the sizes in force of windows and granularities with a range of sizes, and those from later on."""
        with self._changing:
            return self._run.quality()

    def state_sizes(self) -> Mapping[OperatorPlace, StateSize]:
        """Return the size of the state of each operator in each bucket. Never waits."""
        return self._run.state_sizes()

    def progress(self) -> Progress:
        """Return the current figures of the run."""
        return self._run.progress

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the run and return whether it has ended. Raise its error if it failed."""
        return self._run.wait(timeout)

    def close(self) -> None:
        """Stop the run after the current step. What is registered stays in the checkpoint."""
        if self._plans is not None:
            self._plans.stop()
        self._run.stop()
        self._queue.refuse(QueryError("Q312", "the session is closed"))
        self._feeds.end_all()
        self._session.close()

    def kill(self) -> None:
        """Kill Spark if this session started it, without waiting; call it before the process exits."""
        self._session.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_paths(self, program: Program) -> None:
        """Refuse new sources and sinks outside of the allowed paths."""
        for stream in program.catalog:
            if isinstance(stream, SourceStream) and self._live.catalog.find(stream.name) is not stream:
                refuse_outside(stream.location, self.allowed_paths)
        for query in program.queries:
            if query.into is not None:
                refuse_outside(query.into, self.allowed_paths)


def _definition_answers(live: LiveProgram, program: Program) -> tuple[Answer, ...]:
    """Return an answer for each stream or table that a text created or dropped."""
    before, after = live.catalog.streams, program.catalog.streams
    created = [after[key] for key in after if before.get(key) is not after[key]]
    return (
        *(Answer(f"created {kind_of(each)} {each.name}") for each in created),
        *(Answer(f"dropped {kind_of(before[key])} {before[key].name}") for key in before if key not in after),
    )
