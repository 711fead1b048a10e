"""Windows and granularities of plans, from the arguments of calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.plans.fragments import refuse, write_amount
from tidegate.plans.text import Text, join_texts

Size = str | int
Write = Callable[[Size], Text]

_HINT = "write for example window('10 minutes', slide='1 minute') or window(rows=10, partition_by='item')"


def write_window(
    size: str | None,
    slide: str | int | None,
    rows: int | str | None,
    keys: Sequence[Text],
    least: str | int | None,
) -> Text:
    """Return what is in the parentheses of WINDOW."""
    if (size is None) == (rows is None):
        raise refuse("a window is either by time or of rows", _HINT)
    partition: Text = ("PARTITION BY ", *join_texts(keys), " ") if keys else ()
    if rows is not None:
        return (*partition, "ROWS ", *_write_size(rows, least, _write_count), *_write_slide(slide, _write_count))
    assert size is not None
    if isinstance(size, str) and size.strip().lower() == "now":
        if keys or slide is not None or least is not None:
            raise refuse("the window 'now' takes no other arguments", _HINT)
        return ("NOW",)
    return (*partition, "RANGE ", *_write_size(size, least, write_amount), *_write_slide(slide, write_amount))


def write_granularity(size: str | None, coarsest: str | None, finest: str | None) -> Text:
    """Return what is in the parentheses of GRANULARITY."""
    if size is not None and coarsest is None and finest is None:
        return write_amount(size)
    if size is None and coarsest is not None and finest is not None:
        return ("COARSEST ", *write_amount(coarsest), ", FINEST ", *write_amount(finest))
    hint = "write granularity('1 minute'), or granularity(coarsest='1 hour', finest='1 minute')"
    raise refuse("a granularity has one size, or a coarsest and a finest one", hint)


def _write_size(size: Size, least: Size | None, write: Write) -> Text:
    if isinstance(size, str) and size.strip().lower() == "unbounded":
        if least is not None:
            raise refuse("an unbounded window has no smallest size", "remove `min`")
        return ("UNBOUNDED",)
    return write(size) if least is None else ("MIN ", *write(least), ", MAX ", *write(size))


def _write_slide(slide: Size | None, write: Write) -> Text:
    return () if slide is None else (" SLIDE ", *write(slide))


def _write_count(rows: str | int) -> Text:
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise refuse(f"{rows!r} is not a number of rows", "write a whole number, at least 1")
    return (str(rows),)
