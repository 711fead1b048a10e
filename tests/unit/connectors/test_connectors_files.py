"""Where sources look for files, and how reading resumes."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from support.reading import progress_of, read_rows

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.csv_source import CsvSource
from tidegate.connectors.formats import Format
from tidegate.connectors.ranges import Source
from tidegate.connectors.source import open_source
from tidegate.errors import DataError
from tidegate.schema import Schema, Type

SCHEMA = Schema.of(t=Type.BIGINT, v=Type.INT)


def stream(location: str | Path, **options: str) -> SourceStream:
    return SourceStream("s", SCHEMA, str(location), "t", options=tuple(options.items()))


def lines(source: Source, *, rows: int = 100, growing: bool = False) -> list[str]:
    return [line for batch, _ in read_rows(source, None, rows, growing=growing) for line in batch.column(0).to_pylist()]


def test_the_ending_tells_the_format(tmp_path):
    endings = {
        "a.csv": Format.CSV,
        "a.CSV": Format.CSV,
        "a.csv.gz": Format.CSV,
        "a.jsonl": Format.JSONL,
        "a.ndjson": Format.JSONL,
        "a.json.gz": Format.JSONL,
        "a.parquet": Format.PARQUET,
        "*.csv": Format.CSV,
    }
    assert {name: open_source(stream(tmp_path / name)).format for name in endings} == endings


def test_the_option_format_overrides_the_ending(tmp_path):
    assert open_source(stream(tmp_path / "a.txt", format="CSV")).format is Format.CSV


def test_generators_and_dataframes_are_known_by_their_scheme():
    table = pa.table({"t": [1], "v": [2]})
    assert open_source(stream("generator://?rows=1")).format is Format.GENERATOR
    assert open_source(stream("dataframe://d"), tables={"d": table}).format is Format.DATAFRAME


def failure(location: str | Path, **options: str) -> str:
    with pytest.raises(DataError) as caught:
        open_source(stream(location, **options)).check()
    return caught.value.render()


def test_an_unknown_scheme_is_explained():
    assert failure("hdsf://host/a.csv") == (
        "error[D101]: stream 's': no connector reads 'hdsf://host/a.csv'\n   = hint: did you mean 'hdfs'?"
    )


def test_an_unknown_ending_is_explained(tmp_path):
    (tmp_path / "a.txt").write_text("t,v\n")
    assert failure(tmp_path / "a.txt") == (
        f"error[D101]: stream 's': {tmp_path}/a.txt has no file ending that gives its format (a.txt)\n"
        "   = hint: add the option format = 'csv', 'jsonl' or 'parquet'"
    )


def test_a_folder_of_several_formats_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("t,v\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    assert failure(tmp_path) == (
        f"error[D101]: stream 's': {tmp_path} holds files of several formats (a.csv, b.jsonl)\n"
        "   = hint: add the option format = 'csv', 'jsonl' or 'parquet'"
    )


def test_an_unknown_format_and_an_unknown_option_are_explained(tmp_path):
    assert failure(tmp_path, format="cvs") == (
        "error[D101]: stream 's': unknown format 'cvs'\n   = hint: did you mean 'csv'?"
    )
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        assert failure(tmp_path / name, formats="x") == (
            "error[D105]: stream 's': unknown option 'formats'\n   = hint: did you mean 'format'?"
        )
        assert failure(tmp_path / name, Files_Per_Batch="0") == (
            "error[D105]: stream 's': files_per_batch = '0'\n   = hint: write a whole number of 1 or more"
        )


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_limit_for_lines_that_is_no_number_is_refused(tmp_path, name):
    assert failure(tmp_path / name, max_line_bytes="10 MB") == (
        "error[D105]: stream 's': max_line_bytes = '10 MB'\n   = hint: write a whole number of 1 or more"
    )


def test_a_missing_file_names_the_absolute_paths_tried(tmp_path, monkeypatch):
    here, base = tmp_path / "here", tmp_path / "base"
    here.mkdir()
    monkeypatch.chdir(here)
    assert failure("data/a.csv") == f"error[D102]: stream 's': no data at {here}/data/a.csv"
    assert failure("data/a.csv", base=str(base)) == (
        f"error[D102]: stream 's': no data at {here}/data/a.csv or {base}/data/a.csv"
    )


def test_an_empty_glob_and_an_empty_folder_are_missing_data(tmp_path):
    assert "no data at" in failure(tmp_path / "*.csv")
    assert failure(tmp_path, format="csv") == (
        f"error[D102]: stream 's': no data at {tmp_path}\n   = hint: the folder is empty"
    )
    (tmp_path / "out.csv").mkdir()
    assert failure(tmp_path / "out.csv").endswith("hint: the folder exists, but no file in it ends in .csv, .csv.gz")


def test_an_unknown_dataframe_is_missing_data():
    with pytest.raises(DataError, match="there is no DataFrame 'sensors'") as caught:
        open_source(stream("dataframe://sensors"), tables={"sensor": pa.table({})})
    assert (caught.value.code, caught.value.hint) == ("D102", "did you mean 'sensor'?")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_unreadable(tmp_path):
    (tmp_path / "a.csv").touch(mode=0o000)
    assert failure(tmp_path / "a.csv").startswith("error[D104]")


def test_a_compressed_file_that_is_none_is_unreadable(tmp_path):
    (tmp_path / "a.csv.gz").write_text("t,v\n1,2\n")
    assert failure(tmp_path / "a.csv.gz").startswith(f"error[D104]: {tmp_path}/a.csv.gz cannot be read: ")


def test_a_relative_path_is_found_beside_the_program_if_it_is_not_here(tmp_path, monkeypatch):
    here, base = tmp_path / "here", tmp_path / "base"
    here.mkdir()
    base.mkdir()
    monkeypatch.chdir(here)
    (base / "a.csv").write_text("t,v\n1,1\n")
    source = open_source(stream("a.csv", base=str(base)))
    assert lines(source) == ["t,v", "1,1"]
    (here / "a.csv").write_text("t,v\n2,2\n")
    assert lines(open_source(stream("a.csv", base=str(base)))) == ["t,v", "2,2"]


def test_a_uri_of_a_local_file_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("t,v\n1,1\n")
    assert lines(open_source(stream(f"file://{tmp_path}/a.csv"))) == ["t,v", "1,1"]


def test_files_of_a_folder_come_by_name_without_hidden_ones(tmp_path):
    for name in ("b.csv", "a.csv", "_SUCCESS.csv", ".c.csv", "README.md"):
        (tmp_path / name).write_text(f"t,v\n{name}\n")
    assert lines(open_source(stream(tmp_path))) == ["t,v", "a.csv", "t,v", "b.csv"]


def test_a_glob_reaches_below_folders_and_skips_hidden_ones(tmp_path):
    for name in ("x/1.jsonl", "y/2.jsonl", ".z/3.jsonl", "y/deep/4.jsonl", "y/5.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name + "\n")
    assert lines(open_source(stream(tmp_path / "*" / "?.jsonl"))) == ["x/1.jsonl", "y/2.jsonl"]


def test_a_name_with_brackets_is_a_name_if_there_is_such_a_file(tmp_path):
    (tmp_path / "a[1].jsonl").write_text("1\n")
    assert lines(open_source(stream(tmp_path / "a[1].jsonl"))) == ["1"]


def test_files_that_count_are_known_to_hadoop_too(tmp_path):
    (tmp_path / "a.csv").write_text("t,v\n")
    found, declared = open_source(stream(tmp_path)), open_source(stream(tmp_path, format="csv"))
    assert isinstance(found, CsvSource)
    assert isinstance(declared, CsvSource)
    assert found.files.name_filter == "*{.csv,.csv.gz}"
    assert declared.files.name_filter == "*"


def test_batches_have_at_most_the_rows_asked_for_and_resume_anywhere(tmp_path):
    texts = {"a.jsonl": ["1", "", "zwei", "3"], "b.jsonl": ["vier"], "c.jsonl.gz": ["5", "6", "7"], "d.jsonl": []}
    for name, content in texts.items():
        data = "".join(f"{line}\r\n" if line == "3" else f"{line}\n" for line in content).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    source = open_source(stream(tmp_path))
    whole = lines(source)
    assert whole == ["1", "", "zwei", "3\r", "vier", "5", "6", "7"]
    for rows in (1, 2, 3, 100):
        seen: list[str] = []
        for batch, position in read_rows(source, None, rows):
            assert 0 < batch.num_rows <= rows
            seen += batch.column(0).to_pylist()
            again = read_rows(source, json.loads(json.dumps(position)), rows)
            assert seen + [line for more, _ in again for line in more.column(0).to_pylist()] == whole


def read_on(source: Source, position, **options):
    seen: list[str] = []
    for batch, after in read_rows(source, position, 10, **options):
        seen, position = seen + batch.column(0).to_pylist(), after
    return seen, position


def test_new_files_and_appended_lines_are_found_later(tmp_path):
    (tmp_path / "b.jsonl").write_text("1\n2\n")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b"3\n"))
    source = open_source(stream(tmp_path))
    seen, position = read_on(source, None)
    assert seen == ["1", "2", "3"]
    assert progress_of(position) == {"b.jsonl": 4, "c.jsonl.gz": None}
    assert read_on(source, position) == ([], position)
    (tmp_path / "a.jsonl").write_text("0\n")
    with (tmp_path / "b.jsonl").open("a") as more:
        more.write("4\n")
    seen, position = read_on(source, position)
    assert seen == ["0", "4"]
    assert read_on(source, position) == ([], position)


def test_a_last_line_without_end_is_a_line_unless_the_file_is_growing(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2")
    source = open_source(stream(path))
    assert lines(source) == ["1", "2"]
    seen, position = read_on(source, None, growing=True)
    assert seen == ["1"]
    path.write_text("1\n23\n")
    assert read_on(source, position, growing=True)[0] == ["23"]


def test_a_file_that_shrank_is_an_error(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n")
    source = open_source(stream(path))
    _, position = read_on(source, None)
    path.write_text("1\n")
    with pytest.raises(DataError, match="was replaced: 4 bytes of the file before it were read") as caught:
        read_on(source, position)
    assert caught.value.code == "D104"


def test_a_truncated_compressed_file_is_an_error(tmp_path):
    data = gzip.compress(os.urandom(20_000).hex().encode())
    (tmp_path / "a.jsonl.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError) as caught:
        lines(open_source(stream(tmp_path / "a.jsonl.gz")))
    assert caught.value.code == "D104"


def test_lines_longer_than_a_block_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.connectors.text_files.BLOCK", 8)
    content = ["x" * 50, "", "y" * 7, "z" * 8, "end"]
    (tmp_path / "a.jsonl").write_text("\n".join(content))
    source = open_source(stream(tmp_path / "a.jsonl"))
    assert lines(source, rows=2) == content
    for _, position in read_rows(source, None, 1):
        assert read_on(source, position)[0] == content[len(content) - len(read_on(source, position)[0]) :]
