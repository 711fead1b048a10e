"""Rows that fail a condition are known by their keys: rows that wait for them leave, and nothing else changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.optimizer import failing_rows
from tidegate.physical.keyed_join.record import KeyedJoinRecord
from tidegate.runtime.compile import compile_job, source_stream_of
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.state import StateStore

TEXT = """
CREATE STREAM p (k BIGINT, at BIGINT) FROM 'p' TIMESTAMP BY at;
CREATE STREAM o (k BIGINT, v INT, w STRING, at BIGINT) FROM 'o' TIMESTAMP BY at KEY (k);
SELECT p.k, o.w FROM p WINDOW(RANGE 1000 MICROSECONDS), big o WHERE p.k = o.k AND o.v < 8;
"""
BIG = "(SELECT * FROM o WINDOW(RANGE 1000 MICROSECONDS) WHERE v > 5)"
KEYS = range(400)


def run(folder: str | None = None) -> tuple[Engine, list[tuple[int, str]]]:
    """Children come after their parents; of ten, two pass. With a folder, each step starts from files."""
    program = bind(TEXT.replace("big", BIG))
    sources = {name: MemorySource(source_stream_of(program.catalog, name), table(name, [], 0)) for name in "po"}
    job, store = compile_job(program, sinks={}, sources=sources), StateStore(folder) if folder else None
    engine, found = Engine(job, store), []
    for step in range(20):
        some = list(KEYS[step * 20 : step * 20 + 20])
        for at, raw in (
            (2 * step, {"p": some}),
            (2 * step + 1, {"p": some[:5], "o": some}),
            (2 * step + 1, {"p": some}),
        ):
            out, _ = engine.step({name: table(name, keys, at).to_batches() for name, keys in raw.items()})
            found += [tuple(row.values()) for _, batch in out.results for row in batch.columns.to_pylist()]
            assert not out.dead
            if store:
                state = {place: store.load(*place, version.file) for place, version in engine.state.items()}
                engine = Engine(
                    job, store, engine.watermarks, state, engine.step_number, engine.arrived, engine.control
                )
    return engine, found


def table(name: str, keys: list[int], at: int) -> pa.Table:
    columns: dict[str, pa.Array] = {"k": pa.array(keys, pa.int64())}
    if name == "o":
        columns |= {"v": pa.array([k % 10 for k in keys], pa.int32()), "w": pa.array([f"row {k}" for k in keys])}
    return pa.table(columns | {"at": pa.array([at] * len(keys), pa.int64())})


def waiting(engine: Engine) -> int:
    (record,) = engine.control.values()
    assert isinstance(record, KeyedJoinRecord)
    return sum(size.unknown for size in record.pace.sizes)


def test_rows_that_wait_for_them_leave_and_only_their_keys_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = sorted((k, f"row {k}") for k in KEYS if k % 10 in (6, 7) for _ in range(2 + (k % 20 < 5)))
    marked, found = run()
    assert sorted(found) == expected
    assert waiting(marked) == 0
    assert sorted(run(str(tmp_path_factory.mktemp("state")))[1]) == expected
    monkeypatch.setattr(failing_rows, "gains_by_failing_rows", lambda *_: False)
    plain, found = run()
    assert sorted(found) == expected
    assert waiting(plain) > 600
    assert marked.state_size().bytes < plain.state_size().bytes / 2
