"""Sizes that fit into limits, compared with all sizes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.optimizer.quality import SizeBounds
from tidegate.runtime.resources.choose_sizes import Sizes, choose_sizes, size_at, sizes_at

WINDOWS = st.tuples(st.integers(1, 50), st.integers(0, 50)).map(lambda b: SizeBounds(sum(b), b[0], "range"))
CHAINS = st.lists(st.sampled_from([2, 3, 5]), min_size=1, max_size=4)


def chain_of(factors: list[int]) -> SizeBounds:
    sizes = [1]
    for factor in factors:
        sizes.append(sizes[-1] * factor)
    return SizeBounds(1, sizes[-1], "granularity", tuple(sizes))


BOUNDS = st.dictionaries(st.sampled_from("abcd"), WINDOWS | CHAINS.map(chain_of), min_size=1)


def memory_of(sizes: Sizes, bounds: Mapping[str, SizeBounds], rates: Mapping[str, int]) -> float:
    """Memory grows with windows, and falls with granules."""
    return sum(rates[k] * (1000 / size if bounds[k].chain else size) for k, size in sizes.items())


@settings(max_examples=examples(300))
@given(BOUNDS, st.fixed_dictionaries({k: st.integers(1, 9) for k in "abcd"}), st.integers(1, 5000))
def test_sizes_fit_and_no_larger_fraction_of_windows_does(bounds, rates, limit):
    def fits(sizes: Sizes) -> bool:
        return memory_of(sizes, bounds, rates) <= limit

    chosen = choose_sizes(bounds, fits)
    if chosen is None:
        assert not fits(sizes_at(bounds, 0.0))
        return
    assert fits(chosen.sizes)
    assert all(bounds[key].allows(size) for key, size in chosen.sizes.items())
    granules = {key: size for key, size in chosen.sizes.items() if bounds[key].chain}
    windows = {key: each for key, each in bounds.items() if not each.chain}
    for percent in range(101):
        larger = sizes_at(windows, percent / 100)
        if percent / 100 > chosen.fraction and larger != {k: chosen.sizes[k] for k in windows}:
            assert not fits({**larger, **granules})


@settings(max_examples=examples(200))
@given(WINDOWS | CHAINS.map(chain_of), st.floats(0, 1))
def test_a_size_is_the_nearest_allowed_one(bounds, fraction):
    wanted = bounds.worst + fraction * (bounds.best - bounds.worst)
    allowed = bounds.chain or range(bounds.worst, bounds.best + 1)
    assert abs(size_at(bounds, fraction) - wanted) == pytest.approx(min(abs(size - wanted) for size in allowed))


def test_the_best_sizes_are_chosen_where_they_fit():
    bounds = {"w": SizeBounds(60, 30, "range"), "g": chain_of([2, 2])}
    chosen = choose_sizes(bounds, lambda _: True)
    assert chosen is not None
    assert (chosen.fraction, chosen.sizes) == (1.0, {"w": 60, "g": 1})


def test_windows_take_what_granules_leave():
    bounds = {"w": SizeBounds(1000, 0, "range"), "g": chain_of([2, 2])}
    chosen = choose_sizes(bounds, lambda sizes: sizes["w"] <= 437 and sizes["g"] >= 2)
    assert chosen is not None
    assert chosen.sizes == {"w": 437, "g": 2}
