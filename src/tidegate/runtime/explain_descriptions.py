"""Descriptions of rules and stages, for EXPLAIN as text and as diagrams."""

from __future__ import annotations

from tidegate.expressions.nodes import TRUE, conjunction, conjuncts
from tidegate.expressions.spark import spark_sql
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.optimize import LAWS
from tidegate.runtime.compile import CompiledQuery
from tidegate.runtime.stage import FromStage, FromStream, Port, Stage, ToQuery, ToStage


def describe_rules(compiled: CompiledQuery) -> list[str]:
    """Describe the rules that applied to a query, each with its law."""
    return [f"{name}: {LAWS[name]}" for name in compiled.rules] or ["none"]


def describe_stage(stage: Stage) -> str:
    """Describe a stage: its number, its partitioning, and the queries that share it."""
    return f"stage {stage.number} ({_describe_partitioning(stage)}{_describe_sharers(stage)})"


def describe_target(target: ToStage | ToQuery) -> str:
    """Describe the target of an output."""
    match target:
        case ToQuery(query=query):
            return f"results of {query}"
        case ToStage(stage=stage):
            return f"stage {stage}, {describe_exchange(target)}"


def describe_exchange(target: ToStage) -> str:
    """Describe how elements are spread over the buckets of the target stage."""
    if target.keys is None:
        return "all to every bucket"
    return f"hashed by {', '.join(target.keys)}" if target.keys else "all to one bucket"


def describe_feed(feed: FromStream | FromStage, port: Port) -> str:
    """Describe the origin and the columns of elements."""
    columns = ", ".join(port.schema.names) or "no columns"
    match feed:
        case FromStage(stage=number):
            return f"from stage {number}: {columns}"
        case FromStream(stream=stream, wanted=wanted):
            checked = conjunction(tuple(t for t in conjuncts(wanted) if spark_sql(t) is not None))
            pushed = "" if checked == TRUE else f", at the source only where {to_sql(checked)}"
            return f"from stream {stream}: {columns}{pushed}"


def _describe_partitioning(stage: Stage) -> str:
    match stage.partition:
        case None:
            return "wherever the rows are"
        case ():
            return "one bucket"
        case _ if _has_all_in_every_bucket(stage):
            return "all rows in every bucket, each bucket makes a part of the results"
        case keys:
            return "buckets by " + ", ".join(k or "a dropped column" for k in keys)


def _has_all_in_every_bucket(stage: Stage) -> bool:
    keys = [node.operator.partition_keys for node in stage.nodes]
    return any(each is not None and all(names is None for names in each) for each in keys)


def _describe_sharers(stage: Stage) -> str:
    queries = dict.fromkeys(outlet.query for outlet in stage.outlets)
    return f", shared by {', '.join(queries)}" if len(stage.outlets) > 1 else ""


MOST_SHOWN = 1_000
"""Maximum number of characters of one line of EXPLAIN."""


def shorten(line: str) -> str:
    """Truncate a line that is too long to read, and add the number of characters left out.

    Examples
    --------
    >>> shorten("Filter " + " OR ".join(f"price = {i}" for i in range(1000)))[-47:]
    'ce = 70 OR price = 7 … (13,893 characters more)'
    """
    rest = len(line) - MOST_SHOWN
    return line if rest <= 0 else f"{line[:MOST_SHOWN]} … ({rest:,} characters more)"
