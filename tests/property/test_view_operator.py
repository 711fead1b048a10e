"""What a view keeps is what is valid at each of its instants, and no more than that."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.relation.view import ViewOperator, kept_rows
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING

SCHEMA = Schema.of(a=Type.INT)
ELEMENTS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 1)), max_size=12)
WATERMARKS = st.lists(st.integers(0, 14), min_size=1, max_size=6).map(sorted)


def batch_of(elements: list[tuple[int, int, int]]) -> Batch:
    start, end, values = (np.array([e[i] for e in elements], np.int64) for i in range(3))
    return Batch(start, end, pa.RecordBatch.from_arrays([pa.array(values, pa.int32())], schema=SCHEMA.arrow))


def pieces(elements: list[tuple[int, int, int]], watermarks: list[int]) -> list[tuple[int, int, int]]:
    """Cut elements at watermarks, as operators below a view do."""
    cuts = [[start, *(w for w in sorted(set(watermarks)) if start < w < end), end] for start, end, _ in elements]
    return [(s, e, v) for points, (_, _, v) in zip(cuts, elements, strict=True) for s, e in pairwise(points)]


@example([(0, 1, 0)] * 5 + [(0, 5, 0)], [1, 3], 0, False)  # most rows of a run are gone
@given(ELEMENTS, WATERMARKS, st.integers(0, 4), st.booleans())
def test_a_view_keeps_what_is_valid_at_each_of_its_instants(given_elements, watermarks, history, is_cut):
    whole = [(start, start + length, value) for start, length, value in given_elements]
    arriving = pieces(whole, watermarks) if is_cut else whole
    operator, state, before = ViewOperator(SCHEMA, history), NO_STATE, BEGINNING
    for watermark in watermarks:
        # Cut elements arrive when the watermark has passed them, whole ones as soon as they may.
        new = [e for e in arriving if before <= e[0] < watermark or (not is_cut and before <= e[0] < watermark + 2)]
        arriving = [e for e in arriving if e not in new]
        step = operator.step(state, [batch_of(new)], [watermark])
        state, before = step.state, watermark
        assert (len(step.output), step.watermark) == (0, watermark)
        kept = kept_rows(state, history)
        assert (kept.first, kept.last) == (watermark - 1 - history, watermark - 1)
        for instant in range(kept.first, kept.last + 1):
            found = Counter(v for rows in kept.snapshot(instant) for v in rows.column("a").to_pylist())
            assert found == Counter(v for start, end, v in whole if start <= instant < end), instant
        held = [int(end) for each in kept.elements for end in each.end]
        assert all(end >= watermark - history for end in held)
        assert len(held) <= sum(end >= watermark - history for _, end, _ in whole)
        rows = sum(chunk.num_rows for name, chunk in state.items() if name != "figures")
        assert rows <= 2 * len(held)
