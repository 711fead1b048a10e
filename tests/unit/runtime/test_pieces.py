"""Steps that would make too many pairs are done in pieces; what does not fit in memory is a coded error."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter

import numpy as np
import pytest
from strategies.streams import Streams
from support.harness import batch_of, job_of

from tidegate.errors import DataError
from tidegate.language.bind.program import bind
from tidegate.runtime import pieces
from tidegate.runtime.bucket_step import Inbox, Outbox
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.piece_extents import Extent, WaitingElements
from tidegate.runtime.spark.tasks import convert_memory_errors
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

STREAM = "CREATE STREAM bid (price BIGINT, at BIGINT) FROM 'bid' TIMESTAMP BY at;"
ABOVE_AVERAGE = """
SELECT COUNT(*) AS n FROM bid WINDOW(RANGE 50) b WHERE b.price > (SELECT AVG(price) FROM bid WINDOW(RANGE 20) c)
"""
PAIRS = "SELECT b.price, c.price AS other FROM bid WINDOW(RANGE 50) b, bid WINDOW(RANGE 50) c WHERE b.price < c.price"
SCHEMA = Schema.of(price=Type.BIGINT)
MOST = 500


def results(query: str, starts: list[int], watermarks: list[int], most_pairs: int) -> tuple[Counter, list[int]]:
    """At how many instants each row is valid, and the sizes of all outputs."""
    (bound,) = bind(STREAM + query + ";").queries
    engine = Engine(job_of(bound.plan, Streams({"bid": SCHEMA}, {}), buckets=1, most_pairs=most_pairs))
    made: list[Outbox] = []
    engine.on_piece = made.append
    elements = [(start, start + 1, {"price": at * 7919 % 101}) for at, start in enumerate(starts)]
    for watermark in watermarks:
        made.append(engine.advance([("bid", batch_of(SCHEMA, elements))], {"bid": watermark}))
        elements = []
    found: Counter = Counter()
    batches = [batch for out in made for _, batch in out.results]
    for batch in batches:
        lengths = (batch.end - batch.start).tolist()
        for row, length in zip(batch.columns.to_pylist(), lengths, strict=True):
            found[tuple(row.values())] += length
    return found, [sum(len(batch) for _, batch in out.results) for out in made]


CASES = pytest.mark.parametrize(
    "starts",
    [list(range(300)), [7] * 60, [start // 30 * 30 for start in range(300)]],
    ids=["spread", "at_one_instant", "in_crowds"],
)


@CASES
@pytest.mark.parametrize("query", [ABOVE_AVERAGE, PAIRS], ids=["subquery", "pairs"])
@pytest.mark.parametrize("watermarks", [[FOREVER], [0, FOREVER]], ids=["with_rows", "without_rows"])
def test_a_step_with_many_pairs_says_the_same_in_pieces(query, starts, watermarks):
    whole, _ = results(query, starts, watermarks, 1 << 30)
    assert results(query, starts, watermarks, MOST)[0] == whole


def test_a_step_without_rows_is_cut_by_time():
    _, sizes = results(ABOVE_AVERAGE, list(range(300)), [0, FOREVER], MOST)
    assert len(sizes) > 5


@CASES
def test_results_of_a_join_leave_the_step_in_pieces_of_bounded_size(starts):
    _, sizes = results(PAIRS, starts, [FOREVER], MOST)
    assert len(sizes) > 1
    assert max(sizes) <= MOST


def test_a_step_with_few_pairs_is_not_cut():
    _, sizes = results(PAIRS, list(range(0, 3000, 10)), [FOREVER], 1 << 20)
    assert len(sizes) == 1


NESTED = """
SELECT a.price FROM (SELECT price, COUNT(*) AS n FROM bid WINDOW(RANGE 50) GROUP BY price) a,
  (SELECT b.price FROM bid WINDOW(RANGE 40) b, bid WINDOW(RANGE 40) c) d WHERE a.n = d.price
"""


def test_a_piece_is_cut_by_what_arrived_not_by_what_stages_sent_each_other(monkeypatch):
    """Else a cut may be chosen before everything that waits, and the same pieces are tried for ever."""
    attempt, sizes = pieces._run_once, []

    def recorded(part, inboxes, states, most):
        sizes.append(_sizes(inboxes))
        try:
            return attempt(part, inboxes, states, most)
        finally:
            sizes.append(_sizes(inboxes))

    monkeypatch.setattr(pieces, "_run_once", recorded)
    results(NESTED, list(range(100)), [FOREVER], MOST)
    assert len(sizes) > 2
    assert sizes[::2] == sizes[1::2]


def test_time_without_rows_goes_to_its_end_in_few_pieces():
    """Groups that stay as they are may make too many pairs in every piece, however much time it has."""
    port = (0, 0)
    waiting, extent, count = WaitingElements((Inbox(watermarks={port: FOREVER}),), {port: 4}, at=4), Extent(5), 0
    while (piece := waiting.cut(extent)).rest is not None:
        extent, waiting, count = waiting.next_extent(piece, used=4.0), piece.rest, count + 1
        assert count < 100


def _sizes(inboxes):
    return [{address: sum(map(len, some)) for address, some in inbox.batches.items()} for inbox in inboxes]


def test_a_worker_that_lacks_memory_says_so_in_words_of_ours():
    def greedy():
        yield 1
        np.empty(1 << 56, np.int64)

    with pytest.raises(DataError) as error:
        list(convert_memory_errors(greedy))
    assert error.value.code == "D420"
    assert "shorter windows" in (error.value.hint or "")


GREEDY = textwrap.dedent("""
    import resource, sys
    import numpy as np, pyarrow as pa
    import tidegate

    session = tidegate.Session(runtime="embedded")
    session.stream("bid", pa.table({"at": np.zeros(60_000, np.int64), "x": np.arange(60_000)}), time="at")
    session.stream("few", pa.table({"at": [0, 1], "x": [1, 2]}), time="at")
    # All pairs begin at the same instant, and the count has to keep them until time goes on.
    query = "SELECT COUNT(*) AS n FROM {0} WINDOW(RANGE 9 SECONDS) a, {0} WINDOW(RANGE 9 SECONDS) b WHERE a.x <> b.x"
    print(session.sql(query.format("few")).finish().to_pandas().n.max())
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (500 << 20), resource.RLIM_INFINITY))
    try:
        session.sql(query.format("bid")).finish()
    except tidegate.DataError as error:
        print(error.render())
""")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_a_query_that_does_not_fit_in_memory_ends_with_a_coded_error():
    ended = subprocess.run([sys.executable, "-c", GREEDY], capture_output=True, text=True, timeout=300, check=False)
    first, second, hint = ended.stdout.splitlines()
    assert first == "2"
    assert second.startswith("error[D420]: out of memory in query_1, which keeps ")
    assert hint.startswith("   = hint: use shorter windows")
    assert "Traceback" not in ended.stderr
