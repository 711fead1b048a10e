"""What users write in calls: each fragment is parsed by itself, so that it cannot be more than it should be."""

from __future__ import annotations

from functools import lru_cache

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.parse.parser import parse
from tidegate.plans.text import SqlFragment, Text

ARGUMENT = "Q330"
"""The code of errors about arguments of operators."""


def refuse(message: str, hint: str) -> QueryError:
    return QueryError(ARGUMENT, message, hint=hint)


def write_name(name: str) -> Text:
    """Return a name, in quotes if SQL needs them."""
    _check_text(name)
    if _is_plain_name(name):
        return (SqlFragment(name),)
    if not name or "\n" in name:
        raise refuse(f"{name!r} cannot be a name", "names have at least one character, and no line break")
    return ('"', SqlFragment(name.replace('"', '""')), '"')


@lru_cache(maxsize=1000)
def _is_plain_name(name: str) -> bool:
    """Return whether SQL reads a text as this name, wherever a name may be."""
    try:
        query = _query_of(f"SELECT {name}.{name}, 1 {name} FROM {name} {name}, {name} AS {name}")  # noqa: S608
    except QueryError:
        return False
    found = query.sources[-1] if isinstance(query, syntax.Select) and len(query.sources) == 2 else None
    return isinstance(found, syntax.StreamReference) and found.name.text == name and found.window is None


def write_expression(text: str) -> Text:
    """Return an expression."""
    _check_text(text)
    match _parse_fragment("SELECT * FROM x WHERE ", text):
        case syntax.Select(sources=(_,), where=where, group_by=(), having=None, utility=None) if where is not None:
            _parse_fragment("SELECT * FROM x WHERE (", text, "\n)")  # it goes into parentheses
            return (SqlFragment(text),)
    raise _not_one("expression", text)


def write_item(text: str) -> Text:
    """Return an item of SELECT: an expression with or without a name, or a star."""
    _check_text(text)
    before, after = "SELECT ", "\nFROM x"
    match _parse_fragment(before, text, after):
        case syntax.ChangesOf(function=function):
            raise refuse(f"{function.upper()} is not an expression", f"call .{function}() on the plan")
        case syntax.Select(items=(_,), sources=(_,), where=None, group_by=(), having=None, distinct=distinct) as select:
            if distinct:
                raise refuse("DISTINCT is not part of an expression", "call .distinct() on the plan")
            if _ends_with(select, before, text, after):
                return (SqlFragment(text),)
    raise _not_one("expression", text)


def write_named(name: str, text: str) -> Text:
    """Return an expression with the name that its column gets."""
    return (*write_expression(text), " AS ", *write_name(name))


def write_order(text: str) -> Text:
    """Return what rows are ordered by: an expression, then ASC or DESC, NULLS FIRST or NULLS LAST."""
    _check_text(text)
    match _parse_fragment("SELECT * FROM x ORDER BY ", text, "\nLIMIT 1"):
        case syntax.OrderedQuery(query=syntax.Select(), order=(_,), limit=syntax.LimitClause(count=1, keys=())):
            return (SqlFragment(text),)
    raise _not_one("order", text, "write for example 'price DESC'; several of them as a list")


def write_amount(text: str | int) -> Text:
    """Return a span of time such as '10 minutes'."""
    text = _check_text(text)
    match _parse_fragment("SELECT * FROM x WINDOW(RANGE ", text, "\n)"):
        case syntax.Select(
            sources=(syntax.StreamReference(window=syntax.WindowClause(slide=1, least=None), granularity=None),),
            where=None,
            group_by=(),
            having=None,
            utility=None,
        ) if text.strip().lower() != "unbounded":
            return (SqlFragment(text),)
    raise _not_one("span of time", text, "write for example '10 minutes'")


def write_query(text: str) -> Text:
    """Return a query, as SQL has it."""
    _check_text(text)
    match parse(text):
        case (syntax.QueryStatement(query=query),) if not isinstance(query, syntax.QueryWithOptions):
            _parse_fragment("SELECT * FROM (", text, "\n)")
            return (SqlFragment(text),)
    raise QueryError(ARGUMENT, "this is not a query", Span(0, len(text)), text=text, hint="write SELECT …")


def _parse_fragment(before: str, text: str, after: str = "") -> syntax.Query | None:
    """Parse a fragment within a query; errors have their place in the fragment."""
    try:
        return _query_of(f"{before}{text}{after}")
    except QueryError as error:
        start = min(max(error.span.start - len(before), 0), len(text))
        end = min(max(error.span.end - len(before), start), max(len(text), start + 1))
        raise QueryError(error.code, error.message, Span(start, end), text=text, hint=error.hint) from None


def _query_of(text: str) -> syntax.Query | None:
    match parse(text):
        case (syntax.QueryStatement(query=query),):
            return query
    return None


def _ends_with(select: syntax.Select, before: str, text: str, after: str) -> bool:
    """Return whether the source of a query is the one after the fragment, and not in it."""
    return select.sources[0].span.start == len(before) + len(text) + len(after) - 1


def _not_one(what: str, text: str, hint: str = "write one expression for each argument") -> QueryError:
    article = "an" if what[0] in "aeiou" else "a"
    return QueryError(ARGUMENT, f"this is not {article} {what}", Span(0, len(text)), text=text, hint=hint)


def _check_text(text: object) -> str:
    if not isinstance(text, str):
        raise refuse(f"{text!r} is not a text", "write SQL as a text: 'price > 3', '10 minutes'")
    return text
