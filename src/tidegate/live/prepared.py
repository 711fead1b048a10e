"""What a text asks of a live program: the text is bound and compiled, and not applied yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tidegate.catalog.catalog import AlterQuery, DropQuery, OptimizeQuery, PauseQuery, Program, Query, ResumeQuery
from tidegate.errors import QueryError
from tidegate.language.bind.names import is_same_name
from tidegate.live.plan_choice import advise_new_query, depends_on_rates, propose_plan
from tidegate.live.program import LiveQuery
from tidegate.live.state import CompiledPhase, LiveProgram, compile_live, defined_queries
from tidegate.optimizer.advice import NO_ADVICE, PlanAdvice
from tidegate.optimizer.sharing import SubplanTable

if TYPE_CHECKING:
    from tidegate.runtime.costs.join_statistics import QueryStudy

Study: TypeAlias = "Callable[[str | None], QueryStudy]"
"""Function that returns what a run has shown of a query that runs, or, without a name, of its sources alone."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A text that is bound and compiled, and not applied yet."""

    text: str
    program: Program
    definitions: tuple[Query, ...]
    """Queries that the text defines, by position."""
    compiled: Mapping[int, CompiledPhase]
    """New phases, by number."""
    of_definition: Mapping[int, int]
    """The phase of each definition."""
    of_resumed: Mapping[str, int]
    """The phase of each query that is resumed."""
    of_optimized: Mapping[str, int]
    """The phase of each query that is optimised."""
    advice: Mapping[int, PlanAdvice]
    """What these phases were made with."""
    dropped_streams: frozenset[str]

    @property
    def is_change(self) -> bool:
        commands = (DropQuery, AlterQuery, PauseQuery, ResumeQuery, OptimizeQuery)
        return bool(self.definitions) or any(isinstance(c, commands) for c in self.program.commands)


def prepare(live: LiveProgram, text: str, program: Program, table: SubplanTable, study: Study) -> Prepared:
    """Compile what a bound text adds to a live program. The table knows the new phases, even if this fails.

    `study` says what is known of a query that runs, and of the streams of a new one.
    """
    number = live.version.next_phase
    definitions = defined_queries(program)
    for command in program.commands:
        if isinstance(command, AlterQuery):
            _refuse_other_columns(live, program, command.query)
    compiled: dict[int, CompiledPhase] = {}
    of_definition, of_resumed, of_optimized = dict[int, int](), dict[str, int](), dict[str, int]()
    advice: dict[int, PlanAdvice] = {}
    of_sources: QueryStudy | None = None
    altered = [command.query for command in program.commands if isinstance(command, AlterQuery)]
    for position, query in enumerate(definitions):
        if query not in altered and depends_on_rates(query):
            of_sources = of_sources or study(None)
            advice[number] = advise_new_query(program, query, live, of_sources, table=table, number=number)
        compiled[number] = compile_live(program, query, table, number, advice.get(number, NO_ADVICE))
        of_definition[position] = number
        number += 1
    for name in {c.name: None for c in program.commands if isinstance(c, ResumeQuery)}:
        if (known := find_query(live.version.queries, name)) is not None:
            own = live.bound[known.definition.text]
            compiled[number] = compile_live(own, live.query(known.name), table, number)
            of_resumed[known.name] = number
            number += 1
    for name in {c.name: None for c in program.commands if isinstance(c, OptimizeQuery)}:
        if (known := find_query(live.version.queries, name)) is not None:
            advice[number] = propose_plan(live, known.name, study(known.name), table, number).advice
            own = live.bound[known.definition.text]
            compiled[number] = compile_live(own, live.query(known.name), table, number, advice[number])
            of_optimized[known.name] = number
            number += 1
    before = live.catalog.streams
    gone = frozenset(s.name for key, s in before.items() if program.catalog.streams.get(key) is not s)
    return Prepared(text, program, definitions, compiled, of_definition, of_resumed, of_optimized, advice, gone)


def _refuse_other_columns(live: LiveProgram, program: Program, altered: Query) -> None:
    known = next(q for q in (*program.queries, *live.queries()) if q.name == altered.name)
    if altered.schema != known.schema:
        columns = ", ".join(f"{each.name} {each.type.name}" for each in known.schema)
        message = f"ALTER QUERY cannot change the columns of '{known.name}'"
        hint = f"its readers expect {columns}; or write DROP QUERY {known.name}, then CREATE QUERY"
        raise QueryError("Q318", message, altered.plan.span, hint=hint).with_text(program.text)


def find_query(queries: Iterable[LiveQuery], name: str) -> LiveQuery | None:
    return next((query for query in queries if is_same_name(query.name, name)), None)
