"""Bind a text to a program: its streams, the plans of its queries, and its commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.catalog.catalog import (
    Catalog,
    Command,
    DropQuery,
    Explain,
    Program,
    Query,
)
from tidegate.errors import QueryError, TidegateWarning, deep_recursion
from tidegate.expressions.functions.user_registry import using_functions
from tidegate.language import syntax
from tidegate.language.bind.commands import bind_question, drop_from, refuse_unknown_query
from tidegate.language.bind.constraints.declared import check_references, refuse_unknown_reference
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.create import refuse_known, source_stream
from tidegate.language.bind.derived import (
    bind_alert_stream,
    bind_derived,
    idle_early_warning,
    is_known,
    shedding_of_alert,
)
from tidegate.language.bind.names import is_same_name, unique_name
from tidegate.language.bind.queries import make_query, standalone_query, streams_of_query
from tidegate.language.bind.query_changes import LIVE_HINT, bind_query_change, is_change_of
from tidegate.language.bind.settings import refuse_after_query, with_setting
from tidegate.language.bind.shedding.options import shedding_of
from tidegate.language.bind.shedding.statement import (
    early_clause,
)
from tidegate.language.bind.size_columns import with_size_columns
from tidegate.language.bind.views import bind_snapshot, bind_view, is_snapshot
from tidegate.language.parse.parser import parse
from tidegate.language.syntax import (
    AnyAlert,
    CreateAlert,
    CreateDerived,
    CreateQuery,
    CreateSource,
    CreateTotalAlert,
    CreateView,
    Insert,
    Name,
    QueryStatement,
    Statement,
)

EMPTY = Catalog()

_QUERIES = (
    *(QueryStatement, CreateQuery, CreateView, Insert, CreateDerived, CreateAlert, CreateTotalAlert),
    syntax.ExplainStatement,
)


def bind(text: str, catalog: Catalog = EMPTY, running: Iterable[Query] = (), *, live: bool = False) -> Program:
    """Bind and check a text: streams by name, a plan for each query to run, and commands.

    `running` are queries that other texts have started; the streams that they read cannot be dropped. In a `live`
    session they can be altered, paused and resumed.

    Examples
    --------
    >>> program = bind("CREATE STREAM bid (price DOUBLE, ts TIMESTAMP) FROM 'bid.csv' TIMESTAMP BY ts;"
    ...                "SELECT price FROM bid")
    >>> [(query.name, query.plan.schema.names) for query in program.queries]
    [('query_1', ('price',))]
    """
    try:
        statements = parse(text)
        with using_functions(catalog.functions), deep_recursion():
            draft = _Draft(catalog, tuple(running), [_streams_of_statement(each) for each in statements], text, live)
            program = _bind_statements(statements, draft)
            warnings = tuple(warning.with_text(text) for warning in program.warnings)
            return replace(program, warnings=warnings, text=text)
    except QueryError as error:
        from tidegate.language.hints.advice import advise

        raise (error if error.text else advise(error, text)).with_text(text) from None
    except RecursionError:
        raise QueryError("Q003", "this is nested too deeply", text=text) from None


@dataclass(slots=True)
class _Draft:
    """The result of the statements so far."""

    catalog: Catalog
    running: tuple[Query, ...]
    reading: list[frozenset[str]]
    """The streams that each statement of the text reads."""
    text: str
    live: bool
    queries: list[Query] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    warnings: list[TidegateWarning] = field(default_factory=list)


def _bind_statements(statements: Sequence[Statement], draft: _Draft) -> Program:
    for position, statement in enumerate(statements):
        known = len(draft.queries)
        _add_statement(draft, statements, position)
        own = draft.text[statement.span.start : statement.span.end]
        draft.queries[known:] = [replace(query, text=own) for query in draft.queries[known:]]
    return Program(draft.catalog, tuple(draft.queries), tuple(draft.commands), tuple(draft.warnings))


def _add_statement(draft: _Draft, statements: Sequence[Statement], position: int) -> None:
    statement, before, after = statements[position], statements[:position], statements[position + 1 :]
    around = BindContext(
        draft.catalog,
        frozenset(_names_created_by(before)),
        frozenset(_names_created_by(after)),
        warnings=draft.warnings,
    )
    known = (*draft.queries, *draft.running)
    match statement:
        case CreateSource(name=name):
            draft.catalog = draft.catalog.with_stream(source_stream(statement, draft.catalog))
            check_references(statement, draft.catalog, (s for s in before if isinstance(s, CreateSource)))
            if _is_read(name, draft.reading[position + 1 :]):
                later = (s for s in after if isinstance(s, CreateSource))
                refuse_unknown_reference(statement, draft.catalog, around.made_later, later)
        case CreateDerived(name=name):
            stream = bind_derived(statement, around)
            draft.catalog = draft.catalog.with_stream(stream)
            if not _is_read(name, draft.reading[position + 1 :]):
                shedding = shedding_of(None, draft.catalog.shedding)
                query = make_query(stream.name, stream.plan, stream.reads, shedding)
                query = replace(query, early=early_clause(statement.query) is not None)
                has_sizes = draft.catalog.quality_columns
                draft.queries.append(with_size_columns(query, statement.query) if has_sizes else query)
            elif (early := early_clause(statement.query)) is not None:
                draft.warnings.append(idle_early_warning(name, early))
        case CreateAlert(notify=notify) | CreateTotalAlert(notify=notify):
            alert = bind_alert_stream(statement, around, known)
            draft.catalog = draft.catalog.with_stream(alert)
            query = make_query(alert.name, alert.plan, alert.reads, shedding_of_alert(statement, around))
            draft.queries.append(replace(query, is_alert=True, notify=notify))
        case CreateView():
            _add_view(draft, statement, around, known)
        case QueryStatement(query=query) if draft.live and is_snapshot(query, draft.catalog):
            draft.commands.append(bind_snapshot(query, around))
        case QueryStatement(query=query) | Insert(query=query):
            taken = (*_names_created_by(statements), *draft.catalog.streams, *(query.name for query in draft.running))
            name_of = unique_name(f"query_{_query_number(before)}", taken)
            into = statement.path if isinstance(statement, Insert) else None
            draft.queries.append(standalone_query(name_of, query, around, into=into))
        case CreateQuery():
            draft.queries.append(_named_query(statement, draft, around, known))
        case syntax.AlterStatement() | syntax.PauseStatement() | syntax.ResumeStatement() | syntax.OptimizeStatement():
            draft.commands.append(bind_query_change(statement, draft.text, around, known, live=draft.live))
        case syntax.SetStatement():
            draft.catalog = _with_setting(draft.catalog, statement, before)
        case syntax.ExplainStatement():
            draft.commands.append(_explain(statement, draft, around, known))
        case (
            syntax.ShowStatement()
            | syntax.ShowMetadataStatement()
            | syntax.ExplainRunningStatement()
            | syntax.DescribeStatement()
        ):
            draft.commands.append(bind_question(statement, draft.catalog, known))
        case syntax.DropStatement(kind=syntax.ObjectKind.QUERY, name=name):
            _drop_query(draft, name)
        case syntax.DropStatement(kind=kind, name=name):
            _drop_object(draft, kind, name, known)


def _with_setting(catalog: Catalog, statement: syntax.SetStatement, before: Sequence[Statement]) -> Catalog:
    if any(isinstance(each, _QUERIES) for each in before):
        refuse_after_query(statement)
    return with_setting(catalog, statement)


def _drop_object(draft: _Draft, kind: syntax.ObjectKind, name: Name, known: Sequence[Query]) -> None:
    """Drop a stream, table, alert or view, and end the query of an alert or a view."""
    others = [query for query in known if not is_same_name(query.name, name.text)]
    draft.catalog = drop_from(draft.catalog, kind, name, others)
    runs = kind in (syntax.ObjectKind.ALERT, syntax.ObjectKind.VIEW) and is_known(name, draft.running)
    if not _remove_query(draft, name) and runs:
        draft.commands.append(DropQuery(name.text))


def _explain(statement: syntax.ExplainStatement, draft: _Draft, around: BindContext, known: Sequence[Query]) -> Explain:
    query, analyze, cost = statement.query, statement.analyze, statement.cost
    asks_for_run = analyze or cost
    if isinstance(query, AnyAlert) or asks_for_run or not (draft.live and is_snapshot(query, draft.catalog)):
        return Explain(_query_to_explain(query, around, known), analyze, cost)
    snapshot = bind_snapshot(query, around)
    return Explain(snapshot.query, views=snapshot.views)


def _query_to_explain(query: syntax.Query | AnyAlert, around: BindContext, known: Sequence[Query]) -> Query:
    if isinstance(query, AnyAlert):
        alert = bind_alert_stream(query, around, known)
        shedding = shedding_of_alert(query, around)
        return Query(alert.name, alert.plan, None, alert.reads, is_alert=True, shedding=shedding)
    return standalone_query("explained", query, around)


def _drop_query(draft: _Draft, name: Name) -> None:
    refuse_unknown_query(name, draft.catalog, (*draft.queries, *draft.running))
    draft.commands = [each for each in draft.commands if not is_change_of(name, each)]
    if not _remove_query(draft, name):
        draft.commands.append(DropQuery(name.text))
        draft.running = tuple(query for query in draft.running if not is_same_name(query.name, name.text))


def _named_query(statement: CreateQuery, draft: _Draft, around: BindContext, known: Sequence[Query]) -> Query:
    name = statement.name
    refuse_known(name, draft.catalog)
    if is_known(name, known):
        raise QueryError("Q105", f"a query '{name.text}' already exists", name.span, hint="choose another name")
    return standalone_query(name.text, statement.query, around)


def _add_view(draft: _Draft, statement: CreateView, around: BindContext, known: Sequence[Query]) -> None:
    name = statement.name
    if not draft.live:
        message = "CREATE MATERIALIZED VIEW needs a live session: only there can a view be read"
        raise QueryError(
            "Q317", message, name.span, hint=f"{LIVE_HINT}; or write CREATE STREAM {name.text} AS SELECT …"
        )
    refuse_known(name, draft.catalog)
    if is_known(name, known):
        raise QueryError("Q105", f"a query '{name.text}' already exists", name.span, hint="choose another name")
    view, query = bind_view(statement, around)
    draft.catalog = draft.catalog.with_stream(view)
    draft.queries.append(query)


def _remove_query(draft: _Draft, name: Name) -> bool:
    """Remove a query of this text; return whether there was one with the name."""
    others = [query for query in draft.queries if not is_same_name(query.name, name.text)]
    found, draft.queries = len(others) < len(draft.queries), others
    return found


def _query_number(before: Sequence[Statement]) -> int:
    return 1 + sum(1 for statement in before if isinstance(statement, (QueryStatement, Insert)))


def _names_created_by(statements: Sequence[Statement]) -> Iterator[str]:
    """Yield the names of the streams that the statements create, in lower case."""
    for statement in statements:
        if isinstance(statement, (CreateSource, CreateDerived, CreateQuery, CreateView, AnyAlert)):
            yield statement.name.text.lower()


def _is_read(name: Name, later: Sequence[frozenset[str]]) -> bool:
    return any(name.text.lower() in each for each in later)


def _streams_of_statement(statement: Statement) -> frozenset[str]:
    """Return the streams that a statement reads when it runs."""
    match statement:
        case CreateDerived(query=query) | CreateQuery(query=query) | CreateView(query=query):
            return streams_of_query(query)
        case QueryStatement(query=query) | Insert(query=query):
            return streams_of_query(query)
        case CreateAlert() | CreateTotalAlert():
            return streams_of_query(statement)
    return frozenset()
