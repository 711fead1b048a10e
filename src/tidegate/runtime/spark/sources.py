"""Source streams as Spark streaming DataFrames of travelling rows, as their readers make them.

Spark brings lines or columns; what they mean is decided by the connectors' decoders, the same as
in every runtime. Columns nobody reads and rows nobody wants are left out by Spark itself, as
near to the source as it can.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from tidegate.connectors.decode import requested
from tidegate.connectors.files import File, FileSet
from tidegate.connectors.formats import Format, count
from tidegate.expressions.functions import can_fail
from tidegate.expressions.nodes import Expression, columns_of, conjuncts
from tidegate.expressions.spark import spark_sql
from tidegate.runtime.port import Job
from tidegate.runtime.spark import generator_source
from tidegate.runtime.spark.rows import TRAVELLING, Kind
from tidegate.runtime.spark.tasks import WANTED, Setup, read_stream, read_wanted, unwrapped
from tidegate.schema import Schema, Type

SPARK_TYPES = {
    Type.BOOLEAN: "boolean",
    Type.INT: "int",
    Type.BIGINT: "bigint",
    Type.REAL: "float",
    Type.DOUBLE: "double",
    Type.STRING: "string",
    Type.TIMESTAMP: "timestamp",
}


def travelling_rows(spark: SparkSession, job: Job, setup: Setup, stream: str) -> DataFrame:
    """What the stages that read a stream make of its rows."""
    source, decoder = job.sources[stream], job.decoder(stream)
    match source.format:
        case Format.GENERATOR:
            spark.dataSource.register(generator_source.GeneratorSource)
            reader = spark.readStream.format(generator_source.NAME).options(**generator_source.options(source.stream))
            return reader.load().mapInArrow(read_stream(setup, stream, decoder, unwrapped), TRAVELLING)
        case Format.CSV | Format.JSONL:
            lines = _files(spark, job, stream, "text").selectExpr("value AS line")
            return lines.mapInArrow(read_stream(setup, stream, decoder), TRAVELLING)
        case Format.PARQUET:
            return _columns(_files(spark, job, stream, "parquet"), job, setup, stream)
        case Format.DATAFRAME:
            return _columns(source.frame, job, setup, stream)  # type: ignore[attr-defined]


def heartbeats(spark: SparkSession, buckets: int) -> DataFrame:
    """A row for every bucket each second, so that time can go on while streams are silent."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return nothing(ticks, f"explode(sequence(0, {buckets - 1}))")


def nothing(frame: DataFrame, bucket: str) -> DataFrame:
    """Travelling rows that only make sure that buckets are run."""
    kind = f"{int(Kind.NOTHING)} AS kind"
    return frame.selectExpr(f"{bucket} AS bucket", kind, "0 AS number", "0 AS port", "cast('' AS BINARY) AS payload")


def _columns(raw: DataFrame, job: Job, setup: Setup, stream: str) -> DataFrame:
    """Typed columns: only those that are read, and of rows that nobody wants only when they are valid."""
    declared, decoder = job.sources[stream].stream, job.decoder(stream)
    found = {name.lower(): name for name in raw.columns}
    needed = requested(declared, job.graph.columns(stream), time=True).names
    columns = {n: _quoted(found.get(n.lower(), n)) for n in needed}
    condition = pushed_condition(job, stream, raw)
    if condition is None or not declared.times:
        return raw.select(*columns.values()).mapInArrow(read_stream(setup, stream, decoder), TRAVELLING)
    # All rows move time on, and all may be late or have no time at all; most of a row is its other columns.
    empty = " OR ".join(f"{columns[c]} IS NULL" for c in sorted(declared.times))
    marked = raw.withColumn(WANTED, expr(f"coalesce(({condition}) OR {empty}, FALSE)"))
    narrowed = [c if n in declared.times else f"IF({WANTED}, {c}, NULL) AS {c}" for n, c in columns.items()]
    reading = read_wanted(setup, stream, decoder, job.sources[stream].decoder(frozenset()))
    return marked.selectExpr(*narrowed, WANTED).mapInArrow(reading, TRAVELLING)


def pushed_condition(job: Job, stream: str, raw: DataFrame) -> str | None:
    """What Spark can check of the condition that a row must fulfil to be of use to any reader."""
    same = _columns_as_declared(job.sources[stream].stream.schema, raw)
    texts = []
    for wanted in job.graph.wanted(stream):
        terms = _checked_by_spark(wanted, same)
        if not terms:
            return None
        texts.append(" AND ".join(terms))
    return " OR ".join(f"({t})" for t in dict.fromkeys(texts))


def _checked_by_spark(wanted: Expression, columns: frozenset[str]) -> tuple[str, ...]:
    terms = [text for t in conjuncts(wanted) if columns_of(t) <= columns and (text := spark_sql(t)) is not None]
    # Beside a term that fails, one that is unknown does not spare a row from becoming a dead letter.
    return tuple(f"({text} IS NOT FALSE)" for text in terms) if can_fail(wanted) else tuple(terms)


def _columns_as_declared(schema: Schema, raw: DataFrame) -> frozenset[str]:
    """Columns whose type in Spark is the declared one: elsewhere a comparison might differ."""
    types = {f.name: f.dataType.simpleString() for f in raw.schema}
    return frozenset(f.name for f in schema if types.get(f.name) == SPARK_TYPES.get(f.type, ""))


def _files(spark: SparkSession, job: Job, stream: str, kind: str) -> DataFrame:
    source = job.sources[stream]
    files: FileSet = source.files  # type: ignore[attr-defined]
    folder, pattern = spark_path(files)
    # Spark would forget files a week older than the newest one, silently: never do that.
    reader = spark.readStream.format(kind).option("maxFileAge", "36500d")
    if kind == "text":
        reader = reader.option("lineSep", "\n")  # a lone carriage return ends no line, as in every runtime
    if pattern:
        reader = reader.option("pathGlobFilter", pattern)
    limit = count(source.stream, "files_per_batch")
    if limit is not None:
        reader = reader.option("maxFilesPerTrigger", limit)
    if kind != "parquet":
        return reader.load(folder)
    first, *_ = files.existing(source.stream)
    with _nanoseconds_as_numbers(spark):
        raw = reader.schema(spark.read.parquet(first.path).schema).load(folder)
    return _rounded(raw, fine_times(files, first))


@contextmanager
def _nanoseconds_as_numbers(spark: SparkSession) -> Iterator[None]:
    """Spark refuses times in nanoseconds, as pandas writes them, unless it may take them for numbers."""
    setting = "spark.sql.legacy.parquet.nanosAsLong"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "true")
    try:
        yield
    finally:
        spark.conf.set(setting, before or "false")


def fine_times(files: FileSet, file: File) -> list[str]:
    """Columns of a Parquet file whose times are in nanoseconds."""
    with files.opened(file) as data, pq.ParquetFile(data) as parquet:
        return [f.name for f in parquet.schema_arrow if pa.types.is_timestamp(f.type) and f.type.unit == "ns"]


def _rounded(raw: DataFrame, fine: Sequence[str]) -> DataFrame:
    """Numbers of nanoseconds as times, rounded down."""
    columns = {n: f"timestamp_micros(({_quoted(n)} - pmod({_quoted(n)}, 1000)) div 1000)" for n in fine}
    return raw.withColumns({name: expr(text) for name, text in columns.items()}) if columns else raw


def spark_path(files: FileSet) -> tuple[str, str | None]:
    """The folder or glob that Spark watches, and which names count: a stream is never one file."""
    present = files.files()
    if len(present) == 1 and posixpath.basename(files.location) == present[0].name:
        return posixpath.dirname(files.location) or ".", present[0].name
    if not files.suffixes or any(c in files.location for c in "*?["):
        return files.location, None
    return files.location, files.name_filter


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
