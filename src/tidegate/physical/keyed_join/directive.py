"""Directive of a keyed join: which constraints the next step uses, and how far it watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.algebra.constraints import Reach
from tidegate.physical.common.control import Directive


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """Greatest distances to watch on an edge: `kept` for all watched keys, `sampled` for a sample of them."""

    kept: int
    sampled: int
    sample: float
    """Share of keys in the sample."""
    keys: float = 1.0
    """Share of keys to watch at all."""


@dataclass(frozen=True, slots=True)
class KeyedJoinDirective(Directive):
    """Constraints and watches of the next step, by name (`monitor.constraint_name`)."""

    within: Mapping[str, Reach] = field(default_factory=dict)
    """Reaches in force. If rows and time are given, both hold. Other constraints are not used."""
    keeps_no: tuple[int, ...] = ()
    """Streams, by position, that remember the keys of elements that can never join."""
    watch: Mapping[str, WatchLimits] = field(default_factory=dict)
    halvings: int = 0
    """How often the sample of keys that shows missing results has been halved."""
