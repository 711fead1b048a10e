"""Random choices that can be repeated: they depend only on numbers that identify the choice."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints, Words
from tidegate.physical.common.kernels.compiled import compiled, inlined

_ALL = 2**64 - 1


def key_of(*numbers: int) -> int:
    """Return a hash of 64 bits of some numbers.

    Examples
    --------
    >>> key_of(1, 2) == key_of(1, 2), key_of(1, 2) == key_of(2, 1)
    (True, False)
    """
    key = 0
    for number in numbers:
        key = ((key ^ number) + 0x9E3779B97F4A7C15) & _ALL
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _ALL
        key ^= key >> 31
    return key


def round_randomly(amount: float, key: int) -> int:
    """Round an amount up or down at random, so that the mean is the amount."""
    chance = (key_of(key, 1) >> 11) * 2.0**-53
    return int(amount + chance)


def choose_rows(rows: Ints, names: Ints, count: int, key: int) -> Ints:
    """Return `count` of the rows, chosen at random by their names, in their order."""
    if count >= len(rows):
        return rows
    if count <= 0:
        return rows[:0]
    numbers = draw_numbers(rows, names, np.uint64(key))
    return rows[np.sort(np.argpartition(numbers, count)[:count])]


@compiled
def draw_numbers(rows: Ints, names: Ints, key: np.uint64) -> Words:
    """Return a random number for each row, by its name."""
    numbers = np.empty(len(rows), np.uint64)
    for n in range(len(rows)):
        numbers[n] = mix_bits(key ^ np.uint64(names[rows[n]]))
    return numbers


@inlined
def mix_bits(key: np.uint64) -> np.uint64:
    key += np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
