"""Plans by hand on both runtimes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from golden.canonical import coalesced, output_rows

from tidegate import Session

BIDS = pa.table({"item": [1, 2, 1, 2, 1], "price": [2.0, 9.0, 4.0, 5.0, 3.0], "at": [0, 3, 4, 12, 13]})
SOLD = pa.table({"item": [2, 1], "at": [12, 14]})


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def session(request):
    settings = {"runtime": "embedded"} if request.param == "embedded" else {"spark": request.getfixturevalue("spark")}
    with Session(**settings, buckets=2) as opened:
        opened.stream("bid", BIDS, time="at")
        opened.stream("sold", SOLD, time="at")
        yield opened


def test_a_plan_by_hand_runs_on_every_runtime(session):
    plan = (
        session.plan.scan("bid")
        .window("10 microseconds")
        .join(session.plan.scan("sold").window("now"), on="bid.item = sold.item")
        .group_by("bid.item")
        .aggregate(n="COUNT(*)", top="MAX(price)")
        .where("top > 3")
        .select("item", "n", "top")
    )
    assert coalesced(output_rows(plan.run(once=True).results().to_batches())) == [(12, 13, (2, 2, 9.0))]
    assert plan.run(once=True).results() == session.sql(plan.sql, once=True).results()
