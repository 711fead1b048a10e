"""Which elements of a MAX or MIN are the greatest or smallest at some instant, by the test of omission for alerts."""

from __future__ import annotations

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.plan import Aggregate, Filter, Map, Plan, Window
from tidegate.algebra.properties import is_chronon
from tidegate.algebra.threshold_alert import Demand, KeepAll

_EXTREMES = ("max", "min")


def extreme_demand(plan: Aggregate) -> Demand | KeepAll:
    """Return which elements an aggregate with only MAX or only MIN of one column does not need.

    If all elements are valid for the same time d, an element between two greater ones whose starts are at most d apart
    is the greatest at no instant: at each instant of its validity, one of the two is valid.
    """
    calls = {(call.function, call.columns) for call in plan.calls if call.user is None}
    if not calls or any(call.function not in _EXTREMES or call.user is not None for call in plan.calls):
        return KeepAll("each element changes the result")
    ((function, (column, *_)), *others) = calls
    if others:
        return KeepAll("an element may be extreme in one column and not in another")
    length = _length_of_validity(plan.source)
    if length is None:
        return KeepAll("its elements are not known to be valid for the same time")
    key_types = [plan.source.schema.type_of(key) for key in plan.keys]
    if not plan.source.schema.type_of(column).is_numeric or any(type_.is_floating for type_ in key_types):
        return KeepAll("omission compares numbers, of groups whose keys are not floating-point numbers")
    is_greatest = function == "max"
    which = "greatest" if is_greatest else "smallest"
    return Demand(
        column,
        length,
        strict=False,
        above=is_greatest,
        below=not is_greatest,
        keeps_copies=True,
        why=f"they are the {which} at no instant",
    )


def _length_of_validity(plan: Plan) -> int | None:
    """Return for how long all elements are valid, if that is known."""
    match plan:
        case Filter(source=source) | Map(source=source):
            return _length_of_validity(source)
        case Window(source=source, size=int(size), slide=slide) if is_chronon(source) and not is_adaptable(plan):
            return size if size % slide == 0 else None
    return None
