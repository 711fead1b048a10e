"""Filters of keys: they lose none, and let few pass that they do not have."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.physical.keyed_join.kernels.filters import empty_filter, possible_keys, with_keys


@pytest.mark.parametrize("keys", [0, 1, 7, 1000])
def test_keys_that_are_in_a_filter_pass(keys):
    known = np.random.default_rng(keys).integers(-(2**62), 2**62, keys)
    words = with_keys(empty_filter(keys, 6), known)
    assert possible_keys(words, known).tolist() == known.tolist()


@pytest.mark.parametrize(("bits", "most"), [(6, 0.12), (32, 0.0001)])
@pytest.mark.parametrize("keys", [1_000, 100_000])
def test_of_others_few_pass(bits, most, keys):
    words = with_keys(empty_filter(keys, bits), np.arange(keys))
    assert words.nbytes <= keys * bits / 8 + 64
    assert len(possible_keys(words, np.arange(keys, keys + 100_000))) <= most * 100_000


def test_a_filter_stays_as_it_was_when_keys_are_added():
    words = empty_filter(10, 6)
    assert len(possible_keys(with_keys(words, np.arange(10)), np.arange(10))) == 10
    assert not words.any()
    assert not len(possible_keys(words, np.arange(10)))
