"""Positions in records: read as written, whatever changes, while a record stays small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.connectors.ranges import FileMark, PartProgress, Point, SourcePosition
from tidegate.errors import DataError
from tidegate.runtime import position_log
from tidegate.runtime.checkpoint import KEPT_RECORDS, Checkpoint, Record


def progress(at: int) -> PartProgress:
    return PartProgress(Point(at, at), at, is_done=at % 2 == 0, mark=FileMark(at, at, at))


positions = st.dictionaries(
    st.sampled_from("st"),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2).map(progress), max_size=6).map(SourcePosition),
)


def files_of(checkpoint: Checkpoint) -> set[str]:
    return {path.stem for path in Path(checkpoint.root, "positions").glob("*.json")}


def named(checkpoint: Checkpoint, step: int) -> set[str]:
    record = Path(checkpoint.root, "steps", f"{step:010d}.json")
    return set(json.loads(record.read_text())["content"]["position_files"]) if record.exists() else set()


@given(steps=st.lists(st.tuples(positions, st.booleans()), max_size=12), grows=st.booleans())
def test_positions_are_read_as_they_were_written(steps, grows, tmp_path_factory):
    root = str(tmp_path_factory.mktemp("checkpoint"))
    checkpoint, now = Checkpoint(root), dict[str, SourcePosition]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(position_log, "MOST_RECENT", 1)
        for step, (changed, restarts) in enumerate(steps, start=1):
            # Positions grow in the usual run; in a live graph, streams may be dropped and come back.
            merged = {s: SourcePosition({**now.get(s, SourcePosition()).parts, **p.parts}) for s, p in changed.items()}
            now = {**now, **merged} if grows else changed
            if restarts:
                checkpoint = Checkpoint(root)
                checkpoint.last_record()
            checkpoint.write(Record(step, {}, positions=now))
            assert Checkpoint(root).last_record() == Record(step, {}, positions=now)
            kept = set().union(*(named(checkpoint, each) for each in range(step - KEPT_RECORDS + 1, step + 1)))
            assert kept <= files_of(checkpoint)
        if len(steps) > KEPT_RECORDS and not any(restarts for _, restarts in steps):
            assert files_of(checkpoint) == kept


def many(files: int, at: int = 1) -> dict[str, SourcePosition]:
    return {"s": SourcePosition({f"{number:06d}.csv": progress(at) for number in range(files)})}


def written_bytes(checkpoint: Checkpoint, step: int) -> int:
    """What a step wrote: its record, and position files."""
    files = [*Path(checkpoint.root).glob(f"steps/{step:010d}*"), *Path(checkpoint.root).glob(f"positions/{step:010d}*")]
    return sum(path.stat().st_size for path in files)


def test_a_record_grows_with_what_has_changed_and_not_with_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr(position_log, "MOST_RECENT", 10)
    checkpoint = Checkpoint(str(tmp_path))
    read = many(2_000)["s"]
    checkpoint.write(Record(1, {}, positions={"s": read}))
    whole = written_bytes(checkpoint, 1)
    sizes = []
    for step in range(2, 302):
        read = SourcePosition({**read.parts, f"new-{step}.csv": progress(step)})
        checkpoint.write(Record(step, {}, positions={"s": read}))
        sizes.append(written_bytes(checkpoint, step))
    assert sum(sizes) / len(sizes) < whole / 25
    assert len(named(checkpoint, 301)) < 8
    assert Checkpoint(str(tmp_path)).last_record() == Record(301, {}, positions={"s": read})


def test_a_position_file_that_a_crash_left_is_removed(tmp_path):
    checkpoint = Checkpoint(str(tmp_path))
    stray = tmp_path / "positions" / "0000000001-00000000.json"
    stray.parent.mkdir()
    stray.write_text("half")
    for step in range(1, 1 + KEPT_RECORDS):
        assert stray.exists()
        checkpoint.write(Record(step, {}, positions=many(200)))
    assert not stray.exists()
    assert len(files_of(checkpoint)) == 1


@pytest.mark.parametrize(("damage", "code"), [("gone", "D301"), ("cut", "D302"), ("another", "D302")])
def test_a_position_file_that_is_gone_or_damaged_is_an_error(tmp_path, damage, code):
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.write(Record(1, {}, positions=many(300)))
    checkpoint.write(Record(2, {}, positions=many(300, at=2)))
    old, new = sorted((tmp_path / "positions").iterdir())
    match damage:
        case "gone":
            new.unlink()
        case "cut":
            new.write_bytes(new.read_bytes()[:-9])
        case "another":
            new.write_bytes(old.read_bytes())
    with pytest.raises(DataError) as raised:
        Checkpoint(str(tmp_path)).last_record()
    assert raised.value.code == code
    assert new.name in raised.value.message
