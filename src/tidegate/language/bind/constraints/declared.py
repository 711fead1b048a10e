"""KEY and the constraints of CREATE STREAM, checked against the columns of their streams."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace

from tidegate.algebra.constraints import Clustered, Constraint, Ordered, Reference
from tidegate.algebra.plan import Validity
from tidegate.catalog.catalog import Catalog, DerivedStream, SourceStream, Stream
from tidegate.catalog.constraints import describe_bare_constraint
from tidegate.errors import QueryError, Span, suggest_name
from tidegate.language.bind.context import BindContext
from tidegate.language.bind.names import is_same_name
from tidegate.language.syntax import (
    AnyConstraint,
    ClusteredClause,
    CreateSource,
    Name,
    OrderedClause,
    ReferenceClause,
)
from tidegate.schema import Field, Schema, Type


def key_of(statement: CreateSource, schema: Schema) -> tuple[str, ...]:
    """Return the columns of KEY, with their declared names."""
    return _column_names(statement.key, statement.name.text, schema)


def constraints_of(statement: CreateSource, schema: Schema) -> tuple[Constraint, ...]:
    """Return the constraints of a stream; the streams that they refer to need not be known yet."""
    _refuse_equal_names(statement.constraints)
    made: list[Constraint] = []
    for clause in statement.constraints:
        constraint = _bind_constraint(clause, statement.name.text, schema)
        if any(_is_same_constraint(constraint, other) for other in made):
            hint = "remove one of them; the shorter WITHIN promises more"
            raise QueryError("Q105", f"{describe_bare_constraint(constraint)} is given twice", clause.span, hint=hint)
        made.append(constraint)
    return tuple(made)


def _bind_constraint(clause: AnyConstraint, stream: str, schema: Schema) -> Constraint:
    match clause:
        case ReferenceClause():
            return _bind_reference(clause, stream, schema)
        case ClusteredClause(columns=columns, within=within):
            return Clustered(_column_names(columns, stream, schema), within)
        case OrderedClause(column=column, within=within):
            found = _find_field(column, stream, schema)
            _refuse_without_order(found, column.span)
            return Ordered(found.name, within)


def _bind_reference(clause: ReferenceClause, stream: str, schema: Schema) -> Reference:
    columns = _column_names(clause.columns, stream, schema)
    _refuse_repeated(clause.other_columns)
    ours, theirs = len(columns), len(clause.other_columns)
    if ours != theirs:
        message = f"{_columns_text(ours)} cannot refer to {_columns_text(theirs)}"
        span = clause.other_columns[0].span.to(clause.other_columns[-1].span)
        hint = f"write as many columns after {clause.other.text} as before REFERENCES"
        raise QueryError("Q124", message, span, hint=hint)
    names = tuple(column.text for column in clause.other_columns)
    return Reference(clause.name.text if clause.name else None, columns, clause.other.text, names, clause.within)


def _columns_text(columns: int) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"


def _column_names(names: Sequence[Name], stream: str, schema: Schema) -> tuple[str, ...]:
    _refuse_repeated(names)
    fields = [_find_field(name, stream, schema) for name in names]
    for name, field in zip(names, fields, strict=True):
        if field.type.parts:
            message = f"keys and constraints take plain values, but column '{field.name}' is {field.type.name}"
            raise QueryError("Q124", message, name.span, hint="remove it, or name a column of another type")
    return tuple(field.name for field in fields)


def _find_field(name: Name, stream: str, schema: Schema) -> Field:
    for field in schema:
        if is_same_name(field.name, name.text):
            return field
    message = f"stream '{stream}' has no column '{name.text}'"
    raise QueryError("Q102", message, name.span, hint=suggest_name(name.text, schema.names))


def _refuse_repeated(names: Iterable[Name]) -> None:
    known: set[str] = set()
    for name in names:
        if name.text.lower() in known:
            raise QueryError("Q105", f"column '{name.text}' is named twice", name.span, hint="remove one of them")
        known.add(name.text.lower())


def _refuse_equal_names(clauses: Iterable[AnyConstraint]) -> None:
    known: set[str] = set()
    for clause in clauses:
        if isinstance(clause, ReferenceClause) and clause.name is not None:
            name = clause.name
            if name.text.lower() in known:
                message = f"there are two constraints '{name.text}'"
                raise QueryError("Q105", message, name.span, hint="rename one of them, or remove its name")
            known.add(name.text.lower())


def _is_same_constraint(one: Constraint, other: Constraint) -> bool:
    in_rows = one.within.rows is None
    return describe_bare_constraint(one).lower() == describe_bare_constraint(other).lower() and in_rows == (
        other.within.rows is None
    )


def _refuse_without_order(field: Field, span: Span) -> None:
    if field.type.is_numeric or field.type in (Type.TIMESTAMP, Type.INTERVAL):
        return
    message = f"ORDERED BY … WITHIN is for numbers and times, but column '{field.name}' is {field.type.name}"
    hint = "for equal values that arrive close together write CLUSTERED BY"
    if field.type is Type.STRING:
        hint = f"as texts, '10' comes before '9': declare {field.name} as a number; {hint}"
    raise QueryError("Q124", message, span, hint=hint)


# ---- other streams


def check_references(made: CreateSource, catalog: Catalog, before: Iterable[CreateSource]) -> None:
    """Check the references of a new stream to known streams, and those of other streams to it.

    `before` are the streams that the text created earlier; their errors are reported at their own position.
    """
    written = {each.name.text.lower(): each for each in before}
    for stream in catalog:
        for constraint in _references(stream):
            is_own = is_same_name(stream.name, made.name.text)
            if not is_own and not is_same_name(constraint.other, made.name.text):
                continue
            clause = _find_clause(made if is_own else written.get(stream.name.lower()), constraint)
            if (other := catalog.find(constraint.other)) is not None:
                _check_reference(stream, constraint, other, clause, made.name.span)


def refuse_unknown_reference(
    made: CreateSource, catalog: Catalog, made_later: Container[str], after: Iterable[CreateSource]
) -> None:
    """Refuse a reference to a stream that neither exists nor is created later; `after` serves the hint."""
    meant = [each.name.text for each in after if not each.is_table]
    for clause in made.constraints:
        if isinstance(clause, ReferenceClause) and not _is_known(clause.other, catalog, made_later):
            raise _unknown_stream(made.name.text, clause.other, catalog, made_later, meant)


def known_constraints(stream: SourceStream, around: BindContext, span: Span) -> tuple[Constraint, ...]:
    """Return the constraints of a stream that is read here, with the catalog's names of other streams and columns."""
    return tuple(
        _resolve_reference(stream, each, around, span) if isinstance(each, Reference) else each
        for each in stream.constraints
    )


def _resolve_reference(stream: SourceStream, reference: Reference, around: BindContext, span: Span) -> Reference:
    other = around.catalog.find(reference.other)
    if other is None:
        raise _unknown_stream(stream.name, Name(reference.other, span), around.catalog, around.made_later)
    _check_reference(stream, reference, other, None, span)
    names = tuple(next(f.name for f in other.schema if is_same_name(f.name, c)) for c in reference.other_columns)
    return replace(reference, other=other.name, other_columns=names)


def referrers(name: str, catalog: Catalog) -> list[str]:
    """Return the streams that refer to this one, except those that it refers to itself.

    Without the exception, streams that refer to each other could never be dropped.
    """
    reached = _reachable_streams(name, catalog)
    return [
        stream.name
        for stream in catalog
        if stream.name.lower() not in reached and any(is_same_name(each.other, name) for each in _references(stream))
    ]


def _reachable_streams(name: str, catalog: Catalog) -> set[str]:
    """Return a stream and all streams that it refers to, directly or through others, in lower case."""
    reached: set[str] = set()
    ahead = {name.lower()}
    while ahead:
        reached |= ahead
        found = (catalog.find(each) for each in ahead)
        ahead = {each.other.lower() for stream in found if stream for each in _references(stream)} - reached
    return reached


def _references(stream: Stream) -> Iterator[Reference]:
    if isinstance(stream, SourceStream):
        yield from (each for each in stream.constraints if isinstance(each, Reference))


def _find_clause(statement: CreateSource | None, reference: Reference) -> ReferenceClause | None:
    """Return the clause of a constraint, if this text contains it."""
    for clause in statement.constraints if statement else ():
        if isinstance(clause, ReferenceClause) and is_same_name(clause.other.text, reference.other):
            columns = tuple(name.text for name in clause.other_columns)
            if clause.within == reference.within and columns == reference.other_columns:
                return clause
    return None


def _check_reference(
    stream: Stream, reference: Reference, other: Stream, clause: ReferenceClause | None, place: Span
) -> None:
    if isinstance(other, DerivedStream) or other.validity is Validity.RELATION:
        message = f"'{stream.name}' cannot refer to '{other.name}', which is {_kind_of(other)}"
        hint = "constraints describe how rows arrive: refer to a stream that reads a source, or remove the constraint"
        raise QueryError("Q124", message, clause.other.span if clause else place, hint=hint)
    for position, (own, theirs) in enumerate(zip(reference.columns, reference.other_columns, strict=True)):
        span = clause.other_columns[position].span if clause else place
        field = _find_field(Name(theirs, span), other.name, other.schema)
        type_ = stream.schema.type_of(own)
        if not _can_be_equal(type_, field.type):
            message = f"column '{own}' is {type_.name}, but '{field.name}' of {other.name} is {field.type.name}"
            hint = "columns must have the same type, or both be numbers: refer to another column"
            raise QueryError("Q124", message, span, hint=hint)


def _kind_of(other: Stream) -> str:
    match other:
        case DerivedStream(is_alert=is_alert):
            return "an alert" if is_alert else "a query"
    return "a table"


def _can_be_equal(one: Type, other: Type) -> bool:
    return one is other or (one.is_numeric and other.is_numeric)


def _is_known(other: Name, catalog: Catalog, made_later: Container[str]) -> bool:
    return catalog.find(other.text) is not None or other.text.lower() in made_later


def _unknown_stream(
    stream: str, other: Name, catalog: Catalog, made_later: Container[str], meant: Iterable[str] = ()
) -> QueryError:
    known = [
        s.name for s in catalog if isinstance(s, SourceStream) and not s.is_table and not is_same_name(s.name, stream)
    ]
    hint = suggest_name(other.text, [*known, *meant]) or "create it before the queries, or remove the constraint"
    if other.text.lower() in made_later:
        hint = f"it is created further below; move it before the first query that reads '{stream}'"
    return QueryError(
        "Q101", f"stream '{stream}' refers to '{other.text}', which does not exist", other.span, hint=hint
    )
