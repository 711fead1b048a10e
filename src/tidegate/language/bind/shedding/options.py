"""SET shedding and WITH (shedding = …): the work that queries may leave out, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tidegate.algebra.plan import EVERY_ROW
from tidegate.algebra.similarity_join import NO_SHEDDING, Policy, Shedding
from tidegate.errors import QueryError, suggest_name
from tidegate.language.bind.names import is_same_name
from tidegate.language.syntax import Name, QueryOption, QueryOptions
from tidegate.time import LATEST, parse_duration

_MOST = 2**53  # beyond this, numbers of a record are not exact


def with_shedding_setting(shedding: Shedding, name: Name, value: Name) -> Shedding:
    """Return the shedding after a SET of one of the `SETTINGS`."""
    return _with_option(shedding, SETTINGS[name.text.lower()], name, value)


def shedding_of(options: QueryOptions | None, otherwise: Shedding) -> Shedding:
    """Return the shedding of a query with these options; `otherwise`, from SET, gives the rest."""
    given = () if options is None else options.given
    shedding = otherwise if options is None else replace(otherwise, span=options.span)
    seen: set[str] = set()
    for option in given:
        key = option.name.text.lower()
        if key not in _OPTIONS:
            raise _unknown_option(option.name)
        if key in seen:
            raise QueryError("Q105", f"{key} is given twice", option.span, hint="remove one of them")
        seen.add(key)
        shedding = _with_option(shedding, key, option.name, option.value)
    _refuse_options_of_others(given, shedding.policy)
    if shedding.policy is not Policy.OFF:
        return shedding
    for option in given:
        _refuse_idle(option)
    return NO_SHEDDING


def _with_option(shedding: Shedding, option: str, name: Name, value: Name) -> Shedding:
    field, read, wanted = _OPTIONS[option]
    try:
        return replace(shedding, **{field: read(value.text)})
    except (KeyError, ValueError, QueryError):
        message = f"{name.text} cannot be '{value.text}'"
        raise QueryError("Q126", message, value.span, hint=f"write {wanted}") from None


def _unknown_option(name: Name) -> QueryError:
    meant = SETTINGS.get(name.text.lower())
    hint = suggest_name(name.text, _OPTIONS) if meant is None else f"did you mean '{meant}'?"
    return QueryError("Q126", f"a query has no option '{name.text}'", name.span, hint=hint)


def _refuse_options_of_others(given: Sequence[QueryOption], policy: Policy) -> None:
    """Refuse an option that belongs to another policy."""
    for option in given:
        if is_same_name(option.name.text, "sample") and policy not in (Policy.SAMPLE, Policy.OFF):
            hint = "write shedding = sample, or remove the option"
            raise QueryError("Q126", "sample has no effect: this query sheds comparisons", option.span, hint=hint)
        if is_same_name(option.name.text, "budget") and policy is Policy.SAMPLE:
            message = "budget has no effect: a sample makes no comparisons"
            raise QueryError("Q126", message, option.span, hint="write sample = 0.1 for a fixed share of the rows")


def _refuse_idle(option: QueryOption) -> None:
    if not is_same_name(option.name.text, "shedding"):
        message = f"{option.name.text} has no effect while shedding is off"
        policy = "sample" if is_same_name(option.name.text, "sample") else "on"
        hint = (
            f"write WITH (shedding = {policy}, …), or SET shedding = {policy} before all queries; or remove the option"
        )
        raise QueryError("Q126", message, option.span, hint=hint)


# ---- values


def _parse_policy(text: str) -> Policy:
    return Policy(text.lower())


def _parse_delay(text: str) -> int:
    return _require_between(parse_duration(text), 1, LATEST)


def _parse_budget(text: str) -> int | None:
    return None if is_same_name(text, "none") else _require_between(int(text), 0, _MOST)


def _parse_rate(text: str) -> int | None:
    """Return millionths; None for a rate that is decided after each step."""
    return None if is_same_name(text, "auto") else _require_between(round(float(text) * EVERY_ROW), 1, EVERY_ROW)


def _parse_yes_no(text: str) -> bool:
    return {"yes": True, "true": True, "no": False, "false": False}[text.lower()]


def _require_between(number: int, least: int, most: int) -> int:
    if not least <= number <= most:
        raise ValueError
    return number


_OPTIONS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "shedding": ("policy", _parse_policy, "on, off, drop or sample"),
    "target_delay": ("target", _parse_delay, "a length of time in whole units, for example '2 seconds' or '500 ms'"),
    "budget": ("budget", _parse_budget, "a whole number of comparisons, for example 100000, or none"),
    "sample": ("rate", _parse_rate, "a share of the rows, more than 0 and at most 1, for example 0.1, or auto"),
    "approximate": ("approximate", _parse_yes_no, "yes or no"),
}
"""Options by name: the field of `Shedding`, a function that reads its text, and a hint with a valid value."""

SETTINGS = {"shedding": "shedding", "target_delay": "target_delay", "shedding_budget": "budget", "sample": "sample"}
"""The option for each of the settings of a program."""
