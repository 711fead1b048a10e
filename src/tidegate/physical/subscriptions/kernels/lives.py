"""Registrations and terminations of one batch: which of them are in order, and who lives from when to when."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.subscriptions.kernels.model import Matured

NEVER = 2**62
"""In place of the element that completes a query."""


class Events(NamedTuple):
    """What happens to identities, in the order in which it happens: something begins, or it ends."""

    identity: Ints
    is_end: Mask
    position: Ints
    """How many elements of the batch come before."""
    number: Ints
    """Of a registration: the query that begins."""
    done: Ints
    """Of a registration: the element that completes the query, unless somebody ends it before; or NEVER."""
    before: Ints
    """The query that had the identity before the batch, or -1; and the element that completes it."""
    before_done: Ints


class Lives(NamedTuple):
    """Events that cannot be: what is registered twice, and ends of nothing; and the query that an event ends, or -1."""

    refused: Mask
    ended: Ints


def completions(matured: Matured, numbers: Ints) -> Ints:
    """The element that completes each of the queries, or NEVER; each is completed once at most."""
    order = np.argsort(matured.id)
    place = np.searchsorted(matured.id[order], numbers)
    found = place < len(order)
    found[found] = matured.id[order[place[found]]] == numbers[found]
    element = np.full(len(numbers), NEVER)
    element[found] = matured.element[order[place[found]]]
    return element


def lives(events: Events) -> Lives:
    """Follow each identity through the events."""
    return _lives(np.argsort(events.identity, kind="stable"), events)


@compiled
def _lives(order: Ints, events: Events) -> Lives:
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
    return Lives(refused, ended)
