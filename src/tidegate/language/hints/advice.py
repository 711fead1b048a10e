"""Better hints for errors in texts that use the syntax of another system."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tidegate.errors import QueryError, Span
from tidegate.language.hints.other_systems import CLAUSES, COLUMNS, FUNCTIONS, TYPES, Clause
from tidegate.schema import TYPE_NAMES
from tidegate.time import MICROSECONDS

_DURATION = re.compile(rf"(\d+)\s*'?\s*({'|'.join(MICROSECONDS)})s?\b", re.IGNORECASE)
_PARTITION = re.compile(r"partition\s+by\s+([\w.]+(?:\s*,\s*[\w.]+\b(?!\s*\())*)", re.IGNORECASE)
_ORDER = re.compile(r"order\s+by\s+([\w.]+(?:\s+(?:asc|desc))?)", re.IGNORECASE)
_ROWS = re.compile(r"rows\s+(?:between\s+)?(\d+)\s+preceding", re.IGNORECASE)
_FROM = re.compile(r"\bfrom\s+([^\W\d]\w*)\b(?!\s*\()", re.IGNORECASE)
_GROUP = re.compile(r"\bgroup\s+by\s+(\w+)\b(?!\s*\()", re.IGNORECASE)
_EQUAL = re.compile(r"\b\w+\.(\w+)\s*=\s*\w+\.(\w+)")
_PATH = re.compile(r"'path'\s*=\s*'([^']*)'", re.IGNORECASE)
_LENGTH = re.compile(r"(\w+)\s*\(\s*\d+\s*(,\s*\d+\s*)?\)")
_LATE_WINDOW = re.compile(
    r"\bfrom\s+(?P<source>\w+(?:\s+(?:as\s+)?(?!where|group)\w+)?)\s+(?P<next>where|group\s+by|having|order\s+by)\b[^;]*?"
    r"(?P<words>window)\s*(?P<frame>\((?:range|rows|partition)\b[^()]*\))",
    re.IGNORECASE,
)
REACH = 4_000
"""Number of characters before and after an error to search for a clause."""

_IN_CASE = {"before": str.upper, "unit": str.lower}
"""Groups of patterns that hints show in upper or lower case."""

_ADVICE_BY_CODE = {"Q102": COLUMNS, "Q104": TYPES, "Q107": FUNCTIONS, "Q120": FUNCTIONS}
"""Names of other systems for each kind of unknown name, by the code of its error."""


def advise(error: QueryError, text: str) -> QueryError:
    """Return the error with a better hint if the text uses the syntax of another system.

    Examples
    --------
    >>> advise(QueryError("Q120", "unknown function 'nvl'", Span(7, 10)), "SELECT nvl(a, 0) FROM s").hint
    'write coalesce(a, b)'
    """
    if error.code in _ADVICE_BY_CODE:
        return _advise_on_name(error, text)
    if error.code in ("Q001", "Q002"):
        return (
            _advise_on_late_window(error, text)
            or _advise_on_length(error, text)
            or _advise_on_clause(error, text)
            or error
        )
    return error


def _advise_on_name(error: QueryError, text: str) -> QueryError:
    """Improve an error about a name."""
    word = re.compile(r'"[^"]*"|\w*').match(text, error.span.start)
    written = word[0] if word is not None else ""
    if written.startswith('"') and error.code == "Q102":
        hint = f"texts have single quotes, names have double quotes: write '{written[1:-1]}' for the text"
        return _improve_error(error, hint=hint)
    advice = _ADVICE_BY_CODE[error.code].get(written.lower())
    if advice is None:
        return error
    call = text[error.span.start : _end_of_call(text, error.span.start)]
    return _improve_error(error, hint=_fill_advice(advice, {}, call, text, error.span.start))


def _advise_on_late_window(error: QueryError, text: str) -> QueryError | None:
    """Improve an error about a window after WHERE or GROUP BY."""
    for found in _matches_around(_LATE_WINDOW, error, text):
        if found.start("words") <= error.span.start:
            following = " ".join(found["next"].upper().split())
            hint = f"write FROM {found['source']} WINDOW{found['frame']} {following} …"
            message = "a window must directly follow its stream"
            return _improve_error(error, message=message, span=Span(*found.span("words")), hint=hint)
    return None


def _advise_on_length(error: QueryError, text: str) -> QueryError | None:
    """Improve an error about a type with a length or precision."""
    for found in _matches_around(_LENGTH, error, text):
        if error.code == "Q002":
            name = found[1].lower()
            hint = TYPES.get(name, f"write {found[1]}" if name.upper() in TYPE_NAMES else error.hint)
            return _improve_error(error, hint=hint)
    return None


def _advise_on_clause(error: QueryError, text: str) -> QueryError | None:
    """Improve an error within a clause of another system."""
    for clause in CLAUSES:
        for found in _matches_around(clause.pattern, error, text):
            return _clause_error(error, clause, found, text)
    return None


def _matches_around(pattern: re.Pattern[str], error: QueryError, text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that contain the position of the error."""
    place = error.span.start
    for found in pattern.finditer(text, max(0, place - REACH), place + REACH):
        if found.start() <= place < found.end():
            yield found


def _clause_error(error: QueryError, clause: Clause, found: re.Match[str], text: str) -> QueryError:
    groups = {name: " ".join(part.split()) for name, part in found.groupdict().items() if part is not None}
    groups |= {name: change(groups[name]) for name, change in _IN_CASE.items() if name in groups}
    words = groups.get("words", "")
    message = f"{clause.name.format(words=words.upper())} is not supported"
    place = Span(*found.span("words")) if words else Span(*found.span())
    hint = _fill_advice(clause.advice, groups, found[0], text, found.start())
    return _improve_error(error, message=message, span=place, hint=hint)


def _fill_advice(advice: str, groups: Mapping[str, str], phrase: str, text: str, place: int) -> str:
    """Fill a template of advice with the names and durations of the text."""
    start = max(text.rfind(";", 0, place) + 1, place - REACH)
    statement = text[start : place + REACH].partition(";")[0]
    after = statement[place - start :]
    durations = sorted(_durations(phrase)) or [(0, "10 MINUTES")]
    partition, order = _PARTITION.search(phrase), _ORDER.search(phrase)
    rows = _ROWS.search(phrase)
    size, partitioned = durations[-1][1], f"PARTITION BY {partition[1]} " if partition else ""
    keys = (_PARTITION.search(phrase), _EQUAL.search(after), _GROUP.search(statement))
    stream = _FROM.search(after) or _FROM.search(statement)
    path = _PATH.search(statement)
    known = {
        "stream": stream[1] if stream else "s",
        "key": next((found[1] for found in keys if found), "key"),
        "size": size,
        "slide": durations[0][1],
        "partition": partition[1] if partition else "key",
        "per": f" PER {partition[1]}" if partition else "",
        "order": order[1] if order else "…",
        "by": order[1].split()[0] if order else "at",
        "group": f" … GROUP BY {partition[1]}" if partition else "",
        "frame": f"{partitioned}ROWS {int(rows[1]) + 1}" if rows else f"RANGE {size}",
        "path": path[1] if path else "folder/",
        "columns": "(id)",
    }
    return advice.format(**{**known, **groups})


def _durations(phrase: str) -> list[tuple[int, str]]:
    """Return the durations of a phrase in any spelling: their length, and their spelling here."""
    found = []
    for amount, unit in _DURATION.findall(phrase):
        plural = "" if amount == "1" else "S"
        found.append((int(amount) * MICROSECONDS[unit.lower()], f"{amount} {unit.upper()}{plural}"))
    return found


def _end_of_call(text: str, start: int) -> int:
    """Return the position after the parentheses that open first after a position."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if text[place] == ")" and depth <= 0:
            return place + 1
    return len(text)


def _improve_error(
    error: QueryError, *, message: str = "", span: Span | None = None, hint: str | None = None
) -> QueryError:
    return QueryError(error.code, message or error.message, span or error.span, text=error.text, hint=hint)
