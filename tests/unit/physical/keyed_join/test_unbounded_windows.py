"""Joins over unbounded windows keep no more in memory, however long the streams are, while constraints hold."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.physical.keyed_join.record import KeyedJoinRecord
from tidegate.runtime.compile import compile_job, source_stream_of
from tidegate.runtime.embedded.engine import Engine

SIZE = 20
"""Rows of each stream in a step; of the keys of a step, a quarter is in one stream only."""

SOON, BEFORE = (
    "CONSTRAINT (k) REFERENCES o (k) WITHIN 30 MICROSECONDS",
    "CONSTRAINT (k) REFERENCES p (k) WITHIN 0 SECONDS",
)
ORDERED = "ORDERED BY k WITHIN 30 MICROSECONDS"
CASES = {
    "p refers to o, in the order of keys": (f"{SOON} {ORDERED}", "KEY (k)"),
    "both in the order of keys": (ORDERED, f"KEY (k) {ORDERED}"),
    "each has a key and refers to the other": (f"KEY (k) {SOON}", f"KEY (k) {BEFORE}"),
}


def engine_of(parent: str, child: str, mode: str, window: str = "RANGE UNBOUNDED") -> Engine:
    streams = "".join(
        f"CREATE STREAM {name} (k BIGINT, at BIGINT) FROM '{name}' TIMESTAMP BY at {said};"
        for name, said in (("p", parent), ("o", child))
    )
    read = f"p WINDOW({window}), o WINDOW(RANGE UNBOUNDED)"
    text = f"SET constraints = declared MODE {mode}; {streams} SELECT p.k FROM {read} WHERE p.k = o.k;"
    program = bind(text)
    sources = {name: MemorySource(source_stream_of(program.catalog, name), table([], 0)) for name in "po"}
    return Engine(compile_job(program, sinks={}, sources=sources))


def table(keys: list[int], at: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "at": pa.array([at] * len(keys), pa.int64())})


def run(engine: Engine, steps: range) -> list[int]:
    found: list[int] = []
    for step in steps:
        keys = range(step * SIZE, (step + 1) * SIZE)
        rows = {"p": [k for k in keys if k % 4 != 1], "o": [k for k in keys if k % 4 != 2]}
        found += results(engine, {name: table(each, 10 * step) for name, each in rows.items()})
    return found


def results(engine: Engine, raw: dict[str, pa.Table]) -> list[int]:
    out, _ = engine.step({name: rows.to_batches() for name, rows in raw.items()})
    assert not out.dead
    return [key for _, batch in out.results for key in batch.columns.column(0).to_pylist()]


def rows_in_memory(engine: Engine) -> int:
    (record,) = engine.control.values()
    assert isinstance(record, KeyedJoinRecord)
    return sum(size.yes + size.unknown + size.no for size in record.pace.sizes)


@pytest.mark.parametrize("mode", ["lean", "exact"])
@pytest.mark.parametrize("case", CASES)
def test_rows_in_memory_do_not_grow_with_the_streams(case: str, mode: str) -> None:
    engine, sizes, found = engine_of(*CASES[case], mode), [], list[int]()
    for begin in range(0, 80, 20):
        found += run(engine, range(begin, begin + 20))
        sizes.append(rows_in_memory(engine))
    assert sorted(found) == [k for k in range(80 * SIZE) if k % 4 not in (1, 2)]
    assert sizes == [sizes[0]] * 4
    assert sizes[0] <= 10 * SIZE
    assert (engine.state_size().cold_bytes > 0) == (mode == "exact")


@pytest.mark.parametrize("case", CASES)
def test_rows_that_break_the_constraints_join_in_exact_mode_alone(case: str) -> None:
    for mode, late in (("lean", []), ("exact", [2, 6])):
        engine = engine_of(*CASES[case], mode)
        run(engine, range(40))
        assert results(engine, {"o": table([2, 6], 400)}) == late


def test_keys_of_rows_that_never_join_are_not_kept_where_nothing_ends_them() -> None:
    """Rows of p wait for their whole window, so keys of o would save memory if o had a bound."""
    engine = engine_of("KEY (k)", f"KEY (k) {SOON.replace('o (k)', 'p (k)')}", "lean", "RANGE 100 MICROSECONDS")
    run(engine, range(20))
    before = rows_in_memory(engine)
    run(engine, range(20, 60))
    assert rows_in_memory(engine) == before
