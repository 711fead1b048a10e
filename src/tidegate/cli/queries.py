"""Implementation of the commands that take a file of queries."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypedDict

from tidegate.catalog.catalog import Catalog, Explain, Program, SourceStream
from tidegate.cli.announce import announce
from tidegate.cli.formats import OutputFormat
from tidegate.cli.output import Printer
from tidegate.cli.signals import StopSignals
from tidegate.cli.texts import read_statements
from tidegate.cli.warnings import Warnings
from tidegate.cli.watch import summary, watch
from tidegate.connectors.sinks import SinkFormat
from tidegate.errors import DataError, QueryError
from tidegate.language.bind.program import bind
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.commands import (
    analyze_program,
    explain_program,
    findings_of_runs,
    show_constraints,
    split_commands,
)
from tidegate.runtime.compile import compile_queries, plan_warnings, program_identity
from tidegate.runtime.control import NO_RECORDS, ControlRecords, decode_shown
from tidegate.runtime.explain_format import ExplainFormat
from tidegate.runtime.job import QueryState
from tidegate.runtime.outputs import query_schema
from tidegate.runtime.running_query import RunningQuery
from tidegate.session import Session
from tidegate.time import TimeFormat


class SessionArguments(TypedDict):
    """Arguments of the session in which queries run."""

    runtime: Literal["spark", "embedded"]
    master: str
    buckets: int | None
    strict: bool


@dataclass(frozen=True, slots=True)
class _QueryText:
    """Text of a file, and the folder that its relative paths may refer to."""

    text: str
    base: Path

    def bind_program(self, *, commands_will_do: bool = False) -> Program:
        program = bind(self.text)
        if not program.queries and not (commands_will_do and program.commands):
            raise QueryError("Q302", "there is nothing to run", hint="add a SELECT statement")
        return replace(program, catalog=_with_base(program.catalog, self.base))


def run_queries(
    query: Path,
    where: SessionArguments,
    *,
    checkpoint: str | None,
    out: str | None,
    shown: OutputFormat | None,
    times: TimeFormat,
    once: bool,
    quiet: bool,
) -> int:
    """Run the queries in a file and return the exit code."""
    shown = shown or (OutputFormat.TABLE if out is None else OutputFormat.PARQUET)
    program = _read_text(query).bind_program(commands_will_do=True)
    warnings = Warnings(strict=where["strict"], as_json=shown is OutputFormat.JSONL)
    warnings.show(program.warnings)
    early, late = split_commands(program)
    if early.commands:
        with Session(**_without_spark_unless_needed(where, early)) as session:
            print(session.answer(early))
    if not program.queries:
        return 0
    _check_format(shown, out, program)
    printed = [] if out is not None else [q for q in program.queries if q.into is None]
    schemas = {q.name: query_schema(q, times) for q in printed}
    printer = Printer(shown.value, schemas, at_once=not once)
    with Session(**where) as session, StopSignals(session.kill) as signals:
        running = session.run(
            program,
            once=once,
            checkpoint=checkpoint,
            out=out,
            format=_file_format(shown),
            on_rows=printer.add,
            on_start=None if quiet else announce,
            on_warnings=warnings.show,
            times=times,
        )
        assert running is not None
        signals.running = True
        was_stopped = _wait_for_end(running, printer, warnings, signals, quiet=quiet)
        printer.print_missing_headers()
        progress = running.progress()
        if late.commands:
            print(session.answer(late))
    if not quiet:
        print(summary(progress, out), file=sys.stderr)
    if was_stopped and signals.exit_code:
        return signals.exit_code
    return DataError.exit_code if progress.dead else 0


def explain_queries(query: Path, shown: ExplainFormat) -> str:
    """Show the plans of the queries in a file."""
    return explain_program(_read_text(query).bind_program(), shown)


def analyze_queries(query: Path, where: SessionArguments) -> str:
    """Run the queries in a file, and show their plans with what each operator did."""
    program = _read_text(query).bind_program()
    with Session(**where) as session, StopSignals(session.kill):
        return analyze_program(program, session.measure)


def _without_spark_unless_needed(where: SessionArguments, program: Program) -> SessionArguments:
    """Return the arguments of a session that answers commands: only EXPLAIN ANALYZE runs anything."""
    is_run = any(isinstance(command, Explain) and command.analyze for command in program.commands)
    return where if is_run else SessionArguments(**{**where, "runtime": "embedded"})


def check_queries(query: Path, *, strict: bool = False) -> list[str]:
    """Check the queries in a file and return their names and columns."""
    program, found = _read_text(query).bind_program(), []
    compiled, _ = compile_queries(program)
    Warnings(strict=strict).show((*program.warnings, *plan_warnings(program, compiled)))
    for each in program.queries:
        columns = ", ".join(f"{f.name} {f.type.name}" for f in each.columns)
        found.append(f"{each.name}: {columns}")
    return found


def list_constraints(query: Path, checkpoint: str | None) -> str:
    """Show the constraints of the streams in a file, and what the run of a checkpoint found about them."""
    program = bind(_read_text(query).text)
    runs = [_last_records(checkpoint, program)] if checkpoint is not None else []
    return show_constraints(program.catalog, findings_of_runs(runs))


def _wait_for_end(
    running: RunningQuery, printer: Printer, warnings: Warnings, signals: StopSignals, *, quiet: bool
) -> bool:
    """Wait for the end of the run; return whether a signal stopped it before."""
    try:
        if watch(running, warnings, quiet=quiet, enough=lambda: printer.is_cut_off or signals.received is not None):
            return False
        if signals.received is not None:
            print("stopping after the current step …", file=sys.stderr)
        running.stop()
        return signals.received is not None and running.state is QueryState.STOPPED
    finally:
        printer.close()


def _last_records(checkpoint: str, program: Program) -> ControlRecords:
    """Return what the last control records in the checkpoint of a program show."""
    kept = Checkpoint(checkpoint)
    known = kept.identity()
    if known is None:
        hint = "give the folder or URI that `tidegate run --checkpoint` was given"
        raise DataError("D306", f"there is no checkpoint at {checkpoint}", hint=hint)
    kept.check({**program_identity(program), "buckets": known["buckets"]})
    last = kept.last_record()
    return decode_shown(last.control) if last is not None else NO_RECORDS


def _read_text(query: Path) -> _QueryText:
    base = Path.cwd() if str(query) == "-" else query.absolute().parent
    return _QueryText(read_statements(query), base)


def _with_base(catalog: Catalog, base: Path) -> Catalog:
    for stream in list(catalog):
        if isinstance(stream, SourceStream):
            catalog = catalog.with_stream(replace(stream, options=(*stream.options, ("base", str(base)))))
    return catalog


def _file_format(shown: OutputFormat) -> SinkFormat:
    match shown:
        case OutputFormat.CSV:
            return "csv"
        case OutputFormat.JSONL:
            return "jsonl"
    return "parquet"


def _check_format(shown: OutputFormat, out: str | None, program: Program) -> None:
    into_files = out is not None or all(q.into is not None for q in program.queries)
    if shown is OutputFormat.PARQUET and not into_files:
        raise QueryError("Q304", "parquet cannot be written to standard output", hint="add --out DIR")
    printed = {q.schema.names for q in program.queries if q.into is None}
    if shown is OutputFormat.CSV and out is None and len(printed) > 1:
        message = "queries with different columns cannot share one CSV output"
        hint = "--out DIR writes each query to its own folder, --format jsonl names the query in every line"
        raise QueryError("Q305", message, hint=hint)
    if shown is OutputFormat.TABLE and out is not None:
        raise QueryError("Q304", "a table cannot be written to files", hint="--format csv, jsonl or parquet")
