"""The façade: streams and queries from Python."""

from __future__ import annotations

import itertools
import posixpath
import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import pyarrow as pa

from tidegate.catalog.catalog import Catalog, DropQuery, Program, Query
from tidegate.catalog.registration import Registration
from tidegate.connectors.files import is_uri
from tidegate.connectors.sinks import FileSink
from tidegate.connectors.source import Source
from tidegate.errors import QueryError, nearest
from tidegate.language.binder import bind
from tidegate.runtime.answers import answers, explain_program, found_by
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.frames import Frame, frame_source
from tidegate.runtime.port import DEAD_LETTERS, Job, OnRows, Progress, Run
from tidegate.runtime.results import Results
from tidegate.runtime.shedding import SHEDDING, shed_by
from tidegate.runtime.warm import warm_up_in_background
from tidegate.time import parse_duration

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

RuntimeName = Literal["spark", "embedded"]
EMBEDDED_BUCKETS = 1


class Session(Registration):
    """Streams by name, and the queries that run over them.

    Parameters
    ----------
    spark
        A Spark session to run on; by default a local one is started when it is first needed.
    runtime
        ``"spark"``, or ``"embedded"``: in this process, without Spark or Java.
    buckets
        Into how many parts the keys are hashed; by default as many as a cluster has cores, and one
        for every four of a single machine: a bucket takes about a million rows a second, and with
        a single one there is a single shuffle.

    Examples
    --------
    >>> session = Session(runtime="embedded")
    >>> session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
    >>> query = session.sql("SELECT MAX(value) AS top FROM reading WINDOW(RANGE 15)")
    >>> query.finish().to_pylist()
    [{'valid_from': 0, 'valid_to': 10, 'top': 1.0}, {'valid_from': 10, 'valid_to': 25, 'top': 3.0}]
    """

    def __init__(
        self,
        *,
        spark: SparkSession | None = None,
        runtime: RuntimeName = "spark",
        master: str = "local[*]",
        buckets: int | None = None,
    ) -> None:
        self.runtime: RuntimeName = runtime
        self.master, self.buckets = master, buckets
        self.catalog = Catalog()
        self._spark = spark
        self._owns_spark = False
        self._sources: dict[str, Source] = {}
        self._folder = tempfile.mkdtemp(prefix="tidegate-")
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._numbers = itertools.count(1)
        self._running: list[RunningQuery] = []

    @property
    def spark(self) -> SparkSession:
        """The Spark session; a local one is started if none was given."""
        if self._spark is None:
            from pyspark.sql import SparkSession

            from tidegate.runtime.spark.session import start_spark

            # One that is there already is used, and left running at the end.
            self._owns_spark = SparkSession.getActiveSession() is None
            self._spark = start_spark(self.master)
        return self._spark

    def stream(self, name: str, data: DataFrame | pa.Table | pd.DataFrame, *, time: str, delay: str = "0 s") -> None:
        """Register a stream: a Spark DataFrame (streaming or not), an Arrow table or a pandas frame.

        `time` names the column of application time, a timestamp or integer microseconds.
        """
        frame = Frame(name, data, time, parse_duration(delay))
        source = frame_source(frame, folder=None if self.runtime == "embedded" else self._folder)
        self._sources[name.lower()] = source
        self.catalog = self.catalog.with_stream(source.stream)

    def sql(
        self,
        text: str,
        *,
        once: bool = False,
        checkpoint: str | None = None,
        out: str | None = None,
        format: Literal["csv", "jsonl", "parquet"] = "parquet",  # noqa: A002 - the word of the command line
        on_rows: OnRows | None = None,
    ) -> RunningQuery | None:
        """Run statements; answers the running query, or None if the text only defines streams.

        Definitions stay known to the session. Results are kept in memory, or written below `out`,
        or handed to `on_rows` as they come. With `once` the inputs are taken as finished: all that
        is there is read, every result comes out, and the query ends.
        """
        program = bind(text, self.catalog, self._queries())
        # A derived stream runs when someone asks for it; an alert, at once.
        asked = tuple(q for q in program.queries if q.is_alert or program.catalog.find(q.name) is None)
        program = replace(program, queries=asked)
        running = self.run(program, once=once, checkpoint=checkpoint, out=out, format=format, on_rows=on_rows)
        self.catalog = program.catalog  # not if it could not start: then the text may be mended and said again
        for command in program.commands:
            if isinstance(command, DropQuery):
                self._end(command.name)
        return running

    def ask(self, text: str) -> str:
        """What SHOW, DESCRIBE and EXPLAIN in a text say; nothing of it is run.

        Examples
        --------
        >>> session = Session(runtime="embedded")
        >>> session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
        >>> print(session.ask("SHOW STREAMS"))
        reading  at BIGINT, value DOUBLE
        """
        steering = [running.progress().steering for running in self._running]
        return answers(bind(text, self.catalog, self._queries()), found_by(steering), shed_by(steering))

    def run(
        self,
        program: Program,
        *,
        once: bool = False,
        checkpoint: str | None = None,
        out: str | None = None,
        format: Literal["csv", "jsonl", "parquet"] = "parquet",  # noqa: A002 - the word of the command line
        on_rows: OnRows | None = None,
    ) -> RunningQuery | None:
        """Run the queries of a bound program; see `sql`."""
        if not program.queries:
            return None
        where = _absolute(checkpoint or str(Path(self._folder) / f"checkpoint-{next(self._numbers)}"))
        sinks = _sinks(program, out, format)
        # What is wrong with the query or its data shows before Spark is started.
        job = compile_job(program, sinks=sinks, sources=self._named_sources())
        results = Results()
        run = self._start(job, where if checkpoint else None, where, on_rows or results.add, once=once)
        query = RunningQuery(program, run, results)
        self._running.append(query)
        return query

    def explain(self, text: str) -> str:
        """The plans of the queries in a text, without running them."""
        return explain_program(bind(text, self.catalog))

    def close(self) -> None:
        """Stop all queries, and Spark if this session started it."""
        for query in self._running:
            query.stop()
        self._running.clear()
        if self._owns_spark and self._spark is not None:
            self._spark.stop()
            self._spark = None
        self._remove_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _buckets(self, checkpoint: str) -> int:
        """As asked for; else as the checkpoint has it; else by the cores of Spark."""
        if self.buckets is not None:
            return self.buckets
        known = Checkpoint(checkpoint).identity()
        if known is not None:
            return int(known["buckets"])
        if self.runtime == "embedded":
            return EMBEDDED_BUCKETS
        context = self.spark.sparkContext
        is_local = (context.master or "").startswith("local")
        return max(1, context.defaultParallelism // 4) if is_local else max(2, context.defaultParallelism)

    def _queries(self) -> list[Query]:
        """The queries that run."""
        return [query for running in self._running if not running.is_over for query in running.program.queries]

    def _end(self, name: str) -> None:
        """Stop a query, which must be the only one of its text."""
        for running in self._running:
            if name.lower() in (own.lower() for own in running.names) and not running.is_over:
                if len(running.names) > 1:
                    hint = f"stop all of them: they are {', '.join(running.names)}"
                    raise QueryError("Q118", f"query '{name}' runs together with others", hint=hint)
                running.stop()

    def _named_sources(self) -> dict[str, Source]:
        return {source.stream.name: source for source in self._sources.values()}

    def _start(self, job: Job, kept: str | None, where: str, on_rows: OnRows, *, once: bool) -> Run:
        if self.runtime == "embedded":
            job = replace(job, buckets=self._buckets(where))
            return EmbeddedRun(job, on_rows=on_rows, once=once, checkpoint=kept)
        warming = warm_up_in_background(job.graph)
        from tidegate.runtime.spark.runner import SparkRun, SparkSettings

        job = replace(job, buckets=self._buckets(where))
        warming.join()
        return SparkRun(job, self.spark, SparkSettings(where, once=once), on_rows=on_rows)


class RunningQuery:
    """A handle on the queries of one text, running together."""

    def __init__(self, program: Program, run: Run, results: Results) -> None:
        self.program, self._run, self._results = program, run, results
        self.is_over = False
        """Whether it is known to have ended."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(q.name for q in self.program.queries)

    def explain(self) -> str:
        """The plans before and after the optimiser, and the stages."""
        return explain_program(self.program)

    def progress(self) -> Progress:
        """Rows in and out, dead letters, watermarks and bytes of state so far."""
        return self._run.progress

    def results(self, name: str | None = None) -> pa.Table:
        """The rows that have come out so far, with ``valid_from`` and ``valid_to``."""
        query = self._query(name)
        return self._results.table(query.name, query.plan.schema)

    def dead_letters(self) -> pa.Table:
        """Rows that could not take part, with the reason."""
        return self._results.dead()

    def shedding(self) -> pa.Table:
        """Of each step, which share of its comparisons was made, and which share of the results that found."""
        return self._results.shed()

    def to_pandas(self, name: str | None = None) -> pd.DataFrame:
        return self.results(name).to_pandas()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; answers whether it has come. Raises what ended the query badly."""
        self.is_over = self._run.wait(timeout)
        return self.is_over

    def finish(self, name: str | None = None) -> pa.Table:
        """Take the inputs as finished: read all that is there, end, and answer the results."""
        self._run.finish()
        self.is_over = True
        return self.results(name)

    def stop(self) -> None:
        """End after the current step."""
        self._run.stop()
        self.is_over = True

    def _query(self, name: str | None) -> Query:
        if name is None and len(self.names) == 1:
            return self.program.queries[0]
        for query in self.program.queries:
            if query.name == name:
                return query
        message = "there are several queries: say which one" if name is None else f"there is no query '{name}'"
        raise QueryError("Q301", message, hint=nearest(name or "", self.names))


def _sinks(program: Program, out: str | None, format_: Literal["csv", "jsonl", "parquet"]) -> dict[str, FileSink]:
    sinks = {q.name: FileSink(_absolute(q.into), format_) for q in program.queries if q.into is not None}
    if out is None:
        return sinks
    folder = _absolute(out)
    named = {q.name: FileSink(posixpath.join(folder, q.name), format_) for q in program.queries if q.into is None}
    told = [*([SHEDDING] if any(q.may_shed for q in program.queries) else []), DEAD_LETTERS]
    return {**sinks, **named, **{name: FileSink(posixpath.join(folder, name), "jsonl") for name in told}}


def _absolute(location: str) -> str:
    """A path that workers take to be the same, or a URI as it is."""
    return location if is_uri(location) else str(Path(location).absolute())
