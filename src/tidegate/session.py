"""The Python API: sessions with streams and queries."""

from __future__ import annotations

import itertools
import posixpath
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, get_args

import pyarrow as pa

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.plan import walk
from tidegate.catalog.catalog import Catalog, DropQuery, Program, Query
from tidegate.catalog.limits import NO_LIMITS
from tidegate.catalog.python_functions import Registration
from tidegate.connectors.functions import NO_CONNECTORS, Connect, Connectors
from tidegate.connectors.locations import is_uri
from tidegate.connectors.ranges import Source
from tidegate.connectors.sinks import FileSink, open_sink
from tidegate.connectors.source import with_connector
from tidegate.errors import DataError, QueryError, TidegateWarning
from tidegate.language.bind.program import bind
from tidegate.plans.query_plan import PlanStart
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.commands import (
    AboutRuns,
    analyze_program,
    answer_commands,
    explain_program,
    findings_of_runs,
)
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.frames import Frame, frame_source
from tidegate.runtime.job import DEAD_LETTERS, Job, JobRun, OnRows, Progress
from tidegate.runtime.quality import QUALITY
from tidegate.runtime.resources.managed_job import manage_job
from tidegate.runtime.results import Results
from tidegate.runtime.running_query import OnWarnings, RunningQuery
from tidegate.runtime.shedding import SHEDDING, shedding_of_runs, summarize_samples
from tidegate.runtime.threads import core_count
from tidegate.runtime.warm import warm_up, warm_up_in_background
from tidegate.time import TimeFormat, TimeUnit, parse_duration
from tidegate.values import value

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

RuntimeName = Literal["spark", "embedded"]


class Session(Registration):
    """Named streams, and the queries that run over them.

    Parameters
    ----------
    spark
        Spark session to run on. By default, a session on `master` is started when it is first needed.
    runtime
        ``"spark"``, or ``"embedded"`` to run in this process, without Spark or Java.
    master
        Spark master of a session that is started.
    buckets
        Number of parts into which keys are hashed. The default is the number of cores of a cluster
        (at least 2), a quarter of the cores on a single machine, where a single bucket needs no shuffle, and
        the number of cores in the embedded runtime, where each bucket runs in a thread.
    strict
        Whether to treat warnings as errors.

    Examples
    --------
    >>> session = Session(runtime="embedded")
    >>> session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
    >>> query = session.sql("SELECT MAX(value) AS top FROM reading WINDOW(RANGE 15)")
    >>> print(query.finish().to_pandas().to_string(index=False))
                          valid_from                         valid_to  top
           1970-01-01 00:00:00+00:00 1970-01-01 00:00:00.000010+00:00  1.0
    1970-01-01 00:00:00.000010+00:00 1970-01-01 00:00:00.000025+00:00  3.0
    """

    def __init__(
        self,
        *,
        spark: SparkSession | None = None,
        runtime: RuntimeName = "spark",
        master: str = "local[*]",
        buckets: int | None = None,
        strict: bool = False,
    ) -> None:
        _check_settings(runtime, buckets)
        if runtime == "spark" and spark is None:
            _check_spark_is_installed()
        if spark is not None:
            _refuse_spark_connect(spark)
        self.runtime: RuntimeName = runtime
        self.master, self.buckets, self.strict = master, buckets, strict
        self.catalog = Catalog()
        self._spark = spark
        self._owns_spark = False
        self._sources: dict[str, Source] = {}
        self.connectors: Connectors = NO_CONNECTORS
        self._folder = tempfile.mkdtemp(prefix="tidegate-")
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._numbers = itertools.count(1)
        self._running: list[RunningQuery] = []
        self._is_closed = False

    @property
    def spark(self) -> SparkSession:
        """The Spark session; one is started on `master` if none was given."""
        self._check_open()
        if self._spark is None:
            from pyspark.sql import SparkSession

            from tidegate.runtime.spark.session import start_spark

            # An active session is reused, and left running when this session is closed.
            self._owns_spark = SparkSession.getActiveSession() is None
            self._spark = start_spark(self.master)
        return self._spark

    def stream(
        self,
        name: str,
        data: DataFrame | pa.Table | pd.DataFrame,
        *,
        time: str,
        delay: str = "0 s",
        unit: str | None = None,
    ) -> None:
        """Register a Spark DataFrame (streaming or not), an Arrow table or a pandas DataFrame as a stream.

        `time` names the column of application time. It has timestamps, or integers that count `unit`
        since 1970: "seconds", "milliseconds", "microseconds" (the default) or "nanoseconds".
        """
        self._check_open()
        frame = Frame(name, data, time, parse_duration(delay), _time_unit(unit))
        source, warned = frame_source(frame, folder=None if self.runtime == "embedded" else self._folder)
        self._warn(warned, level=3)
        self._sources[name.lower()] = source
        self.catalog = self.catalog.with_stream(source.stream)

    def connector(self, name: str, connect: Connect) -> None:
        """Register a source function: ``SOURCE name('a', 'b')`` reads what ``connect("a", "b")`` returns.

        It returns all rows, as an Arrow table or an iterable of Arrow tables, or an object with two methods, for rows
        that become more: ``count_rows()`` says how many there are, and ``read_rows(begin, end)`` returns some of them
        as an Arrow table. The same numbers always mean the same rows, also after a restart.

        Examples
        --------
        >>> session = Session(runtime="embedded")
        >>> session.connector("numbers", lambda most: pa.table({"n": range(int(most)), "at": range(int(most))}))
        >>> session.sql("CREATE STREAM number (n INT, at BIGINT) SOURCE numbers('3') TIMESTAMP BY at")
        >>> session.sql("SELECT n FROM number").finish()["n"].to_pylist()
        [0, 1, 2]
        """
        self._check_open()
        self.connectors = with_connector(self.connectors, name, connect)

    def sql(
        self,
        text: str,
        *,
        once: bool = False,
        checkpoint: str | None = None,
        out: str | None = None,
        format: Literal["csv", "jsonl", "parquet"] = "parquet",  # noqa: A002 - the word of the command line
        on_rows: OnRows | None = None,
        times: TimeFormat = "iso",
    ) -> RunningQuery | None:
        """Run statements; return the running query, or None if the text only defines streams.

        The session keeps the definitions. Results are kept in memory, written to folders in `out`, or
        passed to `on_rows` as they are made; an error in `on_rows` ends the query. With `once`, the query
        processes all available input as if the streams had ended, emits every result, and ends. The query
        runs in the background. Reading the results of a query with `once` waits for its end.

        Times in results are timestamps in UTC, written as ISO 8601 in CSV and JSON lines. With `times`
        "micros" they are integers. The end of a validity that never ends is NULL.
        """
        program = self.bind(text)
        # A derived stream runs only when a query reads it; an alert runs at once.
        asked = tuple(q for q in program.queries if q.is_derived or program.catalog.find(q.name) is None)
        program = replace(program, queries=asked)
        running = self.run(
            program, once=once, checkpoint=checkpoint, out=out, format=format, on_rows=on_rows, times=times
        )
        self.catalog = program.catalog  # not if the start failed: then the text can be corrected and run again
        for command in program.commands:
            if isinstance(command, DropQuery):
                self._end_query(command.name)
        return running

    def ask(self, text: str) -> str:
        """Return the answers to SHOW, DESCRIBE and EXPLAIN in a text.

        EXPLAIN ANALYZE runs its query over all available input and discards the results. Nothing else runs.

        Examples
        --------
        >>> session = Session(runtime="embedded")
        >>> session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
        >>> print(session.ask("SHOW STREAMS"))
        reading  at BIGINT, value DOUBLE
        """
        return self.answer(self.bind(text))

    def bind(self, text: str) -> Program:
        """Bind and check a text, without running it: see `tidegate.language.bind.program.bind`."""
        self._check_open()
        return bind(text, self.catalog, self._running_queries())

    @property
    def plan(self) -> PlanStart:
        """The beginnings of plans by hand: ``session.plan.scan("bid").window("10 minutes")…``.

        Examples
        --------
        >>> session = Session(runtime="embedded")
        >>> session.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at")
        >>> session.plan.scan("reading").window("15 microseconds").aggregate(top="MAX(value)").columns
        {'top': 'DOUBLE'}
        """
        self._check_open()
        return PlanStart(self)

    def answer(self, program: Program) -> str:
        """Return the answers to the commands of a bound program; see `ask`."""
        control = [running.progress().control for running in self._running]
        findings, shed = findings_of_runs(control), shedding_of_runs(control)
        shed += summarize_samples(running.progress().samples for running in self._running)
        return answer_commands(program, findings, shed, measure=self.measure, runs=self.about_runs())

    def about_runs(self) -> AboutRuns:
        """Return what is known of the queries that this session runs."""
        return _Runs(tuple(self._running))

    def measure(self, program: Program) -> Progress:
        """Run the queries of a bound program over all available input, discard the results, and return the figures."""
        # Warmed up first, so that the times of operators are those of the work, not of compiling kernels.
        running = self.run(program, once=True, on_rows=lambda *_: None, on_start=lambda job: warm_up(job.graph))
        assert running is not None
        running.finish()
        self._running.remove(running)
        return running.progress()

    def run(
        self,
        program: Program,
        *,
        once: bool = False,
        checkpoint: str | None = None,
        out: str | None = None,
        format: Literal["csv", "jsonl", "parquet"] = "parquet",  # noqa: A002 - the word of the command line
        on_rows: OnRows | None = None,
        on_warnings: OnWarnings | None = None,
        times: TimeFormat = "iso",
        on_start: Callable[[Job], None] | None = None,
    ) -> RunningQuery | None:
        """Run the queries of a bound program; see `sql`.

        Warnings before the start go to `on_warnings`, if given. `on_start` is called before the job starts.
        """
        self._check_open()
        if times not in (known := get_args(TimeFormat)):
            raise QueryError("Q306", f"times cannot be written as '{times}'", hint=f"available: {', '.join(known)}")
        warn = on_warnings or self._warn
        warn(program.warnings)
        if not program.queries:
            return None
        where = _absolute_location(checkpoint or str(Path(self._folder) / f"checkpoint-{next(self._numbers)}"))
        sinks = _open_sinks(program, out, format)
        # Check the query and its data before Spark is started.
        kept = Checkpoint(where)
        is_resumed = kept.identity() is not None and kept.last_record() is not None
        sources, connectors = self._sources_by_name(), self.connectors
        job = compile_job(
            program, sinks=sinks, sources=sources, connectors=connectors, live=not once, is_resumed=is_resumed
        )
        self._refuse_another_program(kept, job)
        warn(job.warnings)
        job = replace(job, times=times)
        if on_start is not None:
            on_start(job)
        results = Results(times)
        run = self._start_run(job, where if checkpoint else None, where, on_rows or results.add, once=once)
        query = RunningQuery(program, run, results, self._warn, job.warnings, once=once)
        self._running.append(query)
        return query

    def explain(self, text: str, *, analyze: bool = False) -> str:
        """Show the plans of the queries in a text.

        With `analyze`, run them over all available input, discard the results, and show what each operator did.
        """
        program = self.bind(text)
        return analyze_program(program, self.measure) if analyze else explain_program(program)

    def close(self) -> None:
        """Stop all queries, and Spark if this session started it. Results in memory stay readable."""
        self._is_closed = True
        for query in self._running:
            query.stop()
        self._running.clear()
        if self._owns_spark and self._spark is not None:
            from tidegate.runtime.spark.gateway import end_java

            end_java(self._spark)
            self._spark = None
        self._remove_folder()

    def kill(self) -> None:
        """Kill Spark if this session started it, without waiting for queries; call it before the process exits."""
        if self._owns_spark:
            from tidegate.runtime.spark.gateway import kill_java

            kill_java()
        self._remove_folder()

    def __repr__(self) -> str:
        queries = "".join(f", {', '.join(query.names)} {query.summary()}" for query in self._running)
        return f"<Session on {self.runtime}: {'closed' if self._is_closed else 'open'}{queries}>"

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise QueryError("Q312", "the session is closed", hint="open another one: tidegate.Session()")

    def _refuse_another_program(self, kept: Checkpoint, job: Job) -> None:
        """Refuse a checkpoint that belongs to another program, before Spark is started."""
        if (known := kept.identity()) is not None:
            kept.check({**job.identity, "buckets": self.buckets or known["buckets"]})

    def choose_buckets(self, checkpoint: str) -> int:
        """Return the number of buckets: as requested, else as in the checkpoint, else the default."""
        if self.buckets is not None:
            return self.buckets
        known = Checkpoint(checkpoint).identity()
        if known is not None:
            return int(known["buckets"])
        if self.runtime == "embedded":
            return core_count()
        context = self.spark.sparkContext
        is_local = (context.master or "").startswith("local")
        return max(1, context.defaultParallelism // 4) if is_local else max(2, context.defaultParallelism)

    def _running_queries(self) -> list[Query]:
        """Return the queries that are running."""
        return [query for running in self._running if not running.is_over for query in running.program.queries]

    def _end_query(self, name: str) -> None:
        """Stop a query, which must be the only one in its text."""
        for running in self._running:
            if name.lower() in (own.lower() for own in running.names) and not running.is_over:
                if len(running.names) > 1:
                    hint = f"stop all of them: they are {', '.join(running.names)}"
                    raise QueryError("Q118", f"query '{name}' runs together with others", hint=hint)
                running.stop()

    def _warn(self, found: Iterable[TidegateWarning], level: int = 4) -> None:
        for warning in found:
            if self.strict:
                raise warning.as_error()
            warnings.warn(warning, stacklevel=level)  # points to the user's call of `sql` or `stream`

    def _sources_by_name(self) -> dict[str, Source]:
        return {source.stream.name: source for source in self._sources.values()}

    def _start_run(self, job: Job, kept: str | None, where: str, on_rows: OnRows, *, once: bool) -> JobRun:
        if self.runtime == "embedded":
            job = replace(job, buckets=self.choose_buckets(where))
            job = manage_job(job) if job.limits != NO_LIMITS or job.adjusted else job
            return EmbeddedRun(job, on_rows=on_rows, once=once, checkpoint=kept)
        warming = warm_up_in_background(job.graph)
        from tidegate.runtime.spark.runner import SparkRun, SparkSettings
        from tidegate.runtime.spark.session import check_workers

        check_workers(self.spark)
        job = replace(job, buckets=self.choose_buckets(where))
        job = manage_job(job) if job.limits != NO_LIMITS or job.adjusted else job
        warming.join()
        return SparkRun(job, self.spark, SparkSettings(where, once=once), on_rows=on_rows)


def _refuse_spark_connect(spark: SparkSession) -> None:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        message = "this is a session of Spark Connect, which has no RDDs; steps run as jobs over RDDs"
        hint = "use a classic session, for example SparkSession.builder.master('spark://…').getOrCreate()"
        raise QueryError("Q311", message, hint=hint)


def _check_spark_is_installed() -> None:
    if find_spec("pyspark") is None:
        hint = "pip install 'tidegate[spark]'; or run without Spark: --runtime embedded, Session(runtime=\"embedded\")"
        raise DataError("D409", "Spark is not installed", hint=hint)


def _check_settings(runtime: str, buckets: int | None) -> None:
    if runtime not in (known := get_args(RuntimeName)):
        raise QueryError("Q311", f"there is no runtime '{runtime}'", hint=f"available: {', '.join(known)}")
    if buckets is not None and buckets < 1:
        raise QueryError("Q311", f"a session cannot have {buckets} buckets", hint="give at least 1, or remove it")


@value
class _Runs:
    """The queries of a session, for questions about them."""

    running: tuple[RunningQuery, ...]

    def describe_metadata(self, query: str | None) -> str:
        from tidegate.runtime.metadata import describe_metadata

        asked = self.running if query is None else [self._find(query)]
        return describe_metadata([each.metadata(query) for each in asked])

    def explain_running(self, query: str) -> str:
        return self._find(query).explain_query(query)

    def explain_cost(self, query: str) -> str:
        return self._find(query).explain_cost(query)

    def progress(self) -> Iterable[Progress]:
        return [each.progress() for each in self.running]

    def _find(self, query: str) -> RunningQuery:
        """Return the newest run of a query."""
        return next(each for each in reversed(self.running) if query in each.names)


def _open_sinks(program: Program, out: str | None, format_: Literal["csv", "jsonl", "parquet"]) -> dict[str, FileSink]:
    sinks = {q.name: open_sink(q.into, format=format_) for q in program.queries if q.into is not None}
    if out is None:
        return sinks
    named = {q.name: open_sink(posixpath.join(out, q.name), format=format_) for q in program.queries if q.into is None}
    reported = [SHEDDING] if any(q.may_shed for q in program.queries) else []
    reported += [QUALITY] if any(is_adaptable(node) for q in program.queries for node in walk(q.plan)) else []
    reported.append(DEAD_LETTERS)
    return {**sinks, **named, **{name: open_sink(posixpath.join(out, name), format="jsonl") for name in reported}}


def _time_unit(name: str | None) -> TimeUnit | None:
    unit = None if name is None else TimeUnit.from_name(name)
    if name is not None and unit is None:
        hint = "available: " + ", ".join(each.value for each in TimeUnit)
        raise QueryError("Q110", f"times cannot be counted in '{name}'", hint=hint)
    return unit


def _absolute_location(location: str) -> str:
    """Return an absolute path, which is the same for all workers, or a URI unchanged."""
    return location if is_uri(location) else str(Path(location).absolute())
