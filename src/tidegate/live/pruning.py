"""Find texts of a live program that are no longer needed: all that they created was dropped again.

The texts of a version are bound in their order when it is recovered. So a text that created a stream is left out only
together with the text that dropped it, and only if no text in between, which is still needed, mentions the stream.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidegate.catalog.catalog import Catalog
from tidegate.live.program import CatalogChange, ProgramText
from tidegate.values import value


def catalog_change(before: Catalog, after: Catalog) -> CatalogChange:
    """Return what a text changes of a catalog."""
    created = tuple(key for key, stream in after.streams.items() if before.streams.get(key) is not stream)
    dropped = tuple(key for key, stream in before.streams.items() if after.streams.get(key) is not stream)
    return CatalogChange(created, dropped, changes_others=_others(before) != _others(after))


def _others(catalog: Catalog) -> tuple[object, ...]:
    """Return all of a catalog but its streams."""
    return catalog.functions, catalog.settings, catalog.shedding, catalog.limits, catalog.quality_columns


@value
class _Lifetime:
    """A stream, from the position of the text that created it to that of the text that dropped it."""

    name: str
    created: int
    dropped: int | None


def unneeded_texts(texts: Sequence[ProgramText], used: Collection[int]) -> frozenset[int]:
    """Return the numbers of the texts that can be left out; `used` are texts with definitions that are needed."""
    out = {at for at, text in enumerate(texts) if text.number not in used and not text.change.changes_others}
    lifetimes = _lifetimes(texts)
    while needed := {at for each in lifetimes for at in _needed_positions(each, texts, out)}:
        out -= needed
    return frozenset(texts[at].number for at in out)


def _lifetimes(texts: Sequence[ProgramText]) -> list[_Lifetime]:
    found: list[_Lifetime] = []
    living: dict[str, int] = {}
    for at, text in enumerate(texts):
        found += [_Lifetime(name, living.pop(name), at) for name in text.change.dropped if name in living]
        living |= dict.fromkeys(text.change.created, at)
    return found + [_Lifetime(name, at, None) for name, at in living.items()]


def _needed_positions(each: _Lifetime, texts: Sequence[ProgramText], out: set[int]) -> set[int]:
    """Return which of the texts to be left out are needed, because of one stream."""
    if each.dropped is None:
        return {each.created} & out
    ends = {each.created, each.dropped}
    between = (texts[at].text.lower() for at in range(each.created + 1, each.dropped) if at not in out)
    is_whole = ends <= out and not any(each.name in text for text in between)
    return set() if is_whole else ends & out
