"""Metadata of a run, as tables: what operators do, how fast sources are, and where steps spend their time.

They are made of figures that a run counts anyway, when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from time import monotonic
from typing import Any, NamedTuple

import pyarrow as pa

from tidegate.catalog.show import align_rows
from tidegate.runtime.explain_names import make_readable, names_in_stage
from tidegate.runtime.explain_stages import explain_stages
from tidegate.runtime.figures import NO_BUCKET, Metadata, OperatorFigures, OperatorPlace, StepPhases
from tidegate.runtime.graph_parts import carry_figures, part_of_query, users_of_operators, users_of_outlets
from tidegate.runtime.job import Job, Progress
from tidegate.runtime.omissions import OMISSION_COLUMNS, omissions_of
from tidegate.runtime.stage import FromStream, Stage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import NO_SIZE, StateSize
from tidegate.schema import Type
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

OPERATOR_COLUMNS = pa.schema(
    {
        "query": pa.string(),
        "stage": pa.int64(),
        "operator": pa.string(),
        "bucket": pa.int64(),
        "rows_in": pa.int64(),
        "rows_out": pa.int64(),
        "omitted": pa.int64(),
        "selectivity": pa.float64(),
        "seconds": pa.float64(),
        "state_rows": pa.int64(),
        "state_bytes": pa.int64(),
        "watermark": Type.TIMESTAMP.arrow,
        "lag": pa.float64(),
    }
)
SOURCE_COLUMNS = pa.schema(
    {
        "source": pa.string(),
        "rows": pa.int64(),
        "rows_per_s": pa.float64(),
        "watermark": Type.TIMESTAMP.arrow,
        "lag": pa.float64(),
    }
)
PHASE_COLUMNS = pa.schema(
    {"phase": pa.string(), "seconds": pa.float64(), "last": pa.float64(), "p50": pa.float64(), "p99": pa.float64()}
)
_SECOND = 1_000_000


@value
class Observed:
    """What a run knows of itself at one moment."""

    progress: Progress
    sizes: Mapping[OperatorPlace, StateSize]
    now: int
    """The time of the clock, in microseconds since 1970."""


def collect_metadata(job: Job, observed: Observed, query: str | None = None) -> Metadata:
    """Return the metadata of a run, or of what one of its queries uses."""
    progress, graph = observed.progress, job.graph
    figures = progress.operators.copy()
    if query is not None:
        graph = part_of_query(job.graph, query)
        figures = carry_figures(figures, job.graph, graph)
    operators = _operator_rows(graph, figures, observed, query)
    return Metadata(
        pa.Table.from_pylist(list(operators), OPERATOR_COLUMNS),
        pa.Table.from_pylist([_source_row(stream, observed) for stream in graph.streams], SOURCE_COLUMNS),
        pa.Table.from_pylist(list(phase_rows(progress)), PHASE_COLUMNS),
        pa.Table.from_pylist([each.row for each in omissions_of(graph, figures)], OMISSION_COLUMNS),
    )


# ---- operators


class _Label(NamedTuple):
    """What the row of an operator says of it in every step."""

    stage: Stage
    number: int
    described: str
    owner: str | None
    """The query that alone uses the operator."""


def _labels_of(graph: StageGraph) -> tuple[_Label, ...]:
    """Return the labels of all operators. To find them takes longer than all else, so a graph keeps them."""
    found: tuple[_Label, ...] | None = graph.memo.get("labels")
    if found is None:
        found = graph.memo["labels"] = tuple(_find_labels(graph))
    return found


def _find_labels(graph: StageGraph) -> Iterator[_Label]:
    users = users_of_outlets(graph)
    for stage in sorted(graph.stages, key=lambda each: (each.level, each.number)):
        names = names_in_stage(graph, stage)
        used_by = users_of_operators(stage, users[stage.number])
        for number, description in enumerate(stage.descriptions):
            owner = next(iter(used_by[number])) if len(used_by[number]) == 1 else None
            yield _Label(stage, number, make_readable(description, names), owner)


def _operator_rows(
    graph: StageGraph, figures: Mapping[OperatorPlace, OperatorFigures], observed: Observed, query: str | None
) -> Iterator[dict[str, Any]]:
    buckets: dict[tuple[int, int], set[int]] = {}
    for place in (*figures, *observed.sizes):
        buckets.setdefault((place.stage, place.operator), set()).add(place.bucket)
    read_marks = {stage.number: _marks_where_read(stage, observed.progress) for stage in graph.stages}
    for stage, number, described, owner in _labels_of(graph):
        for bucket in sorted(buckets.get((stage.number, number), {NO_BUCKET})):
            place = OperatorPlace(stage.number, number, bucket)
            each = figures.get(place, OperatorFigures())
            marks = read_marks[stage.number]
            size = observed.sizes.get(place, NO_SIZE)
            yield {
                "query": query or owner,
                "stage": stage.number,
                "operator": described,
                "bucket": None if bucket == NO_BUCKET else bucket,
                "rows_in": each.rows_in,
                "rows_out": each.rows_out,
                "omitted": each.omitted,
                "selectivity": each.rows_out / each.rows_in if each.rows_in else None,
                "seconds": each.seconds,
                "state_rows": size.rows,
                "state_bytes": size.bytes,
                **_mark_columns(marks[number] if marks else each.watermark, observed.now),
            }


def _marks_where_read(stage: Stage, progress: Progress) -> list[int]:
    """Return the output watermark of each operator of a stage that reads a stream; of other stages, nothing.

    Such a stage runs where rows are, which may be many places, before the watermark of the step is known.
    """
    feed = stage.feeds[0]
    if not isinstance(feed, FromStream):
        return []
    mark, marks = progress.watermarks.get(feed.stream, BEGINNING), []
    for node in stage.nodes:
        # Not `isinstance`: for a protocol, it takes as long as all else of a row.
        move = getattr(node.operator, "watermark_after", None)
        mark = mark if move is None else move(mark)
        marks.append(mark)
    return marks


def _mark_columns(mark: int, now: int) -> dict[str, Any]:
    known = BEGINNING < mark < FOREVER
    return {"watermark": mark if known else None, "lag": (now - mark) / _SECOND if known else None}


# ---- sources and steps


def _source_row(stream: str, observed: Observed) -> dict[str, Any]:
    figures = observed.progress.sources.get(stream)
    return {
        "source": stream,
        "rows": 0 if figures is None else figures.rows,
        "rows_per_s": 0.0 if figures is None else figures.rows_per_second(monotonic()),
        **_mark_columns(observed.progress.watermarks.get(stream, BEGINNING), observed.now),
    }


def phase_rows(progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield the seconds of each phase: the sum of all steps, the last step, the median and the 99th percentile."""
    recent = list(progress.recent_steps.copy())
    for phase in StepPhases._fields:
        seconds = [getattr(step.phases, phase) for step in recent]
        yield {
            "phase": phase,
            "seconds": getattr(progress.phases, phase),
            "last": seconds[-1] if seconds else None,
            "p50": _quantile(seconds, 0.5),
            "p99": _quantile(seconds, 0.99),
        }


def _quantile(numbers: Sequence[float], part: float) -> float | None:
    """Return the smallest number that is not exceeded by this part of the numbers."""
    ordered = sorted(numbers)
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)] if ordered else None


# ---- text


def describe_metadata(metadata: Sequence[Metadata]) -> str:
    """Return the tables of operators, and of what alerts omitted, as text with aligned columns."""
    tables = (pa.concat_tables(getattr(each, name) for each in metadata) for name in ("operators", "omissions"))
    shown = [_table_text(table) for table in tables if table.num_rows] if metadata else []
    return "\n\n".join(shown) if shown else "no query runs"


def _table_text(table: pa.Table) -> str:
    rows = [tuple(map(_cell_text, row.values())) for row in table.to_pylist()]
    return "\n".join(align_rows([tuple(table.column_names), *rows]))


def _cell_text(cell: object) -> str:
    match cell:
        case None:
            return ""
        case float():
            return f"{cell:.6f}".rstrip("0").rstrip(".")
        case datetime():
            return cell.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case _:
            return str(cell)


def explain_running(job: Job, observed: Observed, query: str) -> str:
    """Show the stages of a query that runs, with figures, and the sources and steps of the run."""
    part = part_of_query(job.graph, query)
    figures = carry_figures(observed.progress.operators.copy(), job.graph, part)
    stages = explain_stages(part, figures, observed.sizes)
    run = _describe_run(collect_metadata(job, observed, query))
    run += [each.describe() for each in omissions_of(part, figures)]
    return "\n".join([f"query {query}", "", stages, "", "run", *(f"  {line}" for line in run)])


def _describe_run(metadata: Metadata) -> list[str]:
    return [*map(_describe_source, metadata.sources.to_pylist()), _describe_phases(metadata.phases.to_pylist())]


def _describe_source(row: Mapping[str, Any]) -> str:
    lag = "" if row["lag"] is None else f", lag {row['lag']:,.1f} s"
    return f"{row['source']}: {row['rows']:,} rows, {row['rows_per_s']:,.0f} rows/s{lag}"


def _describe_phases(rows: Iterable[Mapping[str, Any]]) -> str:
    shown = (f"{row['phase']} {(row['p50'] or 0.0) * 1000:.1f} ms" for row in rows)
    return f"median step: {', '.join(shown)}"
