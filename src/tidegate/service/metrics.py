"""Figures of the run in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Literal

from tidegate.live.answers import QueryStatus
from tidegate.runtime.figures import OperatorPlace, figures_of_operators
from tidegate.runtime.job import Progress, QueryState, system_time
from tidegate.runtime.metadata import phase_rows
from tidegate.runtime.state import StateSize, sizes_of_operators
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECOND = 1_000_000


@value
class Metric:
    """One metric; each sample has the values of the labels, and a number."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: tuple[tuple[tuple[str, ...], float], ...]
    labels: tuple[str, ...] = ()


@value
class Summary:
    """A metric with quantiles, by one label; each sample has its value, the quantiles, the sum and the count."""

    name: str
    help: str
    label: str
    samples: tuple[tuple[str, Mapping[str, float], float, int], ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,)


@value
class ServiceFigures:
    """What is known at one moment: the run, its queries, and the subscribers of the service."""

    state: QueryState
    progress: Progress
    sizes: Mapping[OperatorPlace, StateSize]
    queries: tuple[QueryStatus, ...]
    subscribers: int
    lost_rows: int


def collect_metrics(figures: ServiceFigures, now: int | None = None) -> Iterator[Metric | Summary]:
    """Yield all metrics, also those without a sample yet. `now` is in microseconds since 1970."""
    progress = figures.progress
    now = system_time() if now is None else now
    yield _number("tidegate_up", "gauge", "1 if the run goes on, 0 if it has ended or failed.", _up(figures.state))
    yield _number("tidegate_rows_in_total", "counter", "Rows read from all sources.", progress.rows_in)
    yield _by("query", "tidegate_rows_out_total", "counter", "Result rows by query.", progress.rows_out.copy())
    yield _by("reason", "tidegate_dead_letters_total", "counter", "Dead letters by reason.", progress.dead.copy())
    yield _number("tidegate_state_bytes", "gauge", "Size of the state, without cold rows.", progress.state_bytes)
    yield _number("tidegate_cold_state_bytes", "gauge", "Size of cold state.", progress.cold_bytes)
    yield _number("tidegate_steps_total", "counter", "Steps of this process.", progress.steps)
    last = [each.seconds for each in list(progress.recent_steps.copy())[-1:]]
    yield Metric("tidegate_last_step_seconds", "gauge", "Duration of the last step.", tuple(((), s) for s in last))
    yield _phases(progress)
    yield from _watermarks(progress, now)
    yield from _sources(progress)
    yield from _operators(progress, figures.sizes)
    states = {state: sum(each.state == state for each in figures.queries) for state in ("running", "paused")}
    yield _by("state", "tidegate_queries", "gauge", "Registered queries by state.", states)
    yield _number("tidegate_subscribers", "gauge", "Clients that follow a query.", figures.subscribers)
    lost = "Result rows that slow subscribers lost."
    yield _number("tidegate_subscriber_lost_rows_total", "counter", lost, figures.lost_rows)


def _up(state: QueryState) -> int:
    return int(state is QueryState.RUNNING)


def _watermarks(progress: Progress, now: int) -> Iterator[Metric]:
    known = {s: mark for s, mark in progress.watermarks.copy().items() if BEGINNING < mark < FOREVER}
    at = {stream: mark / _SECOND for stream, mark in known.items()}
    lag = {stream: (now - mark) / _SECOND for stream, mark in known.items()}
    described = "Watermark of a stream, in seconds since 1970."
    yield _by("stream", "tidegate_watermark_timestamp_seconds", "gauge", described, at)
    yield _by("stream", "tidegate_watermark_lag_seconds", "gauge", "Time since the watermark of a stream.", lag)


def _phases(progress: Progress) -> Summary:
    samples = tuple(
        (
            row["phase"],
            {"0.5": row["p50"], "0.99": row["p99"]} if row["last"] is not None else {},
            row["seconds"],
            progress.steps,
        )
        for row in phase_rows(progress)
    )
    return Summary("tidegate_step_phase_seconds", "Time that the phases of a step took.", "phase", samples)


def _sources(progress: Progress) -> Iterator[Metric]:
    now, known = monotonic(), progress.sources.copy()
    rows = {stream: each.rows for stream, each in known.items()}
    yield _by("stream", "tidegate_source_rows_total", "counter", "Rows read from a source.", rows)
    rates = {stream: each.rows_per_second(now) for stream, each in known.items()}
    yield _by("stream", "tidegate_source_rows_per_second", "gauge", "Smoothed rate of a source.", rates)


def _operators(progress: Progress, sizes: Mapping[OperatorPlace, StateSize]) -> Iterator[Metric]:
    found = figures_of_operators(progress.operators.copy())
    figures = {f"{stage}/{operator}": each for (stage, operator), each in found.items()}
    states = {f"{stage}/{operator}": size for (stage, operator), size in sizes_of_operators(sizes).items()}
    in_bytes = {key: size.bytes for key, size in states.items()}
    yield _by("operator", "tidegate_operator_state_bytes", "gauge", "Size of an operator's state.", in_bytes)
    in_rows = {key: size.rows for key, size in states.items()}
    yield _by("operator", "tidegate_operator_state_rows", "gauge", "Rows of an operator's state.", in_rows)
    for field, name, described in (
        ("rows_in", "tidegate_operator_rows_in_total", "Elements that an operator got."),
        ("rows_out", "tidegate_operator_rows_out_total", "Elements that an operator emitted."),
        ("omitted", "tidegate_operator_omitted_rows_total", "Elements that cannot change whether an alarm is raised."),
        ("seconds", "tidegate_operator_seconds_total", "Time that an operator took."),
    ):
        samples = {key: getattr(each, field) for key, each in figures.items()}
        yield _by("operator", name, "counter", described, samples)


def _number(name: str, kind: Literal["counter", "gauge"], described: str, number: float) -> Metric:
    return Metric(name, kind, described, (((), number),))


def _by(
    label: str, name: str, kind: Literal["counter", "gauge"], described: str, samples: Mapping[str, float]
) -> Metric:
    return Metric(name, kind, described, tuple(((key,), number) for key, number in samples.items()), (label,))


def format_metrics(metrics: Iterable[Metric | Summary]) -> str:
    r"""Format metrics as Prometheus reads them.

    Examples
    --------
    >>> print(format_metrics([Metric("rows", "counter", "Rows.", ((('a"b',), 3),), ("query",))]), end="")
    # HELP rows Rows.
    # TYPE rows counter
    rows{query="a\"b"} 3
    """
    return "".join(
        f"{line}\n"
        for metric in metrics
        for line in (_summary_lines(metric) if isinstance(metric, Summary) else _lines(metric))
    )


def _summary_lines(summary: Summary) -> Iterator[str]:
    yield f"# HELP {summary.name} {summary.help}"
    yield f"# TYPE {summary.name} summary"
    for text, quantiles, total, count in summary.samples:
        for quantile, number in quantiles.items():
            labels = _label_text((summary.label, "quantile"), (text, quantile))
            yield f"{summary.name}{labels} {number!r}"
        labels = _label_text(summary.labels, (text,))
        yield f"{summary.name}_sum{labels} {total!r}"
        yield f"{summary.name}_count{labels} {count!r}"


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for texts, number in metric.samples:
        yield f"{metric.name}{_label_text(metric.labels, texts)} {number!r}"


def _label_text(labels: Sequence[str], texts: Sequence[str]) -> str:
    if not labels:
        return ""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for text in texts)
    return "{" + ",".join(f'{label}="{text}"' for label, text in zip(labels, escaped, strict=True)) + "}"
