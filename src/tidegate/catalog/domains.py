"""Describe the domains of columns."""

from __future__ import annotations

import math

from tidegate.schema import Domain


def describe_domain(domain: Domain) -> str:
    """Describe the bounds of a domain; the text is empty if it has none.

    Examples
    --------
    >>> describe_domain(Domain(-40, 60))
    'at least -40, at most 60'
    >>> describe_domain(Domain(low=math.nextafter(0.0, 1.0)))
    'more than 0.0'
    """
    ends = []
    if domain.low > -math.inf:
        ends.append(_describe_bound(domain.low, -math.inf, "at least", "more than"))
    if domain.high < math.inf:
        ends.append(_describe_bound(domain.high, math.inf, "at most", "less than"))
    return ", ".join(ends)


def _describe_bound(bound: float, outwards: float, included: str, left_out: str) -> str:
    # An open bound is stored as the next float inside the domain. The declared number has the shorter text: show it.
    beside = math.nextafter(bound, outwards) + 0.0
    is_open = isinstance(bound, float) and len(repr(beside)) < len(repr(bound))
    return f"{left_out} {beside}" if is_open else f"{included} {bound}"
