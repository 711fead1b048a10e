"""SET: settings of a program for the use of constraints, for shedding, limits on resources, and columns on quality."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from tidegate.algebra.constraints import ConstraintUse, Monitoring
from tidegate.catalog.catalog import Catalog
from tidegate.errors import QueryError, suggest_name
from tidegate.language.bind.limits import LIMITS, with_limit
from tidegate.language.bind.names import is_same_name
from tidegate.language.bind.shedding.options import SETTINGS, with_shedding_setting
from tidegate.language.syntax import Name, SetStatement

_Number = TypeVar("_Number", int, float)

_QUALITY, _SWITCH = "quality_columns", {"on": True, "off": False}
_MODES = ("exact", "lean")
_MOST = 2**53  # beyond this, numbers of a record are not exact


def with_setting(catalog: Catalog, statement: SetStatement) -> Catalog:
    """Return the catalog with the settings after a statement."""
    name, value, mode, settings = statement.name, statement.value, statement.mode, catalog.settings
    if is_same_name(name.text, "constraints"):
        return catalog.with_settings(replace(settings, use=_parse_use(value), exact=_is_exact(mode)))
    if name.text.lower() not in _names():
        raise _unknown_setting(name)
    if mode is not None:
        hint = "write it after SET constraints = declared, or after SET constraints = monitored"
        raise QueryError("Q125", f"{name.text} has no MODE", mode.span, hint=hint)
    if name.text.lower() in SETTINGS:
        shedding = with_shedding_setting(catalog.shedding, name, value)
        limits = replace(catalog.limits, delay=shedding.target) if is_same_name(name.text, "target_delay") else None
        return catalog.with_shedding(shedding).with_limits(limits or catalog.limits)
    if is_same_name(name.text, _QUALITY):
        return catalog.with_quality_columns(shown=_is_on(name, value))
    if name.text.lower() in LIMITS:
        return catalog.with_limits(with_limit(catalog.limits, name, value))
    return catalog.with_settings(replace(settings, monitoring=_with_monitoring(settings.monitoring, name, value)))


def _names() -> tuple[str, ...]:
    return (*_MONITORING, *SETTINGS, *LIMITS, _QUALITY)


def _is_on(name: Name, value: Name) -> bool:
    """Return whether a switch is on."""
    for word, meant in _SWITCH.items():
        if is_same_name(value.text, word):
            return meant
    raise QueryError("Q125", f"{name.text} cannot be '{value.text}'", value.span, hint="write on, or off")


def refuse_after_query(statement: SetStatement) -> None:
    """Refuse a SET after the first query."""
    hint = "a SET applies to all queries of a text: move it before the first one"
    raise QueryError("Q125", "SET must come before the first query", statement.span, hint=hint)


def _parse_use(value: Name) -> ConstraintUse:
    for use in ConstraintUse:
        if is_same_name(value.text, use.value):
            return use
    hint = suggest_name(value.text, [use.value for use in ConstraintUse])
    raise QueryError("Q125", f"constraints cannot be '{value.text}'", value.span, hint=hint)


def _is_exact(mode: Name | None) -> bool:
    if mode is None:
        return True
    if mode.text.lower() not in _MODES:
        hint = suggest_name(mode.text, _MODES)
        raise QueryError("Q125", f"unknown MODE '{mode.text}'", mode.span, hint=hint)
    return is_same_name(mode.text, "exact")


def _unknown_setting(name: Name) -> QueryError:
    hint = suggest_name(name.text, ("constraints", *_names()))
    if name.text.lower().endswith("mode"):
        hint = "write SET constraints = declared MODE lean"
    if is_same_name(name.text, "budget"):
        hint = "did you mean 'shedding_budget'?"
    return QueryError("Q125", f"unknown setting '{name.text}'", name.span, hint=hint)


# ---- monitoring


def _with_monitoring(monitoring: Monitoring, name: Name, value: Name) -> Monitoring:
    field, read, wanted = _MONITORING[name.text.lower()]
    try:
        return replace(monitoring, **{field: read(value.text)})
    except ValueError:
        message = f"{name.text} cannot be '{value.text}'"
        raise QueryError("Q125", message, value.span, hint=f"write {wanted}") from None


def _parse_factor(text: str) -> float:
    return _require_between(float(text), 1.0, math.nextafter(math.inf, 0))


def _parse_share(text: str) -> float:
    return _require_between(float(text), 0.0, 1.0)


def _parse_count(text: str) -> int:
    return _require_between(int(text), 1, _MOST)


def _parse_rows(text: str) -> int | None:
    return None if is_same_name(text, "none") else _require_between(int(text), 0, _MOST)


def _require_between(number: _Number, least: _Number, most: _Number) -> _Number:
    if not least <= number <= most:
        raise ValueError
    return number


_MONITORING: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "monitor_factor": ("factor", _parse_factor, "a number of 1 or more, for example 1.2"),
    "monitor_sample": ("sample", _parse_share, "a share from 0 to 1, for example 0.01"),
    "monitor_events": ("events", _parse_count, "a whole number of 1 or more, for example 50"),
    "monitor_window": ("window", _parse_count, "a whole number of 1 or more, for example 1000"),
    "monitor_threshold": ("threshold", _parse_rows, "a whole number of rows, for example 10000, or none"),
}
"""Settings by name: the field of `Monitoring`, a function that reads its text, and a hint with a valid value."""
