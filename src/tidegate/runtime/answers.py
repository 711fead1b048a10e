"""Plans of a program, and the answers to its commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from tidegate.catalog.answers import answer
from tidegate.catalog.catalog import Catalog, DropQuery, Explain, Program, ShowConstraints, ShowShedding, SourceStream
from tidegate.catalog.constraints import ConstraintFinding
from tidegate.catalog.shedding import SheddingSummary
from tidegate.physical.common.operator import Facts
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.control import OrdersByOperator, constraint_findings
from tidegate.runtime.explain import explain_compiled
from tidegate.runtime.explain_format import ExplainFormat
from tidegate.runtime.port import Progress

Measure = Callable[[Program], Progress]
"""Function that runs a program over all available input, discards its results, and returns the figures."""


def explain_program(program: Program, shown: ExplainFormat = ExplainFormat.TEXT) -> str:
    """Show the plans of a program's queries, the rules that applied, and the stages."""
    return explain_compiled(*compile_queries(program), shown)


def analyze_program(program: Program, measure: Measure) -> str:
    """Run a program, and show its plans with the figures of the run."""
    progress = measure(program)
    plans = explain_compiled(*compile_queries(program), figures=progress.operators)
    return f"{plans}\n\nrun\n  {_describe_run(progress)}"


def _describe_run(progress: Progress) -> str:
    rows = f"{progress.rows_in:,} rows in, {sum(progress.rows_out.values()):,} rows out"
    omitted = f", {progress.omitted_rows:,} omitted" if progress.omitted_rows else ""
    dead = f", {sum(progress.dead.values()):,} dead letters" if progress.dead else ""
    return f"{rows}{omitted}{dead}, at most {progress.peak_state_rows:,} rows of state"


def answer_commands(
    program: Program,
    found: Sequence[ConstraintFinding] = (),
    shed: Sequence[SheddingSummary] = (),
    *,
    measure: Measure,
) -> str:
    """Return the answers to the commands of a program, as text.

    `found` is what runs know about constraints, `shed` what they have shed. EXPLAIN ANALYZE calls `measure`.
    """
    said = []
    for command in program.commands:
        match command:
            case Explain(query=query, analyze=True):
                said.append(analyze_program(replace(program, queries=(query,)), measure))
            case Explain(query=query):
                said.append(explain_program(replace(program, queries=(query,))))
            case DropQuery():
                pass
            case _:
                said.append(answer(command, found, shed))
    return "\n\n".join(said)


def split_commands(program: Program) -> tuple[Program, Program]:
    """Split a program by its commands: those answered before its queries run, and those answered after."""
    late = [c for c in program.commands if isinstance(c, ShowConstraints | ShowShedding) and program.queries]
    early = tuple(c for c in program.commands if c not in late)
    return replace(program, commands=early), replace(program, commands=tuple(late))


def show_constraints(catalog: Catalog, found: Sequence[ConstraintFinding]) -> str:
    """Show the declared constraints of source streams, and what runs know about them."""
    return answer(ShowConstraints(tuple(s for s in catalog if isinstance(s, SourceStream) and not s.is_table)), found)


def findings_of_runs(runs: Iterable[OrdersByOperator]) -> tuple[ConstraintFinding, ...]:
    """Return what runs found about constraints, from the newest orders of their steered operators.

    Examples
    --------
    >>> order = {"found": [{"stream": "b", "constraint": "ordered by id", "history": [9, 4]}]}
    >>> (only,) = findings_of_runs([{"2/0": order}])
    >>> only.constraint, only.history, only.saves, only.rows
    ('ordered by id', '9, 4', '', 0)
    """
    return tuple(_make_finding(row) for orders in runs for row in constraint_findings(orders))


def _make_finding(row: Facts) -> ConstraintFinding:
    known: dict[str, Any] = {f.name: _value_text(row.get(f.name)) for f in fields(ConstraintFinding)}
    return ConstraintFinding(**{**known, **{name: row.get(name) or 0 for name in ("rows", "late", "distance")}})


def _value_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(_value_text, value))
    return str(value)
