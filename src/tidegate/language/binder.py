"""From text to a program: the streams it makes, and the plans of its queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidegate.algebra.plan import Distinct, Map, Plan, Union
from tidegate.algebra.properties import refuse_unsupported
from tidegate.catalog.catalog import Catalog, DerivedStream, Program, Query, SourceStream
from tidegate.errors import QueryError, Span, nearest
from tidegate.language import syntax
from tidegate.language.binder_query import Surroundings, bind_query
from tidegate.language.names import find_type, same, unique
from tidegate.language.parser import parse
from tidegate.language.syntax import CreateDerived, CreateSource, Insert, Name, QueryStatement, Statement
from tidegate.schema import Field, Schema, Type

EMPTY = Catalog()

_RESERVED = ("valid_from", "valid_to")


def bind(text: str, catalog: Catalog = EMPTY) -> Program:
    """All that a text says, checked: streams by name, and a plan for each query to run.

    Examples
    --------
    >>> program = bind("CREATE STREAM bid (price DOUBLE, ts TIMESTAMP) FROM 'bid.csv' TIMESTAMP BY ts;"
    ...                "SELECT price FROM bid")
    >>> [(query.name, query.plan.schema.names) for query in program.queries]
    [('query_1', ('price',))]
    """
    try:
        return _program(parse(text), catalog)
    except QueryError as error:
        raise error.with_text(text) from None
    except RecursionError:
        raise QueryError("Q003", "this is nested too deeply", text=text) from None


def _program(statements: Sequence[Statement], catalog: Catalog) -> Program:
    queries: list[Query] = []
    for position, statement in enumerate(statements):
        before, after = statements[:position], statements[position + 1 :]
        around = Surroundings(catalog, frozenset(_made(before)), frozenset(_made(after)))
        match statement:
            case CreateSource():
                catalog = catalog.with_stream(_source_stream(statement, catalog))
            case CreateDerived(name=name):
                stream = _derived_stream(statement, around)
                catalog = catalog.with_stream(stream)
                queries += [] if _is_read(name, after) else [_query(stream.name, stream.plan)]
            case QueryStatement(query=query) | Insert(query=query):
                name_of = unique(f"query_{_number(before)}", (*_made(statements), *catalog.streams))
                into = statement.path if isinstance(statement, Insert) else None
                queries.append(_query(name_of, _plan(query, around), into=into))
    return Program(catalog, tuple(queries))


def _plan(query: syntax.Query, around: Surroundings) -> Plan:
    plan = bind_query(query, around)
    refuse_unsupported(plan)
    return plan


# ---- queries


def _query(name: str, plan: Plan, *, into: str | None = None) -> Query:
    for output, span in zip(plan.schema.names, _spans(plan), strict=True):
        if output.lower() in _RESERVED:
            hint = "every row of a result has its own valid_from and valid_to; give the column an alias"
            raise QueryError("Q112", f"a result cannot have a column '{output}'", span, hint=hint)
    return Query(name, plan, into)


def _spans(plan: Plan) -> tuple[Span, ...]:
    """Where the columns of a result were written."""
    match plan:
        case Map(outputs=outputs):
            return tuple(output.expression.span for output in outputs)
        case Distinct(source=source) | Union(inputs=(source, *_)):
            return _spans(source)
    return (plan.span,) * len(plan.schema)


def _number(before: Sequence[Statement]) -> int:
    return 1 + sum(1 for statement in before if isinstance(statement, (QueryStatement, Insert)))


def _made(statements: Sequence[Statement]) -> Iterator[str]:
    """Streams that the statements make, in lower case."""
    for statement in statements:
        if isinstance(statement, (CreateSource, CreateDerived)):
            yield statement.name.text.lower()


def _is_read(name: Name, later: Sequence[Statement]) -> bool:
    queries = (s.query for s in later if not isinstance(s, CreateSource))
    return any(same(read, name.text) for query in queries for read in _reads(query))


def _reads(query: syntax.Query) -> Iterator[str]:
    selects = query.queries if isinstance(query, syntax.UnionAll) else (query,)
    for select in selects:
        yield from _reads_of(select.sources)


def _reads_of(sources: Iterable[syntax.Source]) -> Iterator[str]:
    for source in sources:
        match source:
            case syntax.StreamReference(name=name):
                yield name.text
            case syntax.Subquery(query=query):
                yield from _reads(query)
            case syntax.JoinClause(left=left, right=right):
                yield from _reads_of((left, right))


# ---- streams


def _source_stream(statement: CreateSource, catalog: Catalog) -> SourceStream:
    _refuse_known(statement.name, catalog)
    schema = _schema(statement)
    time = _time_column(statement, schema)
    return SourceStream(statement.name.text, schema, statement.location, time, statement.delay, statement.options)


def _derived_stream(statement: CreateDerived, around: Surroundings) -> DerivedStream:
    _refuse_known(statement.name, around.catalog)
    return DerivedStream(statement.name.text, _plan(statement.query, around))


def _refuse_known(name: Name, catalog: Catalog) -> None:
    if catalog.find(name.text) is not None:
        raise QueryError("Q105", f"there already is a stream '{name.text}'", name.span, hint="choose another name")


def _schema(statement: CreateSource) -> Schema:
    fields: list[Field] = []
    for column in statement.columns:
        if any(same(field.name, column.name.text) for field in fields):
            raise QueryError("Q105", f"there are two columns '{column.name.text}'", column.name.span)
        fields.append(Field(column.name.text, find_type(column.type)))
    return Schema(tuple(fields))


def _time_column(statement: CreateSource, schema: Schema) -> str:
    wanted = statement.time_column
    if wanted is None:
        hint = "say which column holds the time of an element: TIMESTAMP BY column"
        raise QueryError("Q109", f"stream '{statement.name.text}' has no time", statement.name.span, hint=hint)
    field = next((f for f in schema if same(f.name, wanted.text)), None)
    if field is None:
        message = f"stream '{statement.name.text}' has no column '{wanted.text}'"
        raise QueryError("Q102", message, wanted.span, hint=nearest(wanted.text, schema.names))
    if field.type not in (Type.TIMESTAMP, Type.BIGINT):
        message = f"column '{field.name}' is {field.type.name}, which is no time"
        hint = "a time is a TIMESTAMP, or a BIGINT of microseconds since 1970"
        raise QueryError("Q109", message, wanted.span, hint=hint)
    return field.name
