"""Source streams as Spark streaming DataFrames of travelling rows, which their stages of level 0 produce.

For files, Spark finds new ones and assigns them to tasks. The tasks read them as in every runtime, without
a detour through Spark's rows. For streaming DataFrames, Spark provides typed columns. It drops columns
that no query reads, and empties rows that no query needs.
"""

from __future__ import annotations

import posixpath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from tidegate.connectors.decode import requested_schema
from tidegate.connectors.files import FileSet
from tidegate.connectors.formats import Format, count_option
from tidegate.connectors.source import FileSource
from tidegate.errors import DataError
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Expression, columns_of, conjuncts
from tidegate.expressions.spark import spark_sql
from tidegate.runtime.job import Job
from tidegate.runtime.spark import generator_source
from tidegate.runtime.spark.directives import Setup
from tidegate.runtime.spark.rows import TRAVELLING, PayloadKind
from tidegate.runtime.spark.tasks import WANTED, read_stream, read_wanted, rows_of_files, unwrap_rows
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


_FILE = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"


def travelling_rows(spark: SparkSession, job: Job, setup: Setup, stream: str) -> DataFrame:
    """Return the travelling rows that the stages reading a stream produce."""
    source, decoder = job.sources[stream], job.decoder(stream)
    match source.format:
        case Format.GENERATOR:
            spark.dataSource.register(generator_source.SparkGeneratorSource)
            reader = spark.readStream.format(generator_source.NAME).options(
                **generator_source.encode_stream(source.stream)
            )
            return reader.load().mapInArrow(read_stream(setup, stream, decoder, unwrap_rows), TRAVELLING)
        case Format.DATAFRAME:
            return _read_columns(source.frame, job, setup, stream)  # type: ignore[attr-defined]
    assert isinstance(source, FileSource)
    opened = rows_of_files(source, job.graph.columns(stream))
    return _new_file_paths(spark, source).mapInArrow(read_stream(setup, stream, decoder, opened), TRAVELLING)


def heartbeats(spark: SparkSession, buckets: int) -> DataFrame:
    """Return a stream with a row per bucket and second, so that steps run while all streams are silent."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return rows_without_payload(ticks, f"explode(sequence(0, {buckets - 1}))")


def rows_without_payload(frame: DataFrame, bucket: str) -> DataFrame:
    """Return travelling rows without payload, which make Spark run their buckets."""
    kind = f"{int(PayloadKind.NOTHING)} AS kind"
    return frame.selectExpr(f"{bucket} AS bucket", kind, "0 AS number", "0 AS port", "cast('' AS BINARY) AS payload")


def _read_columns(raw: DataFrame, job: Job, setup: Setup, stream: str) -> DataFrame:
    """Read typed columns: only those that stages need, and only the times of rows that no stage needs."""
    declared, decoder = job.sources[stream].stream, job.decoder(stream)
    found = {name.lower(): name for name in raw.columns}
    needed = requested_schema(declared, job.graph.columns(stream), time=True).names
    columns = {n: _quote_name(found.get(n.lower(), n)) for n in needed}
    condition = pushed_condition(job, stream, raw)
    if condition is None or not declared.times:
        return raw.select(*columns.values()).mapInArrow(read_stream(setup, stream, decoder), TRAVELLING)
    # Every row counts for the watermark, and may be late or lack a time, so times are always read.
    empty = " OR ".join(f"{columns[c]} IS NULL" for c in sorted(declared.times))
    marked = raw.withColumn(WANTED, expr(f"coalesce(({condition}) OR {empty}, FALSE)"))
    narrowed = [c if n in declared.times else f"IF({WANTED}, {c}, NULL) AS {c}" for n, c in columns.items()]
    reading = read_wanted(setup, stream, decoder, job.sources[stream].decoder(frozenset()))
    return marked.selectExpr(*narrowed, WANTED).mapInArrow(reading, TRAVELLING)


def pushed_condition(job: Job, stream: str, raw: DataFrame) -> str | None:
    """Return the part of the readers' conditions on rows that Spark can check; None if a reader may need any row."""
    same = _columns_as_declared(job.sources[stream].stream.schema, raw)
    texts = []
    for wanted in job.graph.row_conditions(stream):
        terms = _terms_for_spark(wanted, same)
        if not terms:
            return None
        texts.append(" AND ".join(terms))
    return " OR ".join(f"({t})" for t in dict.fromkeys(texts))


def _terms_for_spark(wanted: Expression, columns: frozenset[str]) -> tuple[str, ...]:
    terms = [text for t in conjuncts(wanted) if columns_of(t) <= columns and (text := spark_sql(t)) is not None]
    # If another term fails, the row becomes a dead letter even where this term is NULL: only FALSE may drop it.
    return tuple(f"({text} IS NOT FALSE)" for text in terms) if can_fail(wanted) else tuple(terms)


def _columns_as_declared(schema: Schema, raw: DataFrame) -> frozenset[str]:
    """Return the columns whose Spark type is the declared one; for others a comparison might differ."""
    types = {f.name: f.dataType.simpleString() for f in raw.schema}
    return frozenset(f.name for f in schema if types.get(f.name) == SPARK_TYPES.get(f.type, ""))


def _new_file_paths(spark: SparkSession, source: FileSource) -> DataFrame:
    """Return the paths of new files. Their content is not selected, so Spark does not open them."""
    folder, pattern = spark_path(source.files)
    # By default Spark silently ignores files a week older than the newest one.
    reader = spark.readStream.format("binaryFile").schema(_FILE).option("maxFileAge", "36500d")
    if pattern:
        reader = reader.option("pathGlobFilter", pattern)
    limit = count_option(source.stream, "files_per_batch")
    if limit is not None:
        reader = reader.option("maxFilesPerTrigger", limit)
    return reader.load(folder).select("path")


def spark_path(files: FileSet) -> tuple[str, str | None]:
    """Return the folder or glob that Spark watches, and a filter on names; Spark cannot watch a single file."""
    present = files.files()
    if len(present) == 1 and posixpath.basename(files.location) == present[0].name:
        return posixpath.dirname(files.location) or ".", present[0].name
    if not files.suffixes or any(c in files.location for c in "*?["):
        return files.location, None
    return files.location, files.name_filter


def removed_source_error(job: Job) -> DataError | None:
    """Return the error for a file source that was removed; Spark's own message does not name it."""
    for name, source in job.sources.items():
        if isinstance(source, FileSource) and not _has_files(source.files):
            message = f"stream '{name}': {source.files.location} was removed while the query ran"
            hint = "put it back and start again: with --checkpoint the query resumes where it stopped"
            return DataError("D408", message, hint=hint)
    return None


def _has_files(files: FileSet) -> bool:
    try:
        return bool(files.files())
    except DataError:
        return False


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
