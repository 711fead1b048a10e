"""CREATE STREAM and CREATE TABLE: check the declarations of external sources."""

from __future__ import annotations

from tidegate.algebra.plan import Validity
from tidegate.catalog.catalog import Catalog, DerivedStream, SourceStream
from tidegate.errors import QueryError, suggest_name
from tidegate.language.bind.constraints.declared import constraints_of, key_of
from tidegate.language.bind.domains import domain_of
from tidegate.language.bind.locations import find_location
from tidegate.language.bind.names import find_type, is_same_name
from tidegate.language.syntax import CreateSource, Name
from tidegate.schema import Domain, Field, Schema, Type
from tidegate.time import TimeUnit


def source_stream(statement: CreateSource, catalog: Catalog) -> SourceStream:
    """Return the stream or table that a statement creates."""
    refuse_known(statement.name, catalog)
    schema, unit = _schema(statement), _unit(statement)
    start, end = _time_column(statement, statement.time_column, schema), statement.end_column
    validity = Validity.INTERVAL if end is not None else Validity.INSTANT
    location, arguments, options = find_location(statement)
    return SourceStream(
        statement.name.text,
        schema,
        location,
        start,
        statement.delay,
        options,
        Validity.RELATION if statement.is_table else validity,
        _time_column(statement, end, schema),
        statement.idle_after,
        _domains(statement, schema),
        key_of(statement, schema),
        constraints_of(statement, schema),
        unit,
        statement.stops_at_bad_file,
        arguments,
    )


def refuse_known(name: Name, catalog: Catalog) -> None:
    if (known := catalog.find(name.text)) is not None:
        message = f"{with_article(kind_of(known))} '{name.text}' already exists"
        raise QueryError("Q105", message, name.span, hint="choose another name")


def kind_of(stream: object) -> str:
    """Return the word for the kind of a stream."""
    match stream:
        case SourceStream(validity=Validity.RELATION):
            return "table"
        case DerivedStream(is_alert=True):
            return "alert"
        case DerivedStream(is_view=True):
            return "view"
    return "stream"


def with_article(kind: str) -> str:
    """Return a kind with its indefinite article."""
    return f"an {kind}" if kind.startswith("a") else f"a {kind}"


def _schema(statement: CreateSource) -> Schema:
    fields: list[Field] = []
    for column in statement.columns:
        if any(is_same_name(field.name, column.name.text) for field in fields):
            message = f"there are two columns '{column.name.text}'"
            raise QueryError("Q105", message, column.name.span, hint="rename one of them; names are case-insensitive")
        fields.append(Field(column.name.text, find_type(column.type)))
    return Schema(tuple(fields))


def _domains(statement: CreateSource, schema: Schema) -> tuple[tuple[str, Domain], ...]:
    pairs = zip(statement.columns, schema, strict=True)
    return tuple((f.name, domain) for column, f in pairs if (domain := domain_of(column, f.type)) is not None)


def _time_column(statement: CreateSource, wanted: Name | None, schema: Schema) -> str | None:
    if wanted is None:
        return None
    field = next((f for f in schema if is_same_name(f.name, wanted.text)), None)
    if field is None:
        message = f"stream '{statement.name.text}' has no column '{wanted.text}'"
        raise QueryError("Q102", message, wanted.span, hint=suggest_name(wanted.text, schema.names))
    _check_time_type(field, wanted, statement.unit)
    return field.name


def _check_time_type(field: Field, wanted: Name, unit: Name | None) -> None:
    if field.type is Type.TIMESTAMP and unit is not None:
        hint = f"remove UNIT, or declare '{field.name}' BIGINT if its values are whole numbers"
        raise QueryError("Q109", f"column '{field.name}' is a TIMESTAMP, which has no UNIT", unit.span, hint=hint)
    if field.type in (Type.TIMESTAMP, Type.BIGINT) or (field.type is Type.INT and unit is not None):
        return
    message = f"column '{field.name}' is {field.type.name}, which is not a time"
    raise QueryError("Q109", message, wanted.span, hint=_TIME_HINTS.get(field.type, _TIME_HINT))


_TIME_HINT = "a time is a TIMESTAMP, or a BIGINT of microseconds since 1970"
_TIME_HINTS = {
    Type.INT: "if it is a time, add its unit, for example UNIT SECONDS",
    Type.DOUBLE: "fractions of a second are not exact in a DOUBLE: use whole milliseconds or "
    "microseconds (BIGINT with UNIT), or ISO 8601 (TIMESTAMP)",
}


def _unit(statement: CreateSource) -> TimeUnit | None:
    if statement.unit is None:
        return None
    unit = TimeUnit.from_name(statement.unit.text)
    if unit is None:
        hint = "available: " + ", ".join(each.name for each in TimeUnit)
        raise QueryError("Q110", f"times cannot be counted in '{statement.unit.text}'", statement.unit.span, hint=hint)
    return unit
