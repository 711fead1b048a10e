"""Handle on running queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.catalog.catalog import Program, Query
from tidegate.errors import DataError, QueryError, TidegateWarning, suggest_name
from tidegate.expressions.parse.times import instant_text
from tidegate.runtime.commands import explain_program
from tidegate.runtime.figures import Metadata
from tidegate.runtime.job import JobRun, Progress, QueryState
from tidegate.runtime.results import Results

if TYPE_CHECKING:
    import pandas as pd


OnWarnings = Callable[[Iterable[TidegateWarning]], None]
"""Callback that shows or raises warnings."""


class RunningQuery:
    """Handle on the queries of one text, which run together.

    Results, dead letters and figures on shedding can be read at any time. If the query failed, reading
    them raises its error. If it runs with ``once``, reading them waits for its end. With ``partial=True``
    they return what is available so far instead.
    """

    def __init__(
        self,
        program: Program,
        run: JobRun,
        results: Results,
        warn: OnWarnings,
        warned: Sequence[TidegateWarning] = (),
        *,
        once: bool = False,
    ) -> None:
        self.program, self._run, self._results, self._warn, self._once = program, run, results, warn, once
        self._before = (*program.warnings, *warned)
        self._warned = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(q.name for q in self.program.queries)

    @property
    def state(self) -> QueryState:
        """State of the query: running, finished, stopped or failed. Never waits."""
        return self._run.state

    @property
    def error(self) -> BaseException | None:
        """Error that ended the query, if any."""
        return self._run.error

    @property
    def is_over(self) -> bool:
        """Return whether the query has finished, was stopped or has failed."""
        return self.state is not QueryState.RUNNING

    def explain(self, *, analyze: bool = False) -> str:
        """Return the plans before and after the optimiser, and the stages, as text.

        With `analyze`, return the stages with what each operator has done so far.
        """
        return "\n\n".join(map(self.explain_query, self.names)) if analyze else explain_program(self.program)

    def explain_query(self, name: str) -> str:
        """Return the stages of one of the queries, with what each operator has done so far."""
        return self._run.explain(self._find_query(name).name)

    def explain_cost(self, name: str) -> str:
        """Return the stages of one of the queries, with what each operator needs, as estimated and as measured."""
        return self._run.explain_cost(self._find_query(name).name)

    def progress(self) -> Progress:
        """Return the current figures: rows in and out, dead letters, watermarks and size of the state."""
        return self._run.progress

    def metadata(self, name: str | None = None) -> Metadata:
        """Return what the operators of the queries do, or those of one query: rows, time, state and watermarks.

        It has tables of operators, of sources with their rates, and of the phases of steps.
        """
        return self._run.metadata(None if name is None else self._find_query(name).name)

    def results(self, name: str | None = None, *, partial: bool = False) -> pa.Table:
        """Return the result rows so far, with ``valid_from`` and ``valid_to``, or of a changelog with ``op``."""
        query = self._find_query(name)
        self._ensure_readable(partial=partial)
        return self._results.table(query)

    def dead_letters(self, *, partial: bool = False) -> pa.Table:
        """Return the rows that could not be processed, each with the reason."""
        self._ensure_readable(partial=partial)
        return self._results.dead_letter_table()

    def shedding(self, *, partial: bool = False) -> pa.Table:
        """Return for each step the share of comparisons made and the estimated share of results found."""
        self._ensure_readable(partial=partial)
        return self._results.shedding_table()

    def quality(self, *, partial: bool = False) -> pa.Table:
        """Return which sizes the windows and granularities with a range of sizes had, and from when on."""
        self._ensure_readable(partial=partial)
        return self._results.quality_table()

    def to_pandas(self, name: str | None = None, *, partial: bool = False) -> pd.DataFrame:
        """Return the results as a pandas DataFrame."""
        if find_spec("pandas") is None:
            hint = "pip install 'tidegate[pandas]'; or use `results()`, which returns an Arrow table"
            raise DataError("D410", "pandas is not installed", hint=hint)
        return self.results(name, partial=partial).to_pandas()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the query and return whether it has ended. Raise its error if it failed."""
        ended = self.has_ended(timeout)
        self._pass_on_warnings()
        return ended

    def has_ended(self, timeout: float | None = None) -> bool:
        """Wait like `wait`, but do not emit warnings about the data; the caller finds them in `warnings`."""
        return self._run.wait(timeout)

    def finish(self, name: str | None = None) -> pa.Table:
        """Process all available input as if the streams had ended, end the query, and return its results."""
        self._run.finish()
        self._pass_on_warnings()
        return self.results(name)

    def stop(self) -> None:
        """Stop the query after the current step."""
        self._run.stop()

    @property
    def warnings(self) -> tuple[TidegateWarning, ...]:
        """Warnings about the text and about the data read so far."""
        return (*self._before, *self._run.progress.warnings)

    def summary(self) -> str:
        """Return the state and figures in one line."""
        progress, state = self.progress(), str(self.state)
        if (error := self.error) is not None:
            state = f"{state} ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        rows = f"{progress.rows_in:,} rows in, {sum(progress.rows_out.values()):,} rows out"
        return f"{state}, {rows}, watermark {instant_text(progress.watermark)}"

    def __repr__(self) -> str:
        return f"<RunningQuery {', '.join(self.names)}: {self.summary()}>"

    def _ensure_readable(self, *, partial: bool) -> None:
        """With `once`, wait until results are complete. Raise an error if the query failed or was stopped before."""
        if partial:
            return
        if self._once:
            self.wait()
        if (error := self.error) is not None:
            raise error
        if self._once and self.state is QueryState.STOPPED:
            message = f"{', '.join(self.names)} was stopped before it had read all of its input"
            raise QueryError(
                "Q313", message, hint="call wait() before stopping it, or read the results so far with partial=True"
            )

    def _pass_on_warnings(self) -> None:
        """Emit the warnings about the data that are new since the last call."""
        found = self._run.progress.warnings[self._warned :]
        self._warned += len(found)
        self._warn(found)

    def _find_query(self, name: str | None) -> Query:
        if name is None and len(self.names) == 1:
            return self.program.queries[0]
        for query in self.program.queries:
            if query.name == name:
                return query
        message = "there are several queries: say which one" if name is None else f"there is no query '{name}'"
        raise QueryError("Q301", message, hint=suggest_name(name or "", self.names))
