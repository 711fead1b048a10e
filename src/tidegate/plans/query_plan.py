"""Plans that are put together operator by operator."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Literal, Protocol, get_args

from tidegate.algebra.explain import explain
from tidegate.catalog.catalog import Program
from tidegate.errors import TidegateError, deep_recursion
from tidegate.plans.clauses import Clauses, FromTable, SelectClauses
from tidegate.plans.fragments import refuse, write_name, write_query
from tidegate.plans.operators import PlanOperators
from tidegate.plans.text import Text, errors_in_fragments, in_parentheses, warning_in_fragment, write_text
from tidegate.runtime.commands import analyze_program, explain_program
from tidegate.runtime.job import OnRows, Progress
from tidegate.runtime.running_query import RunningQuery
from tidegate.time import TimeFormat
from tidegate.values import value

Emit = Literal["early", "changes"]


class PlanSession(Protocol):
    """What plans need of a session."""

    def bind(self, text: str) -> Program: ...

    def measure(self, program: Program) -> Progress: ...

    def sql(self, text: str) -> RunningQuery | None: ...

    def run(
        self,
        program: Program,
        *,
        once: bool,
        checkpoint: str | None,
        out: str | None,
        format: Literal["csv", "jsonl", "parquet"],  # noqa: A002 - the word of the command line
        on_rows: OnRows | None,
        times: TimeFormat,
    ) -> RunningQuery | None: ...


class PlanStart:
    """The beginnings of plans: see `Session.plan`."""

    def __init__(self, session: PlanSession) -> None:
        self._session = session

    def scan(self, name: str) -> QueryPlan:
        """Return the rows of a stream, a table or a derived stream."""
        return QueryPlan(self._session, SelectClauses(FromTable(write_name(name), name=write_name(name))))

    def query(self, text: str) -> QueryPlan:
        """Return the rows of a query in SQL, to continue from it."""
        return QueryPlan(self._session, SelectClauses(FromTable(in_parentheses(write_query(text)))))

    def __repr__(self) -> str:
        return "<plans by hand: .scan(name) or .query(text)>"


@value
class QueryPlan(PlanOperators):
    """A plan: operators over streams. Each method returns another plan and leaves this one as it is.

    Expressions are SQL. A plan means what its `sql` means, and a session runs it in the same way.
    """

    session: PlanSession
    query: Clauses

    # ---- what a plan says, and its run

    @property
    def sql(self) -> str:
        """The query in SQL, which means the same."""
        return write_text(self.query.text)

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the result and their types."""
        [query] = self._bind(self.query.text).queries
        return {field.name: field.type.name for field in query.plan.schema}

    def explain(self, *, analyze: bool = False) -> str:
        """Show the plans and the stages; see `Session.explain`."""
        program = self._bind(self.query.text)
        return analyze_program(program, self.session.measure) if analyze else explain_program(program)

    def run(
        self,
        *,
        name: str | None = None,
        emit: Emit | None = None,
        once: bool = False,
        checkpoint: str | None = None,
        out: str | None = None,
        format: Literal["csv", "jsonl", "parquet"] = "parquet",  # noqa: A002 - the word of the command line
        on_rows: OnRows | None = None,
        times: TimeFormat = "iso",
    ) -> RunningQuery:
        """Run the plan in the background and return the running query; the arguments are those of `Session.sql`.

        `emit` says when and how results are reported: ``"early"`` as EMIT EARLY, ``"changes"`` as EMIT CHANGES.
        """
        if emit is not None and emit not in (known := get_args(Emit)):
            raise refuse(f"results cannot be emitted '{emit}'", f"available: {', '.join(known)}")
        before: Text = () if name is None else ("CREATE QUERY ", *write_name(name), " AS ")
        after = "" if emit is None else f"\nEMIT {emit.upper()}"
        text = (*before, *self.query.text, after)
        program = self._bind(text)
        found = tuple(warning_in_fragment(each, text) for each in program.warnings)
        query = self.session.run(
            replace(program, warnings=found),
            once=once,
            checkpoint=checkpoint,
            out=out,
            format=format,
            on_rows=on_rows,
            times=times,
        )
        assert query is not None
        return query

    def create(self, name: str) -> QueryPlan:
        """Register the plan as a derived stream, and return a plan that reads it."""
        text = ("CREATE STREAM ", *write_name(name), " AS ", *self.query.text)
        with errors_in_fragments(text):
            self.session.sql(write_text(text))
        return PlanStart(self.session).scan(name)

    def __repr__(self) -> str:
        columns, plan = self._description()
        return f"<QueryPlan {columns}>\n{plan}"

    def _repr_html_(self) -> str:
        columns, plan = map(html.escape, self._description())
        return f"<p><b>{columns}</b></p><pre>{html.escape(self.sql)}</pre><pre>{plan}</pre>"

    def _description(self) -> tuple[str, str]:
        """Return the columns and the logical plan, or what is wrong with it: notebooks show unfinished plans."""
        try:
            [query] = self._bind(self.query.text).queries
            with deep_recursion():
                plan = explain(query.plan)
        except TidegateError as error:
            return "that cannot run yet", error.render()
        return ", ".join(f"{field.name} {field.type.name}" for field in query.plan.schema), plan

    # ---- making plans

    def continue_with(self, query: Clauses) -> QueryPlan:
        return QueryPlan(self.session, query)

    def refuse_other(self, other: object) -> None:
        if not isinstance(other, QueryPlan):
            hint = "begin with session.plan.scan('…'), and end groups with .aggregate(…)"
            raise refuse(f"{other!r} is not a plan", hint)
        if other.session is not self.session:
            raise refuse("the two plans are of different sessions", "make both from the same session")

    def _bind(self, text: Text) -> Program:
        with errors_in_fragments(text):
            return self.session.bind(write_text(text))
