"""Samples: estimates from them are right as often as their intervals promise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tidegate
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.sizes import SizeHistory
from tidegate.physical.shedding.kernels.sampling import choose_sample
from tidegate.physical.shedding.sample import SampleOperator
from tidegate.schema import Schema, Type

GROUPS, ROWS = 300, 200


@pytest.fixture(scope="module")
def orders() -> pa.Table:
    """Rows of many groups, with values from a skewed distribution."""
    random = np.random.default_rng(19)
    groups = np.repeat(np.arange(GROUPS), ROWS)
    amounts = np.round(random.gamma(2.0, 10.0, len(groups)), 3)
    order = random.permutation(len(groups))
    times = np.arange(len(groups))
    return pa.table({"at": times, "g": groups[order], "amount": amounts[order]})


@pytest.fixture(scope="module")
def answers(orders) -> dict[str, np.ndarray]:
    with tidegate.Session(runtime="embedded") as session:
        session.stream("orders", orders, time="at")
        query = session.sql("""
            SELECT g, COUNT(*) AS n, SUM(amount) AS total, AVG(amount) AS mean
            FROM orders WINDOW(RANGE 1 MINUTE) GROUP BY g WITH (shedding = sample, sample = 0.2)
        """)
        rows = query.finish().sort_by([("g", "ascending"), ("valid_from", "ascending")]).to_pandas()
    end = pd.Timestamp(60_000, unit="us", tz="UTC")
    at_end = rows[(rows.valid_from <= end) & (rows.valid_to > end)]
    return {name: at_end[name].to_numpy() for name in at_end.columns}


@pytest.mark.parametrize("name", ["n", "total", "mean"])
def test_intervals_hold_for_about_95_percent_of_groups(orders, answers, name):
    exact = orders.to_pandas().groupby("g").amount.agg(n="count", total="sum", mean="mean")[name].to_numpy()
    assert len(answers["g"]) == GROUPS
    low, high = answers[f"{name}_low"], answers[f"{name}_high"]
    covered = ((low <= exact) & (exact <= high)).mean()
    assert 0.90 <= covered <= 0.99
    assert abs((answers[name] / exact).mean() - 1) < 0.02
    assert ((low < answers[name]) & (answers[name] < high)).all()


def test_the_number_of_rows_kept_is_as_likely_as_said():
    starts = np.arange(100_000, dtype=np.int64)
    for rate in (1_000, 100_000, 500_000):
        p = rate / 1e6
        kept = choose_sample([pa.array(starts % 7)], starts, rate).sum()
        assert abs(kept - p * len(starts)) < 4 * np.sqrt(p * (1 - p) * len(starts))


def test_the_choice_never_changes():
    """A replay on another machine, or in a later version, keeps the same rows."""
    kept = choose_sample([pa.array(["a", "b", "c"] * 8)], np.arange(24), 250_000)
    assert np.flatnonzero(kept).tolist() == [4, 7, 9, 15, 16, 17, 20]


def test_a_row_has_the_rate_in_force_at_its_start():
    schema = Schema.of(a=Type.BIGINT)
    operator = SampleOperator(schema, "s", "weight", None, "key")
    starts = np.arange(2000)
    batch = Batch(starts, starts + 1, pa.record_batch({"a": starts}))
    history = SizeHistory.of(100_000).changed(1000, 1_000_000)
    kept = operator.with_sizes(history).step({}, [batch], [5]).output
    assert len(operator.step({}, [batch], [5]).output) == 2000
    assert (kept.start >= 1000).sum() == 1000
    assert 50 < (kept.start < 1000).sum() < 150
    assert set(zip((kept.start < 1000).tolist(), kept.column("weight").to_pylist(), strict=True)) == {
        (True, 10.0),
        (False, 1.0),
    }
