"""Resolve the registrations and terminations of one batch: which are valid, and which subscription each one ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.subscriptions.kernels.model import CompletedSubscriptions

NEVER = 2**62
"""Position of the completing element of a subscription that does not complete."""


class SubscriptionEvents(NamedTuple):
    """Registrations and terminations of identities, in the order in which they happen."""

    identity: Ints
    is_end: Mask
    position: Ints
    """Number of elements of the batch before the event."""
    number: Ints
    """For a registration: the number of the subscription."""
    done: Ints
    """For a registration: the element that completes the subscription unless it is terminated before; or NEVER."""
    before: Ints
    """Live subscription with the identity before the batch, or -1; the element `before_done` completes it."""
    before_done: Ints


class EventOutcomes(NamedTuple):
    """Result of the events.

    `refused` marks duplicate registrations and terminations of nothing. `ended` is the subscription that an event
    terminates, or -1.
    """

    refused: Mask
    ended: Ints


def completing_elements(matured: CompletedSubscriptions, numbers: Ints) -> Ints:
    """Return the element that completes each subscription, or NEVER; each completes at most once."""
    order = np.argsort(matured.id)
    place = np.searchsorted(matured.id[order], numbers)
    found = place < len(order)
    found[found] = matured.id[order[place[found]]] == numbers[found]
    element = np.full(len(numbers), NEVER)
    element[found] = matured.element[order[place[found]]]
    return element


def resolve_events(events: SubscriptionEvents) -> EventOutcomes:
    """Resolve the events of each identity in turn."""
    return _resolve_in_order(np.argsort(events.identity, kind="stable"), events)


@compiled
def _resolve_in_order(order: Ints, events: SubscriptionEvents) -> EventOutcomes:
    refused, ended = np.zeros(len(order), np.bool_), np.full(len(order), -1)
    current, done, identity = -1, NEVER, -1
    for each in order:
        if events.identity[each] != identity:
            identity = events.identity[each]
            current, done = events.before[each], events.before_done[each]
        if current >= 0 and done < events.position[each]:
            current = -1
        if events.is_end[each]:
            refused[each], ended[each] = current < 0, current
            current = -1
        elif current >= 0:
            refused[each] = True
        else:
            current, done = events.number[each], events.done[each]
    return EventOutcomes(refused, ended)
