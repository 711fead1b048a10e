"""Plans of a program, and the answers to its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Protocol

from tidegate.catalog.catalog import (
    AlterQuery,
    Catalog,
    DropQuery,
    Explain,
    ExplainRunning,
    OptimizeQuery,
    PauseQuery,
    Program,
    ResumeQuery,
    ShowConstraints,
    ShowMetadata,
    ShowShedding,
    SnapshotQuery,
    SourceStream,
)
from tidegate.catalog.constraints import ConstraintFinding
from tidegate.catalog.shedding import SheddingSummary
from tidegate.catalog.show import answer
from tidegate.runtime.compile import compile_queries, source_stream_of
from tidegate.runtime.control import ControlRecords, constraint_findings
from tidegate.runtime.explain_format import ExplainFormat
from tidegate.runtime.job import Progress

Measure = Callable[[Program], Progress]
"""Function that runs a program over all available input, discards its results, and returns the figures."""


def explain_program(program: Program, shown: ExplainFormat = ExplainFormat.TEXT) -> str:
    """Show the plans of a program's queries, the rules that applied, and the stages."""
    from tidegate.runtime.explain import explain_compiled

    return explain_compiled(*compile_queries(program), shown)


def analyze_program(program: Program, measure: Measure) -> str:
    """Run a program, and show its plans with the figures of the run."""
    from tidegate.runtime.explain import explain_compiled
    from tidegate.runtime.omissions import omissions_of
    from tidegate.runtime.shedding import describe_overall_shedding

    progress = measure(program)
    compiled, graph = compile_queries(program)
    plans = explain_compiled(compiled, graph, figures=progress.operators)
    lines = [*(each.describe() for each in omissions_of(graph, progress.operators)), _describe_run(progress)]
    lines += describe_overall_shedding(progress.control)
    return "\n".join([plans, "", "run", *(f"  {line}" for line in lines)])


def explain_program_cost(program: Program, runs: Iterable[Progress] = ()) -> str:
    """Show the stages of a program's queries with what they are estimated to need, by the rates of sources that run."""
    from tidegate.runtime.costs.explain import explain_cost
    from tidegate.runtime.costs.knowledge import know_streams

    _, graph = compile_queries(program)
    streams = {name: source_stream_of(program.catalog, name) for name in graph.streams}
    # What a query will need once its windows are full.
    return explain_cost(graph, replace(know_streams(streams, runs), elapsed=inf))


def _describe_run(progress: Progress) -> str:
    rows = f"{progress.rows_in:,} rows in, {sum(progress.rows_out.values()):,} rows out"
    omitted = f", {progress.omitted_rows:,} omitted" if progress.omitted_rows else ""
    dead = f", {sum(progress.dead.values()):,} dead letters" if progress.dead else ""
    return f"{rows}{omitted}{dead}, at most {progress.peak_state_rows:,} rows of state"


class AboutRuns(Protocol):
    """What is known of the queries that run."""

    def describe_metadata(self, query: str | None) -> str:
        """Return the answer to SHOW METADATA."""
        ...

    def explain_running(self, query: str) -> str:
        """Return the answer to EXPLAIN ANALYZE QUERY."""
        ...

    def explain_cost(self, query: str) -> str:
        """Return the answer to EXPLAIN COST QUERY."""
        ...

    def progress(self) -> Iterable[Progress]:
        """Return the figures of the runs."""
        ...


def answer_commands(
    program: Program,
    found: Sequence[ConstraintFinding] = (),
    shed: Sequence[SheddingSummary] = (),
    *,
    measure: Measure,
    runs: AboutRuns,
) -> str:
    """Return the answers to the commands of a program, as text.

    `found` is what runs know about constraints, `shed` what they have shed. EXPLAIN ANALYZE calls `measure`.
    """
    answers = []
    for command in program.commands:
        match command:
            case Explain(query=query, cost=True):
                answers.append(explain_program_cost(replace(program, queries=(query,)), runs.progress()))
            case Explain(query=query, analyze=True):
                answers.append(analyze_program(replace(program, queries=(query,)), measure))
            case Explain(query=query):
                answers.append(explain_program(replace(program, queries=(query,))))
            case ExplainRunning(name=name, cost=cost):
                answers.append(runs.explain_cost(name) if cost else runs.explain_running(name))
            case ShowMetadata(query=name):
                answers.append(runs.describe_metadata(name))
            case SnapshotQuery() | DropQuery() | AlterQuery() | PauseQuery() | ResumeQuery() | OptimizeQuery():
                pass
            case _:
                answers.append(answer(command, found, shed))
    return "\n\n".join(answers)


def split_commands(program: Program) -> tuple[Program, Program]:
    """Split a program by its commands: those answered before its queries run, and those answered after."""
    after_run = ShowConstraints | ShowShedding | ShowMetadata | ExplainRunning
    late = [c for c in program.commands if isinstance(c, after_run) and program.queries]
    early = tuple(c for c in program.commands if c not in late)
    return replace(program, commands=early), replace(program, commands=tuple(late))


def show_constraints(catalog: Catalog, found: Sequence[ConstraintFinding]) -> str:
    """Show the declared constraints of source streams, and what runs know about them."""
    return answer(ShowConstraints(tuple(s for s in catalog if isinstance(s, SourceStream) and not s.is_table)), found)


def findings_of_runs(runs: Iterable[ControlRecords]) -> tuple[ConstraintFinding, ...]:
    """Return what runs found about constraints, from the newest records of their steered operators."""
    return tuple(finding for records in runs for finding in constraint_findings(records))
