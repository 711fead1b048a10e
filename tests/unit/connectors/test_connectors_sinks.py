"""Sinks: what is written, and that it is there exactly once whatever crashes when."""

from __future__ import annotations

import csv
import io
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors import sinks
from tidegate.connectors.csv_parser import CsvParser, Dialect
from tidegate.connectors.decode import Parser, make_decoder
from tidegate.connectors.jsonl import JsonParser
from tidegate.connectors.sinks import FileSink, TextFormat, open_sink, render
from tidegate.errors import DataError, InternalError
from tidegate.physical.common.dead_letters import DEAD_LETTER
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING

ROWS = pa.RecordBatch.from_pydict({"a": [1, 2]})


def files(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def number(value: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"a": [value]})


def sink(folder: Path) -> FileSink:
    return FileSink(str(folder), "jsonl")


def test_staged_parts_appear_only_when_published(tmp_path):
    out = sink(tmp_path)
    token = out.begin("q.7")
    assert out.write("q.7", token, "0", number(1)) == len('{"a": 1}\n')
    assert out.write("q.7", token, "1", number(2)) == len('{"a": 2}\n')
    assert list(tmp_path.glob("*.jsonl")) == []
    out.publish("q.7", token)
    assert files(tmp_path) == {"q.7-0.jsonl": '{"a": 1}\n', "q.7-1.jsonl": '{"a": 2}\n'}


def test_a_part_written_again_is_replaced_and_no_rows_make_no_file(tmp_path):
    out = sink(tmp_path)
    token = out.begin("b")
    out.write("b", token, "0", number(1))
    out.write("b", token, "0", number(2))
    assert out.write("b", token, "1", number(0).slice(0, 0)) == 0
    out.publish("b", token)
    assert files(tmp_path) == {"b-0.jsonl": '{"a": 2}\n'}


def test_publishing_a_label_again_replaces_what_was_published(tmp_path):
    out = sink(tmp_path)
    for value, parts in ((1, ("0", "1")), (2, ("1", "2"))):
        token = out.begin("b")
        for part in parts:
            out.write("b", token, part, number(value))
        out.publish("b", token)
    assert files(tmp_path) == {"b-1.jsonl": '{"a": 2}\n', "b-2.jsonl": '{"a": 2}\n'}
    out.publish("b", out.begin("b"))
    assert files(tmp_path) == {}


def test_labels_that_begin_alike_do_not_touch_each_other(tmp_path):
    out = sink(tmp_path)
    tokens = {label: out.begin(label) for label in ("b", "b-1", "b-11")}
    for label, token in tokens.items():
        out.write(label, token, "0", number(len(label)))
    out.begin("b-1")  # gives up what was staged for it, and for no other label
    for label, token in tokens.items():
        out.publish(label, token)
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == ["b-0.jsonl", "b-11-0.jsonl"]


def test_a_worker_that_comes_too_late_cannot_add_to_what_is_published(tmp_path):
    out = sink(tmp_path)
    token = out.begin("b")
    out.publish("b", token)
    with pytest.raises(DataError) as caught:
        out.write("b", token, "0", number(1))
    assert caught.value.code == "D106"
    assert files(tmp_path) == {}


def test_files_of_others_in_the_folder_are_left_alone(tmp_path):
    for name in ("b-notes.txt", "b-a-0.jsonl", "c-0.jsonl", "b-0.jsonl.bak"):
        (tmp_path / name).write_text(name)
    out = sink(tmp_path)
    out.publish("b", out.begin("b"))
    assert sorted(files(tmp_path)) == ["b-0.jsonl.bak", "b-a-0.jsonl", "b-notes.txt", "c-0.jsonl"]


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "_x", "a b"])
def test_names_that_are_unsafe_in_a_path_are_refused(tmp_path, name):
    out = sink(tmp_path)
    with pytest.raises(InternalError):
        out.begin(name)
    with pytest.raises(InternalError):
        out.write("b", out.begin("b"), name or "a-b", number(1))


class CrashError(Exception):
    """The process died."""


class Fragile:
    """A file system that stops for good before its n-th change."""

    CHANGES = ("move", "delete_file", "delete_dir", "create_dir", "open_output_stream")

    def __init__(self, survived: int) -> None:
        self.real, self.left = fs.LocalFileSystem(), survived

    def __getattr__(self, name: str) -> Callable[..., object]:
        real = getattr(self.real, name)
        return real if name not in self.CHANGES else lambda *args, **options: self._change(real, *args, **options)

    def _change(self, real: Callable[..., object], *args: object, **options: object) -> object:
        if self.left == 0:
            raise CrashError
        self.left -= 1
        return real(*args, **options)


def crash_after(changes: int, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> bool:
    """Whether the act crashed, because it made more changes than these."""
    fragile = Fragile(changes)
    with monkeypatch.context() as patched:
        patched.setattr(sinks, "reach_file_system", lambda location: (fragile, location))
        try:
            act()
        except CrashError:
            return True
    return False


def prepared(folder: Path) -> tuple[FileSink, str]:
    """A label published once with parts 0 and 1, and staged anew with parts 1, 2 and 3."""
    out = sink(folder)
    for value, parts in ((1, ("0", "1")), (2, ("1", "2", "3"))):
        token = out.begin("b")
        for part in parts:
            out.write("b", token, part, number(value))
        if value == 1:
            out.publish("b", token)
    return out, token


AFTER = {f"b-{part}.jsonl": '{"a": 2}\n' for part in (1, 2, 3)}


def test_publishing_again_after_a_crash_at_any_point_gives_the_same_files(tmp_path, monkeypatch):
    changes = 0
    while True:
        folder = tmp_path / str(changes)
        out, token = prepared(folder)
        crashed = crash_after(changes, monkeypatch, partial(out.publish, "b", token))
        out.publish("b", token)
        assert files(folder) == AFTER
        out.publish("b", token)
        assert files(folder) == AFTER
        if not crashed:
            break
        changes += 1
    assert changes >= 9  # manifest written and renamed, 2 removed, 3 renamed, 2 cleaned up


def test_crashing_again_while_recovering_does_no_harm(tmp_path, monkeypatch):
    for first in range(9):
        for second in range(9):
            folder = tmp_path / f"{first}.{second}"
            out, token = prepared(folder)
            for changes in (first, second):
                crash_after(changes, monkeypatch, partial(out.publish, "b", token))
            out.publish("b", token)
            assert files(folder) == AFTER


def test_a_step_run_again_from_the_start_after_a_crash_gives_the_same_files(tmp_path, monkeypatch):
    for changes in range(20):
        folder = tmp_path / str(changes)
        out, token = prepared(folder)

        def step(out: FileSink = out, token: str = token) -> None:
            out.publish("b", token)
            again = out.begin("b")
            for part in ("1", "2", "3"):
                out.write("b", again, part, number(2))
            out.publish("b", again)

        crash_after(changes, monkeypatch, step)
        token = out.begin("b")
        for part in ("1", "2", "3"):
            out.write("b", token, part, number(2))
        out.publish("b", token)
        assert files(folder) == AFTER


def test_a_crash_while_writing_leaves_no_part(tmp_path, monkeypatch):
    out = sink(tmp_path)
    token = out.begin("b")
    assert crash_after(1, monkeypatch, lambda: out.write("b", token, "0", number(1)))
    out.publish("b", token)
    assert files(tmp_path) == {}


def test_a_folder_that_cannot_be_written_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError) as caught:
        sink(tmp_path / "file").begin("b")
    assert caught.value.render().startswith(f"error[D106]: cannot write to {tmp_path}/file: ")


def test_sinks_are_opened_by_location_and_travel_to_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_sink("out", format="CSV") == FileSink(str(tmp_path / "out"), "csv")
    assert open_sink("s3://bucket/out").folder == "s3://bucket/out"
    assert pickle.loads(pickle.dumps(open_sink("out"))) == open_sink("out")
    with pytest.raises(DataError, match="results cannot be written as 'cvs'") as caught:
        open_sink("out", format="cvs")
    assert caught.value.hint == "did you mean 'csv'?"


def test_a_uri_can_be_written_to(tmp_path):
    out = FileSink(f"file://{tmp_path}/out", "csv")
    token = out.begin("b")
    out.write("b", token, "0", ROWS)
    out.publish("b", token)
    assert files(tmp_path) == {"out/b-0.csv": "a\n1\n2\n"}


def test_parquet_is_compressed_and_keeps_types(tmp_path):
    out = FileSink(str(tmp_path), "parquet")
    token = out.begin("b")
    size = out.write("b", token, "0", EVERY_TYPE)
    out.publish("b", token)
    [path] = tmp_path.glob("*.parquet")
    assert (path.name, path.stat().st_size) == ("b-0.parquet", size)
    assert pq.read_table(path).equals(pa.Table.from_batches([EVERY_TYPE]))
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


EVERY_TYPE = pa.RecordBatch.from_arrays(
    [
        pa.array([True, None]),
        pa.array([-1, None], pa.int32()),
        pa.array([2**63 - 1, None], pa.int64()),
        pa.array([0.1, None], pa.float32()),
        pa.array([1e300, None]),
        pa.array(['say "hi", ä\n', None]),
        pa.array([datetime(2026, 1, 1, 12, 30, 0, 500, tzinfo=UTC), None], Type.TIMESTAMP.arrow),
        pa.array([timedelta(seconds=90), None], Type.INTERVAL.arrow),
    ],
    ["b", "i", "n", "r", "d", "s", "z", "v"],
)


def test_csv_follows_rfc_4180():
    assert render(EVERY_TYPE, "csv") == (
        'b,i,n,r,d,s,z,v\ntrue,-1,9223372036854775807,0.1,1e+300,"say ""hi"", ä\n",'
        "2026-01-01T12:30:00.000500Z,90 seconds\n,,,,,,,\n"
    )
    assert render(ROWS, "csv", header=False) == "1\n2\n"
    assert render(ROWS.slice(0, 0), "csv") == "a\n"
    assert render(pa.RecordBatch.from_pydict({'x,"y"': ["", " a", None]}), "csv") == '"x,""y"""\n""\n" a"\n\n'


def test_json_lines_are_objects_with_exact_integers():
    first, second = render(EVERY_TYPE, "jsonl").splitlines()
    assert json.loads(first) == {
        "b": True,
        "i": -1,
        "n": 2**63 - 1,
        "r": 0.1,
        "d": 1e300,
        "s": 'say "hi", ä\n',
        "z": "2026-01-01T12:30:00.000500Z",
        "v": "90 seconds",
    }
    assert set(json.loads(second).values()) == {None}
    assert render(ROWS.slice(0, 0), "jsonl") == ""


def test_numbers_that_json_does_not_know_are_strings():
    odd = pa.RecordBatch.from_pydict({"d": [float("nan"), float("inf"), -float("inf"), -0.0, 2.0]})
    assert [json.loads(line)["d"] for line in render(odd, "jsonl").splitlines()] == [
        "NaN",
        "Infinity",
        "-Infinity",
        0,
        2,
    ]
    assert render(odd, "csv", header=False).splitlines() == ["NaN", "Infinity", "-Infinity", "-0.0", "2"]


def test_dead_letters_are_rows_like_any_other(tmp_path):
    letters = pa.RecordBatch.from_pylist(
        [{"origin": "s", "reason": "late", "row": '{"a": "\x01"}'}], schema=DEAD_LETTER
    )
    out = sink(tmp_path)
    token = out.begin("dead")
    out.write("dead", token, "0", letters)
    out.publish("dead", token)
    [text] = files(tmp_path).values()
    empty = dict.fromkeys(["detail", "time", "file", "line"])
    assert json.loads(text) == {"origin": "s", "reason": "late", "row": '{"a": "\x01"}', **empty}


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.one_of(st.none(), TEXTS), st.floats()), max_size=6))
def test_python_reads_what_is_written(rows):
    batch = pa.RecordBatch.from_arrays(
        [pa.array([r[i] for r in rows], t) for i, t in enumerate([pa.int64(), pa.string(), pa.float64()])],
        ["n", "s", "d"],
    )
    _, *found = csv.reader(io.StringIO(render(batch, "csv"), newline=""))
    assert [(int(n), s, repr(float(d))) for n, s, d in found] == [(n, s or "", repr(d)) for n, s, d in rows]
    objects = [json.loads(line) for line in render(batch, "jsonl").split("\n")[:-1]]
    assert [(o["n"], o["s"], repr(float(o["d"]))) for o in objects] == [(n, s, repr(d)) for n, s, d in rows]


SCHEMA = Schema.of(
    n=Type.BIGINT, s=Type.STRING, d=Type.DOUBLE, r=Type.REAL, b=Type.BOOLEAN, z=Type.TIMESTAMP, v=Type.INTERVAL
)
MOMENTS = st.integers(-(2**61) + 1, 2**61 - 1)
LINES = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=6)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**60), 2**60),
            st.one_of(st.none(), LINES),
            st.one_of(st.none(), st.floats()),
            st.one_of(st.none(), st.floats(width=32)),
            st.one_of(st.none(), st.booleans()),
            st.one_of(st.none(), MOMENTS),
            st.one_of(st.none(), st.integers(-(10**17), 10**17)),
        ),
        max_size=5,
    )
)
def test_what_a_sink_writes_a_source_reads_back(rows):
    arrays = [
        pa.array([r[i] for r in rows], pa.int64() if i > 4 else f.type.arrow).cast(f.type.arrow)
        for i, f in enumerate(SCHEMA)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.arrow)
    stream = SourceStream("s", SCHEMA, "x", "n")
    header = ",".join(SCHEMA.names)
    parsers: dict[TextFormat, Parser] = {
        "csv": CsvParser(Dialect(), header, len(SCHEMA), SCHEMA.fields, tuple(range(len(SCHEMA))), frozenset({"n"})),
        "jsonl": JsonParser(SCHEMA.fields, frozenset({"n"})),
    }
    for format_, parser in parsers.items():
        lines = pa.array(render(batch, format_).split("\n")[:-1], pa.string())
        raw = pa.RecordBatch.from_arrays([lines], ["line"])
        out = make_decoder(stream, frozenset(SCHEMA.names), parser).decode(raw, BEGINNING)
        assert out.dead.to_pylist() == []
        for column, expected in zip(out.batch.columns.columns, batch.columns, strict=True):
            numbers = pa.types.is_temporal(expected.type)
            shown = [str((c.cast(pa.int64()) if numbers else c).to_pylist()) for c in (column, expected)]
            assert shown[0] == shown[1]
