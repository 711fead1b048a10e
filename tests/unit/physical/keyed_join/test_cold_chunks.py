"""Cold chunks: in files and not in memory, written once, read as they were, checked when they are loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.errors import DataError
from tidegate.runtime.state import CLEAN_EVERY, MOST_FILES, StateStore, Version

ROWS = 50_000
BYTES = 8 * ROWS
COLD, HOT = "3/cold-1", "3/run-1"


def chunk(seed: int, rows: int = ROWS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": np.random.default_rng(seed).integers(0, 1 << 60, rows)})


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(str(tmp_path))


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in Arrow's own memory."""
    return batch.take(pa.array(np.arange(batch.num_rows)))


def test_what_is_cold_leaves_memory_when_it_is_written(store):
    before = pa.total_allocated_bytes()
    cold = copied(chunk(1))
    assert pa.total_allocated_bytes() - before >= BYTES
    version = store.save(0, 0, 1, {COLD: cold}, Version())
    del cold
    assert pa.total_allocated_bytes() - before < BYTES
    assert version.chunks[COLD] == chunk(1)


def test_what_is_cold_is_not_read_into_memory_though_it_shares_a_file(store):
    version = store.save(0, 0, 1, {COLD: chunk(1), HOT: chunk(2, 10)}, Version())
    before = pa.total_allocated_bytes()
    loaded = store.load(0, 0, version.file)
    assert pa.total_allocated_bytes() - before < BYTES
    assert dict(loaded.chunks) == {COLD: chunk(1), HOT: chunk(2, 10)}


def test_figures_tell_cold_from_other_state(store):
    version = store.save(0, 0, 1, {COLD: chunk(1), HOT: chunk(2, 10), "3/colder": chunk(3, 5)}, Version())
    assert version.size.cold_bytes >= BYTES > version.size.bytes > 0
    assert version.size.rows == 10
    assert store.load(0, 0, version.file).size == version.size


def test_what_stays_cold_is_not_written_again(store, tmp_path):
    first = store.save(0, 0, 1, {COLD: chunk(1)}, Version())
    second = store.save(0, 0, 2, {**first.chunks, HOT: chunk(2, 10)}, first)
    assert second.chunks[COLD] is first.chunks[COLD]
    assert (tmp_path / "state/0/0" / second.file).stat().st_size < BYTES


def test_cold_chunks_move_to_new_files_when_they_are_in_too_many(store):
    version = Version()
    for step in range(3 * MOST_FILES):
        version = store.save(0, 0, step, {**version.chunks, f"0/cold-{step}": chunk(step, 4 + step)}, version)
    assert len({place.file for place in version.places.values()}) <= MOST_FILES + 1
    expected = {f"0/cold-{step}": chunk(step, 4 + step) for step in range(3 * MOST_FILES)}
    assert dict(version.chunks) == dict(store.load(0, 0, version.file).chunks) == expected


def test_a_version_that_is_held_can_be_read_after_its_files_are_gone(store, tmp_path):
    held = store.save(0, 0, 1, {COLD: chunk(1)}, Version())
    version = held
    for step in range(2, 2 * CLEAN_EVERY + 1):
        version = store.save(0, 0, step, {HOT: chunk(step, 3)}, version)
    assert not (tmp_path / "state/0/0" / held.file).exists()
    assert held.chunks[COLD] == chunk(1)


def test_damage_of_what_is_cold_is_found(store, tmp_path):
    version = store.save(0, 0, 1, {COLD: chunk(1, 100), HOT: chunk(2, 10)}, Version())
    path, place = tmp_path / "state/0/0" / version.file, version.places[COLD]
    good = bytearray(path.read_bytes())
    good[place.offset + place.length // 2] ^= 1
    path.unlink()  # a file that is mapped is never written to
    path.write_bytes(good)
    with pytest.raises(DataError) as raised:
        store.load(0, 0, version.file)
    assert raised.value.code == "D302"


def test_a_store_at_a_uri_of_this_machine_maps_as_well(tmp_path):
    store = StateStore(tmp_path.as_uri())
    before = pa.total_allocated_bytes()
    version = store.save(0, 0, 1, {COLD: copied(chunk(1))}, Version())
    assert pa.total_allocated_bytes() - before < BYTES
    assert store.load(0, 0, version.file).chunks[COLD] == chunk(1)
