"""Lines of text files: rows of CSV over several lines, lines that are too long, where each line is."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reading import read_rows

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.csv_parser import Dialect
from tidegate.connectors.file_ranges import find_file_ranges
from tidegate.connectors.files import FileSet
from tidegate.connectors.origins import numbers_of, place_of
from tidegate.connectors.ranges import Source
from tidegate.connectors.source import open_source
from tidegate.connectors.text_files import LineRules, read_lines
from tidegate.errors import DataError
from tidegate.schema import Schema, Type
from tidegate.session import Session
from tidegate.time import BEGINNING

SCHEMA = Schema.of(t=Type.BIGINT, name=Type.STRING, price=Type.DOUBLE)
EVERY = frozenset(SCHEMA.names)


def csv_source(path: Path, **options: str) -> Source:
    return open_source(SourceStream("s", SCHEMA, str(path), "t", options=tuple(options.items())))


def read(source: Any, position=None, *, rows: int = 100, growing: bool = False):
    """Lines with their numbers, and the position after them."""
    found = []
    for batch, after in read_rows(source, position, rows, growing=growing):
        numbers = numbers_of(batch, np.arange(batch.num_rows)).to_pylist()
        found += list(zip(numbers, batch.column(0).to_pylist(), strict=True))
        position = json.loads(json.dumps(after))
    return found, position


def decoded(source: Source, **options):
    """Rows and the texts of dead letters."""
    rows, dead = [], []
    for batch, _ in read_rows(source, None, options.pop("rows", 100), **options):
        out = source.decoder(EVERY).decode(batch, BEGINNING)
        rows += [tuple(row.values()) for row in out.batch.columns.to_pylist()]
        dead += [(letter["detail"], letter["row"]) for letter in out.dead.to_pylist()]
    return rows, dead


UNCLOSED = "a quote is not closed, or is followed by something other than a delimiter"
MULTILINE = 't,name,price\n1,"two\nlines",1\n2,plain,2\n3,"three ""\n\nlines""",3\n'


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quoted_csv_field_with_line_breaks_is_one_row(tmp_path, name, end):
    data = MULTILINE.replace("\n", end).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    for rows in (1, 2, 100):
        assert decoded(csv_source(tmp_path / name), rows=rows) == (
            [(1, f"two{end}lines", 1.0), (2, "plain", 2.0), (3, f'three "{end}{end}lines"', 3.0)],
            [],
        )
        assert [number for number, _ in read(csv_source(tmp_path / name), rows=rows)[0]] == [1, 2, 4, 5]


def test_an_unclosed_quote_is_one_dead_letter_and_costs_no_other_row(tmp_path):
    path = tmp_path / "a.csv"
    for following in ("2,b,2\n3,c,3\n", '2,b,2\n3,"c",3\n', '2,"b\n",2\n3,c,3\n'):
        path.write_text(f't,name,price\n1,"open,1\n{following}')
        rows, dead = decoded(csv_source(path))
        assert ([t for t, _, _ in rows], dead) == ([2, 3], [(UNCLOSED, '1,"open,1')])


def test_an_unclosed_quote_is_looked_for_no_further_than_a_line_may_be_long(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.connectors.text_files.BLOCK", 64)
    path = tmp_path / "a.csv"
    others = [f"{i},x,1" for i in range(1000)]
    path.write_text("\n".join(["t,name,price", '7,"open,1', *others, 'and here" it ends', "8,y,2"]) + "\n")
    read_blocks = []
    source = csv_source(path, max_line_bytes="100")
    for batch, _ in read_rows(source, None, 1000):
        read_blocks.append(batch.num_rows)
    assert max(read_blocks) < 30  # nothing is held back for long
    rows, dead = decoded(source)
    assert len(rows) == 1001
    assert dead == [(UNCLOSED, '7,"open,1'), ("1 field where 3 belong", 'and here" it ends')]


def test_a_row_whose_closing_quote_has_not_come_yet_is_left_for_later(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('t,name,price\n1,a,1\n2,"begun\n')
    source = csv_source(path)
    seen, position = read(source, growing=True)
    assert seen == [(1, "t,name,price"), (2, "1,a,1")]
    assert read(source, position, growing=True) == ([], position)
    with path.open("a") as more:
        more.write('still\nended",2\n3,c,')
    seen, position = read(source, position, growing=True)
    assert seen == [(3, '2,"begun\nstill\nended",2')]
    assert read(source, position)[0] == [(6, "3,c,")]


def test_a_last_line_without_end_of_a_compressed_file_is_read_while_the_query_runs(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"t,name,price\n1,a,1\n2,b,2"))
    seen, _ = read(csv_source(tmp_path / "a.csv.gz"), growing=True)
    assert [line for _, line in seen] == ["t,name,price", "1,a,1", "2,b,2"]


def test_a_header_may_have_line_breaks_in_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('t,name,"price\n"\n1,a,2\n')
    source = csv_source(tmp_path / "a.csv")
    source.check()
    assert decoded(source) == ([(1, "a", 2.0)], [])


PIECES = st.sampled_from(["a", '"', ",", "\n", '""', '"a', 'b"', ',"', '",', '"\n', '\n"', '"a\n"', "\r\n", "\r"])


class Texts(NamedTuple):
    """A file of lines of CSV, without regard to how many fields they have."""

    path: Path
    rules: LineRules

    @property
    def files(self) -> FileSet:
        return FileSet(str(self.path))

    def find_ranges(self, position, *, growing):
        return find_file_ranges(self.files, position, growing=growing, appendable=True)

    def read_range(self, part, rows, *, columns=None):
        return read_lines(self.files, part, rows, self.rules)


def expected(text: str, limit: int) -> list[tuple[int, str]]:
    """By definition: a line, or the fewest lines that are well-formed only together."""
    lines = text.removesuffix("\n").split("\n") if text else []
    pattern, found, i = re.compile(Dialect().pattern.replace("$", r"\Z")), [], 0
    while i < len(lines):
        last = i
        for j in range(i, len(lines)):
            joined = "\n".join(lines[i : j + 1])
            if j > i and len(joined) > limit:
                break
            if pattern.match(joined.removesuffix("\r")):
                last = j
                break
        found.append((i + 1, "\n".join(lines[i : last + 1])))
        i = last + 1
    return found


@given(st.lists(PIECES, max_size=25), st.integers(1, 20), st.integers(1, 4), st.integers(3, 12))
def test_rows_of_csv_do_not_depend_on_blocks_batches_and_restarts(tmp_path_factory, pieces, block, rows, limit):
    path = tmp_path_factory.mktemp("texts") / "a.csv"
    text = "".join(pieces)
    path.write_bytes(text.encode())
    source = Texts(path, LineRules(limit, quote='"'))
    whole = [(n, line if "\n" in line else line[:limit]) for n, line in expected(text, limit)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.connectors.text_files.BLOCK", block)
        seen: list[str] = []
        position = None
        for batch, after in read_rows(source, None, rows):
            assert read(source, position, rows=rows)[0] == whole[len(seen) :]
            seen, position = seen + batch.column(0).to_pylist(), json.loads(json.dumps(after))
        assert [line if "\n" in line else line[:limit] for line in seen] == [line for _, line in whole]
        growing, position = read(source, rows=rows, growing=True)
        rest, _ = read(source, position, rows=rows)
        assert [*growing, *rest] == whole


def test_a_line_that_is_too_long_is_one_dead_letter_with_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.connectors.text_files.BLOCK", 1 << 12)
    text = "t,name,price\n1,a,1\n2," + "x" * 50_000 + ",2\n3,c,3\n4," + "y" * 3_000 + ",4\n5,e,5\n"
    for name, data in (("a.csv", text.encode()), ("b.csv.gz", gzip.compress(text.encode()))):
        (tmp_path / name).write_bytes(data)
        source = csv_source(tmp_path / name, max_line_bytes="2000")
        detail = "the line is longer than 2,000 bytes: see the option max_line_bytes"
        assert decoded(source) == (
            [(1, "a", 1.0), (3, "c", 3.0), (5, "e", 5.0)],
            [(detail, ("2," + "x" * 1000)[:1000]), (detail, ("4," + "y" * 1000)[:1000])],
        )
        numbers = [n for n, _ in read(source)[0]]
        assert numbers == [1, 2, 3, 4, 5, 6]


def test_a_line_that_is_too_long_and_still_being_written_is_left_for_later(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,name,price\n1,a,1\n2," + "x" * 5_000)
    source = csv_source(path, max_line_bytes="2000")
    seen, position = read(source, growing=True)
    assert [n for n, _ in seen] == [1, 2]
    with path.open("a") as more:
        more.write(",2\n3,c,3\n")
    assert [n for n, _ in read(source, position, growing=True)[0]] == [3, 4]


def test_a_header_that_is_too_long_is_an_error_that_reads_no_further(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"\0" * 20_000_000))
    with pytest.raises(DataError) as caught:
        csv_source(tmp_path / "a.csv.gz").check()
    assert caught.value.code == "D108"
    assert "is longer than 4,194,304 bytes" in caught.value.message


def test_every_line_knows_its_file(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("t,name,price\n1,a,1\n")
    files = [place_of(batch).file for batch, _ in read_rows(csv_source(tmp_path), None, 10)]
    assert files == [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]


def test_dead_letters_name_their_line_after_a_restart(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('t,name,price\n1,"two\nlines",1\n2,b,bad\n')
    text = f"CREATE STREAM s (t BIGINT, name STRING, price INT) FROM '{path}' TIMESTAMP BY t; SELECT price FROM s"
    lines = []
    for more in ("", '3,"two\n\nmore",3\n4,d,bad\n'):
        with path.open("a") as file:
            file.write(more)
        with Session(runtime="embedded") as session:
            query = session.sql(text, once=True, checkpoint=str(tmp_path / "checkpoint"))
            query.wait()
            lines += [(letter["file"], letter["line"]) for letter in query.dead_letters().to_pylist()]
    assert lines == [(str(path), 4), (str(path), 8)]
