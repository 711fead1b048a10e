"""Reports on shedding: as rows for each step, in the summary of a run, and for SHOW SHEDDING."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tidegate.algebra.similarity_join import Policy
from tidegate.catalog.shedding import SheddingSummary
from tidegate.physical.common.control import ShedRecord, ShedWork
from tidegate.runtime.control import ControlRecords
from tidegate.runtime.sampling import SampledStream

SHEDDING = "shedding"
"""Name of the output with the share of comparisons made in each step. The other outputs are named by query."""

SHEDDING_SCHEMA = pa.schema(
    {
        "step": pa.int64(),
        "query": pa.string(),
        "join": pa.string(),
        "results_share": pa.float64(),
        "utility_share": pa.float64(),
        "compared_share": pa.float64(),
        "found": pa.int64(),
        "comparisons": pa.int64(),
        "of_comparisons": pa.int64(),
        "dropped": pa.int64(),
        "budget": pa.float64(),
        "rate": pa.float64(),
    }
)
"""Schema with one row for each step and each join that may shed or stream that is sampled.

The shares of all results and of their utility are estimates; the share of comparisons is exact. It is usually far
smaller, because the most productive comparisons are made. Only samples have a rate: the share of the rows that are
kept.
"""


def shed_records(records: ControlRecords) -> tuple[ShedRecord, ...]:
    """Return what was shed, in the last step and overall, by each join or alert that may shed."""
    return tuple(shed for record in records.values() for shed in record.shed)


def shedding_step_rows(records: ControlRecords, samples: Iterable[SampledStream] = (), step: int = 0) -> pa.RecordBatch:
    """Return what was shed in the last step as rows."""
    rows = [_step_row(shed) for shed in shed_records(records)]
    rows += [
        {"step": step, "query": each.query, "join": f"sample of {each.stream}", "rate": each.share} for each in samples
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SHEDDING_SCHEMA)


def shedding_of_runs(runs: Iterable[ControlRecords]) -> tuple[SheddingSummary, ...]:
    """Describe what runs have shed, from the newest records of their operators."""
    return tuple(_summarize_shedding(shed) for records in runs for shed in shed_records(records))


def summarize_samples(runs: Iterable[Iterable[SampledStream]]) -> tuple[SheddingSummary, ...]:
    """Describe the samples of runs."""
    return tuple(
        SheddingSummary(
            each.query,
            f"sample of {each.stream}",
            Policy.SAMPLE.value,
            rate=f"{100 * each.share:.3g} %",
            history=each.history_text,
        )
        for samples in runs
        for each in samples
    )


def describe_overall_shedding(records: ControlRecords) -> tuple[str, ...]:
    """Return a line for each join or alert that has shed something since the run began."""
    return tuple(
        f"{shed.query} found {describe_shed_work(shed.overall)}"
        for shed in shed_records(records)
        if shed.overall.compared_share < 1 or shed.overall.dropped
    )


def describe_shed_work(work: ShedWork) -> str:
    """Describe in one line what was found with which work, in one step or overall.

    Examples
    --------
    >>> describe_shed_work(ShedWork(comparisons=5, volume=100, found=28, missed=72.0))
    'about 28 % of all results, with 5 % of all comparisons'
    >>> describe_shed_work(ShedWork(5, 100, 28, 72.0, dropped=1200, worth=40.0, worth_missed=60.0))
    'about 28 % of all results (about 40 % of their utility), with 5 % of all comparisons, 1,200 rows dropped'
    """
    return describe_shares(work.results_share, work.compared_share, work.utility_share, work.dropped)


def describe_shares(results: float, compared: float, utility: float | None, dropped: int) -> str:
    """Describe in one line the shares of results, of their utility and of comparisons, and the rows dropped."""
    worth = "" if utility is None else f" (about {percent(utility)} of their utility)"
    rows = f", {dropped:,} rows dropped" if dropped else ""
    return f"about {percent(results)} of all results{worth}, with {percent(compared)} of all comparisons{rows}"


def percent(share: float | None) -> str:
    """Format a share as a percentage; only a share of 1 or more becomes 100 %, and only 0 becomes 0 %.

    Examples
    --------
    >>> percent(0.2849), percent(0.00123), percent(0.9999), percent(1)
    ('28 %', '0.12 %', '99.9 %', '100 %')
    """
    if share is None:
        return ""
    amount = 100 * share if share >= 1 else min(100 * share, 99.9)
    return f"{amount:.1f} %" if 99 < amount < 100 else f"{amount:.2g} %" if amount < 10 else f"{amount:.0f} %"


def _step_row(shed: ShedRecord) -> dict[str, object]:
    work = shed.in_step
    return {
        "step": shed.step,
        "query": shed.query,
        "join": shed.join,
        "results_share": work.results_share,
        "utility_share": work.utility_share,
        "compared_share": work.compared_share,
        "found": work.found,
        "comparisons": work.comparisons,
        "of_comparisons": work.volume,
        "dropped": work.dropped,
        "budget": shed.budget,
    }


def _summarize_shedding(shed: ShedRecord) -> SheddingSummary:
    now, overall = shed.in_step, shed.overall
    return SheddingSummary(
        query=shed.query,
        join=shed.join,
        policy=shed.policy,
        results_found=_now_and_overall("about ", now.results_share, overall.results_share),
        utility_found=_now_and_overall("about ", now.utility_share, overall.utility_share),
        comparisons_made=_now_and_overall("", now.compared_share, overall.compared_share),
        rows_dropped=f"{overall.dropped:,}",
        budget="" if shed.budget is None else f"{shed.budget:,.0f} comparisons",
        history=", ".join(f"{percent(share)} of comparisons from step {step}" for step, share in shed.history),
    )


def _now_and_overall(about: str, now: float | None, overall: float | None) -> str:
    return "" if now is None else f"{about}{percent(now)} in the last step, {percent(overall)} since the start"
