"""CREATE STREAM and CREATE TABLE: what comes from outside, checked."""

from __future__ import annotations

from tidegate.algebra.plan import Validity
from tidegate.catalog.catalog import Catalog, DerivedStream, SourceStream
from tidegate.errors import QueryError, nearest
from tidegate.language.binder_constraints import constraints_of, key_of
from tidegate.language.binder_domains import domain_of
from tidegate.language.names import find_type, same
from tidegate.language.syntax import CreateSource, Name
from tidegate.schema import Domain, Field, Schema, Type


def source_stream(statement: CreateSource, catalog: Catalog) -> SourceStream:
    """The stream or table that a statement makes."""
    refuse_known(statement.name, catalog)
    schema = _schema(statement)
    start, end = _time_column(statement, statement.time_column, schema), statement.end_column
    validity = Validity.INTERVAL if end is not None else Validity.INSTANT
    return SourceStream(
        statement.name.text,
        schema,
        statement.location,
        start,
        statement.delay,
        statement.options,
        Validity.RELATION if statement.is_table else validity,
        _time_column(statement, end, schema),
        statement.idle_after,
        _domains(statement, schema),
        key_of(statement, schema),
        constraints_of(statement, schema),
    )


def refuse_known(name: Name, catalog: Catalog) -> None:
    if (known := catalog.find(name.text)) is not None:
        message = f"there already is {with_article(kind_of(known))} '{name.text}'"
        raise QueryError("Q105", message, name.span, hint="choose another name")


def kind_of(stream: object) -> str:
    """What people call it."""
    match stream:
        case SourceStream(validity=Validity.RELATION):
            return "table"
        case DerivedStream(is_alert=True):
            return "alert"
    return "stream"


def with_article(kind: str) -> str:
    """What people call one of it."""
    return f"an {kind}" if kind.startswith("a") else f"a {kind}"


def _schema(statement: CreateSource) -> Schema:
    fields: list[Field] = []
    for column in statement.columns:
        if any(same(field.name, column.name.text) for field in fields):
            message = f"there are two columns '{column.name.text}'"
            raise QueryError("Q105", message, column.name.span, hint="rename one of them; case does not count")
        fields.append(Field(column.name.text, find_type(column.type)))
    return Schema(tuple(fields))


def _domains(statement: CreateSource, schema: Schema) -> tuple[tuple[str, Domain], ...]:
    pairs = zip(statement.columns, schema, strict=True)
    return tuple((f.name, domain) for column, f in pairs if (domain := domain_of(column, f.type)) is not None)


def _time_column(statement: CreateSource, wanted: Name | None, schema: Schema) -> str | None:
    if wanted is None:
        return None
    field = next((f for f in schema if same(f.name, wanted.text)), None)
    if field is None:
        message = f"stream '{statement.name.text}' has no column '{wanted.text}'"
        raise QueryError("Q102", message, wanted.span, hint=nearest(wanted.text, schema.names))
    if field.type not in (Type.TIMESTAMP, Type.BIGINT):
        message = f"column '{field.name}' is {field.type.name}, which is no time"
        hint = "a time is a TIMESTAMP, or a BIGINT of microseconds since 1970"
        raise QueryError("Q109", message, wanted.span, hint=hint)
    return field.name
