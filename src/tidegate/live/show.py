"""Answers to SHOW, DESCRIBE and EXPLAIN in a live session, as tables."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tidegate.catalog.catalog import Command, Explain, ExplainRunning, Program, Query, ShowMetadata, ShowQueries
from tidegate.live.answers import Answer
from tidegate.live.exactness import operators_with_state
from tidegate.live.state import LiveProgram, compile_live
from tidegate.optimizer.sharing import SubplanTable
from tidegate.runtime.commands import answer_commands, explain_program_cost, findings_of_runs
from tidegate.runtime.job import JobRun, Progress
from tidegate.runtime.shedding import shedding_of_runs, summarize_samples
from tidegate.schema import Type
from tidegate.session import Session
from tidegate.time import EARLIEST


def answer_command(command: Command, live: LiveProgram, program: Program, table: SubplanTable, run: JobRun) -> Answer:
    """Answer SHOW, DESCRIBE or EXPLAIN."""
    match command:
        case ShowQueries():
            return _show_queries(live)
        case ShowMetadata(query=query):
            operators = run.metadata(query).operators
            return Answer(f"{operators.num_rows} rows", table=operators)
        case ExplainRunning(name=name, cost=cost):
            lines = (run.explain_cost(name) if cost else run.explain(name)).splitlines()
            return _text_answer(_with_choices(lines, name, live))
        case Explain(query=query, cost=True):
            lines = explain_program_cost(replace(program, queries=(query,)), [run.progress]).splitlines()
            return _text_answer(_with_sharing(lines, query, live, program, table))
    return _text_answer(_answer_lines(command, live, program, table, run.progress))


def _answer_lines(
    command: Command, live: LiveProgram, program: Program, table: SubplanTable, progress: Progress
) -> list[str]:
    with Session(runtime="embedded") as session:
        text = answer_commands(
            replace(program, commands=(command,)),
            findings_of_runs([progress.control]),
            shedding_of_runs([progress.control]) + summarize_samples([progress.samples]),
            measure=session.measure,
            runs=session.about_runs(),
        )
    lines = text.splitlines()
    if isinstance(command, Explain) and command.views is not None:
        lines[:0] = [*_describe_snapshot(command.views), ""]
    elif isinstance(command, Explain):
        lines = _with_sharing(lines, command.query, live, program, table)
    return lines


def _with_choices(lines: list[str], name: str, live: LiveProgram) -> list[str]:
    """Add what the cost model chose for the plan of a query that runs, if it chose anything that is not usual."""
    phases = [phase for phase in live.running_phases() if phase.query == name]
    why = phases[-1].advice.reasons.values() if phases else ()
    return [*lines, "", "chosen by estimated cost", *(f"  {each}" for each in why)] if why else lines


def _with_sharing(
    lines: list[str], query: Query, live: LiveProgram, program: Program, table: SubplanTable
) -> list[str]:
    return [*lines, "", "live graph", *(f"  {line}" for line in _describe_sharing(query, live, program, table))]


def _text_answer(lines: list[str]) -> Answer:
    return Answer(f"{len(lines)} lines", table=pa.table({"text": pa.array(lines, pa.string())}))


def _show_queries(live: LiveProgram) -> Answer:
    queries = live.version.queries
    instants = [None if q.exact_from <= EARLIEST else q.exact_from for q in queries]
    table = pa.table(
        {
            "name": pa.array([q.name for q in queries], pa.string()),
            "state": pa.array([q.state for q in queries], pa.string()),
            "exact_from": pa.array(instants, Type.TIMESTAMP.arrow),
            "statement": pa.array([" ".join(q.statement.split()) for q in queries], pa.string()),
        }
    )
    return Answer(f"{len(queries)} queries", table=table)


def _describe_snapshot(views: tuple[str, ...]) -> list[str]:
    kept = ", ".join(views)
    read = f"what {kept} keep at their common instant" if views[1:] else f"what {kept} keeps at its instant"
    return ["snapshot query: answered at once, and not registered", f"  reads {read if views else 'tables'}"]


def _describe_sharing(query: Query, live: LiveProgram, program: Program, table: SubplanTable) -> list[str]:
    """Say of each operator with state of a query whether it runs already, and in which stage."""
    number = live.version.next_phase
    try:
        plan = compile_live(program, query, table, number).physical
    finally:
        table.forget([number])
    running = live.running_operators()
    shown = [
        f"{part.operator.describe()}: " + (f"shared, stage {running[part]}" if part in running else "new")
        for part in operators_with_state(plan)
    ]
    return shown or ["no operator keeps state"]
