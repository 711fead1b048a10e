"""State files: only what changed is written, everything written is found again, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import DataError
from tidegate.runtime.state import (
    CLEAN_EVERY,
    FOOTER,
    MOST_FILES,
    StateSize,
    StateStore,
    Version,
    deserialize,
    serialize,
)

STAGE, BUCKET = 3, 1


def chunk(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.int64())})


def large(seed: int, rows: int = 20_000) -> pa.RecordBatch:
    return chunk(*np.random.default_rng(seed).integers(0, 1 << 60, rows).tolist())


class Bucket:
    """The state of one bucket over several steps."""

    def __init__(self, root: Path) -> None:
        self.store = StateStore(str(root))
        self.folder = root / "state" / str(STAGE) / str(BUCKET)
        self.versions: list[Version] = []

    def save(self, step: int, chunks: dict[str, pa.RecordBatch], *, before: Version | None = None) -> Version:
        earlier = before or (self.versions[-1] if self.versions else Version())
        self.versions.append(self.store.save(STAGE, BUCKET, step, chunks, earlier))
        return self.versions[-1]

    def load(self, file: str | None) -> Version:
        return self.store.load(STAGE, BUCKET, file)

    def size(self, version: Version) -> int:
        assert version.file is not None
        return (self.folder / version.file).stat().st_size

    @property
    def files(self) -> set[str]:
        return {p.name for p in self.folder.iterdir()}

    def holds(self, version: Version) -> bool:
        """Whether the version is read as it was written."""
        found = self.load(version.file)
        return dict(found.chunks) == dict(version.chunks) and found.places == version.places


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path)


def test_the_beginning_is_empty(bucket):
    assert dict(bucket.load(None).chunks) == {}
    assert bucket.load(None).file is None


def test_what_was_saved_is_loaded(bucket):
    version = bucket.save(0, {"a": chunk(1, 2), "b/c": chunk(), "ä": chunk(-5)})
    assert bucket.holds(version)


def test_the_state_of_each_operator_has_a_size(bucket):
    state = {"0/a": chunk(1, 2), "0/b": chunk(3), "2/cold-a": chunk(4), "2/c": chunk(5, 6, 7)}
    version = bucket.save(0, state)
    assert version.operator_sizes() == {0: StateSize(24, 3, 0), 2: StateSize(24, 3, 8)}
    assert version.size == StateSize(48, 6, 8)


def test_a_state_without_chunks_is_a_version_too(bucket):
    assert bucket.holds(bucket.save(0, {}))


def test_only_changed_chunks_are_written(bucket):
    first = {f"run{i}": large(i) for i in range(4)}
    whole = bucket.save(0, first)
    changed = bucket.save(1, {**first, "small": chunk(1)})
    assert bucket.size(whole) > 4 * 20_000 * 8
    assert bucket.size(changed) < 2_000
    assert {p.file for n, p in changed.places.items() if n != "small"} == {whole.file}
    assert bucket.holds(changed)


def test_an_equal_chunk_that_is_another_object_is_written_again(bucket):
    bucket.save(0, {"a": chunk(1)})
    again = bucket.save(1, {"a": chunk(1)})
    assert again.places["a"].file == again.file


def test_a_chunk_that_is_gone_is_gone(bucket):
    kept = chunk(1)
    bucket.save(0, {"a": kept, "b": chunk(2)})
    assert set(bucket.load(bucket.save(1, {"a": kept}).file).chunks) == {"a"}


def test_loaded_chunks_count_as_unchanged(bucket):
    first = bucket.save(0, {"a": large(1)})
    loaded = bucket.load(first.file)
    after = bucket.save(1, {**loaded.chunks, "b": chunk(1)}, before=loaded)
    assert after.places["a"] == first.places["a"]
    assert bucket.size(after) < 2_000


def test_versions_stay_loadable_until_they_are_cleaned(bucket):
    chunks: dict[str, pa.RecordBatch] = {}
    for step in range(1, CLEAN_EVERY):
        chunks = {**chunks, f"run{step}": chunk(step)}
        bucket.save(step, chunks)
    assert all(bucket.holds(version) for version in bucket.versions)


def test_two_attempts_at_one_step_do_not_disturb_each_other(bucket):
    before = bucket.save(0, {"a": chunk(1)})
    one = bucket.save(1, {**before.chunks, "b": chunk(2)}, before=before)
    other = bucket.save(1, {**before.chunks, "b": chunk(3)}, before=before)
    assert one.file != other.file
    assert bucket.holds(one)
    assert bucket.holds(other)


def test_the_last_two_versions_are_always_loadable_and_files_do_not_pile_up(bucket):
    chunks = {"old": chunk(0)}
    for step in range(100):
        chunks = {**chunks, f"run{step}": chunk(step)}
        if step % 5 == 4:  # runs are merged
            chunks = {"old": chunks["old"], "merged": chunk(*range(step))}
        bucket.save(step, chunks)
        assert all(bucket.holds(version) for version in bucket.versions[-2:])
    assert len(bucket.files) < 3 * CLEAN_EVERY


def test_a_replayed_step_finds_the_version_before_it_although_the_first_attempt_cleaned(bucket):
    chunks: dict[str, pa.RecordBatch] = {}
    for step in range(CLEAN_EVERY):
        chunks = {"only": chunk(step)}
        bucket.save(step, chunks)
    before = bucket.versions[-1]
    first_attempt = bucket.save(CLEAN_EVERY, {"only": chunk(100)})
    replayed = bucket.save(CLEAN_EVERY, {**before.chunks, "more": chunk(101)}, before=bucket.load(before.file))
    assert bucket.holds(before)
    assert bucket.holds(first_attempt)
    assert bucket.holds(replayed)


def test_old_files_that_nobody_refers_to_are_removed(bucket):
    for step in range(CLEAN_EVERY + 1):
        bucket.save(step, {"only": chunk(step)})
    left = {version.file for version in bucket.versions[-3:]}
    assert bucket.files == left


def test_a_draft_that_a_crash_left_behind_is_removed_in_time(bucket):
    bucket.save(0, {"only": chunk(0)})
    (bucket.folder / "0000000001-deadbeef.part").write_bytes(b"half")
    for step in range(1, CLEAN_EVERY + 1):
        bucket.save(step, {"only": chunk(step)})
    assert not [name for name in bucket.files if name.endswith(".part")]


def test_a_version_that_would_depend_on_too_many_files_rewrites_small_ones(bucket):
    chunks: dict[str, pa.RecordBatch] = {"large": large(1)}
    most = 0
    for step in range(4 * MOST_FILES):
        chunks = {**chunks, f"run{step}": chunk(step)}
        version = bucket.save(step, chunks)
        most = max(most, len({p.file for p in version.places.values()}))
        assert bucket.holds(version)
    assert most <= MOST_FILES + 1
    assert bucket.versions[-1].places["large"].file == bucket.versions[0].file, "the large one is not copied"


def test_no_draft_is_left_behind(bucket):
    for step in range(3):
        bucket.save(step, {"a": chunk(step)})
    assert not [name for name in bucket.files if name.endswith(".part")]


def test_a_missing_file_is_an_error_that_says_so(bucket):
    kept = chunk(1)
    first = bucket.save(0, {"a": kept})
    second = bucket.save(1, {"a": kept, "b": chunk(2)})
    (bucket.folder / first.file).unlink()
    with pytest.raises(DataError, match=first.file) as raised:
        bucket.load(second.file)
    assert raised.value.code == "D301"
    with pytest.raises(DataError) as raised:
        bucket.load("0000000009-00000000")
    assert raised.value.code == "D301"


def test_damage_in_any_byte_is_found(bucket):
    """No byte of the file may change without anyone noticing: chunks, manifest and footer alike."""
    version = bucket.save(0, {"a": chunk(1, 2, 3), "b": chunk()})
    path = bucket.folder / version.file
    good = path.read_bytes()
    for position in range(len(good)):
        path.write_bytes(good[:position] + bytes([good[position] ^ 0x10]) + good[position + 1 :])
        with pytest.raises(DataError) as raised:
            bucket.load(version.file)
        assert raised.value.code == "D302", position
    path.write_bytes(good)
    assert bucket.holds(version)


def test_a_file_that_was_cut_short_or_made_longer_is_damaged(bucket):
    version = bucket.save(0, {"a": chunk(1, 2, 3)})
    path = bucket.folder / version.file
    good = path.read_bytes()
    for length in [0, 1, FOOTER.size - 1, FOOTER.size, len(good) // 2, len(good) - 1]:
        path.write_bytes(good[:length])
        with pytest.raises(DataError) as raised:
            bucket.load(version.file)
        assert raised.value.code == "D302", length
    path.write_bytes(good + b"x")
    with pytest.raises(DataError) as raised:
        bucket.load(version.file)
    assert raised.value.code == "D302"


def test_damage_in_a_file_of_an_earlier_version_is_found(bucket):
    kept = chunk(1, 2, 3)
    first = bucket.save(0, {"a": kept})
    second = bucket.save(1, {"a": kept, "b": chunk(2)})
    path, place = bucket.folder / first.file, first.places["a"]
    good = path.read_bytes()
    middle = place.offset + place.length // 2
    path.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    with pytest.raises(DataError, match=first.file) as raised:
        bucket.load(second.file)
    assert raised.value.code == "D302"
    path.write_bytes(good[: place.offset + place.length - 1])
    with pytest.raises(DataError) as raised:
        bucket.load(second.file)
    assert raised.value.code == "D302"


def test_buckets_and_stages_have_folders_of_their_own(tmp_path):
    store = StateStore(str(tmp_path))
    versions = {(s, b): store.save(s, b, 0, {"a": chunk(s, b)}, Version()) for s in range(2) for b in range(2)}
    for (stage, bucket), version in versions.items():
        assert store.load(stage, bucket, version.file).chunks["a"] == chunk(stage, bucket)


def test_a_store_may_be_at_a_uri(tmp_path):
    store = StateStore(tmp_path.as_uri())
    version = store.save(0, 0, CLEAN_EVERY, {"a": chunk(1)}, Version())
    assert dict(StateStore(str(tmp_path)).load(0, 0, version.file).chunks) == {"a": chunk(1)}


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3)), st.booleans()), min_size=1, max_size=30
    )
)
def test_whatever_changes_when_each_version_is_what_was_saved(tmp_path_factory, history):
    """Any history of chunks that come, stay, change and go, some steps done twice."""
    bucket = Bucket(tmp_path_factory.mktemp("state"))
    known: dict[tuple[str, int], pa.RecordBatch] = {}
    before = Version()
    for step, (content, twice) in enumerate(history):
        chunks = {name: known.setdefault((name, value), chunk(value)) for name, value in content.items()}
        version = bucket.save(step, chunks, before=before)
        if twice:
            version = bucket.save(step, chunks, before=bucket.load(before.file))
        assert bucket.holds(version)
        assert bucket.load(before.file).places == before.places
        before = version


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.lists(st.text(max_size=5), max_size=20))
def test_a_chunk_survives_its_bytes(numbers, texts):
    rows = [{"n": n, "t": None} for n in numbers] + [{"n": None, "t": t} for t in texts]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([("n", pa.int64()), ("t", pa.string())]))
    assert deserialize(serialize(batch)) == batch
