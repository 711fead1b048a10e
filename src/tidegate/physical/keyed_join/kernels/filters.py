"""Filters of keys: small arrays that rule out most keys that were not added."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.hashing import mix

KeyFilter = npt.NDArray[np.uint32]

_WORDS = 8
"""Words of 32 bits in a block of a filter. A key sets one bit in each word of its block."""

_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)


def empty_filter(room: int, bits: int) -> KeyFilter:
    """Return an empty blocked Bloom filter with `bits` bits for each of `room` keys."""
    return np.zeros(max(room * bits // (32 * _WORDS), 1) * _WORDS, np.uint32)


def with_keys(words: KeyFilter, keys: Ints) -> KeyFilter:
    """Return the filter with more keys. The given filter does not change."""
    more = words.copy()
    _add_keys(more, keys)
    return more


@compiled
def possible_keys(words: KeyFilter, keys: Ints) -> Ints:
    """Return the keys that may be in a filter."""
    blocks = len(words) // _WORDS
    some = np.empty(len(keys), np.int64)
    count = 0
    for key in keys:
        bits = mix(key)
        block = _block_of_key(bits, blocks)
        missing = np.uint32(0)
        for word in range(_WORDS):
            missing |= ~words[block + word] & (np.uint32(1) << _bit_of_word(bits, word))
            if missing:
                break
        some[count] = key
        count += missing == 0
    return some[:count].copy()


@compiled
def _add_keys(words: KeyFilter, keys: Ints) -> None:
    blocks = len(words) // _WORDS
    for key in keys:
        bits = mix(key)
        block = _block_of_key(bits, blocks)
        for word in range(_WORDS):
            words[block + word] |= np.uint32(1) << _bit_of_word(bits, word)


@inlined
def _block_of_key(bits: np.uint64, blocks: int) -> np.int64:
    """Return the first word of a key's block."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)) * _WORDS


@inlined
def _bit_of_word(bits: np.uint64, word: int) -> np.uint32:
    """Return the bit that a key sets in a word of its block."""
    return np.uint32(np.uint32((bits & np.uint64(0xFFFFFFFF)) * np.uint64(_SALTS[word])) >> np.uint32(27))
