"""Golden cases: a query over shared data, and the rows that it must give.

A case is a folder of `cases/` with `query.sql` and, for each query of it, the expected rows:
`expected.csv`, or `expected.<query>.csv` if there are several.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from reference.semantics import Raw

from tidegate.catalog.catalog import Catalog, Program, Query, SourceStream
from tidegate.language.bind.program import bind
from tidegate.schema import Type

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, eq=False)
class Golden:
    """A case, bound; its relative paths are relative to its own folder, as on the command line."""

    name: str
    folder: Path
    program: Program

    @property
    def queries(self) -> tuple[Query, ...]:
        return self.program.queries

    def expected(self, query: Query) -> Path:
        return self.folder / ("expected.csv" if len(self.queries) == 1 else f"expected.{query.name}.csv")

    @property
    def raw(self) -> Raw:
        return {s.name: raw_rows(self.folder / s.location, s) for s in source_streams(self.program)}


def names() -> list[str]:
    return sorted(folder.name for folder in (HERE / "cases").iterdir())


@cache
def load(name: str) -> Golden:
    folder = HERE / "cases" / name
    program = bind((folder / "query.sql").read_text(encoding="utf-8"))
    located = [replace(s, options=(("base", str(folder)),)) for s in source_streams(program)]
    return Golden(name, folder, Program(with_streams(program.catalog, located), program.queries))


def merged(cases: list[Golden]) -> Program:
    """All queries of the cases as one program; what a name means is the same in all of them."""
    streams: dict[str, SourceStream] = {}
    for stream in (s for case in cases for s in source_streams(case.program)):
        assert replace(stream, options=()) == replace(streams.get(stream.name, stream), options=())
        streams[stream.name] = stream
    queries = [replace(q, name=name_in_all(case, q)) for case in cases for q in case.queries]
    return Program(with_streams(Catalog(), streams.values()), tuple(queries))


def name_in_all(case: Golden, query: Query) -> str:
    return f"{case.name}__{query.name}"


def with_streams(catalog: Catalog, streams) -> Catalog:
    for stream in streams:
        catalog = catalog.with_stream(stream)
    return catalog


def source_streams(program: Program) -> Iterator[SourceStream]:
    return (s for s in program.catalog if isinstance(s, SourceStream))


def raw_rows(path: Path, stream: SourceStream) -> list[tuple[int, Mapping[str, object]]]:
    """The rows of a file with their times, read without the connectors."""
    rows = _read(path.resolve(), stream).to_pylist()
    assert stream.time_column is not None
    times = [row[stream.time_column] for row in rows]
    micros = pa.array(times, stream.schema.type_of(stream.time_column).arrow).cast(pa.int64()).to_pylist()
    return list(zip(micros, rows, strict=True))


def _read(path: Path, stream: SourceStream) -> pa.Table:
    match path.suffix:
        case ".parquet":
            return pq.read_table(path, columns=list(stream.schema.names))
        case ".csv":
            types = {f.name: f.type.arrow for f in stream.schema}
            options = arrow_csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            )
            return arrow_csv.read_csv(path, convert_options=options)
    objects = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return pa.table({f.name: _json_column([o.get(f.name) for o in objects], f.type) for f in stream.schema})


def _json_column(values: list[object], type_: Type) -> pa.Array:
    shown = [json.dumps(v, ensure_ascii=False) if isinstance(v, dict) else v for v in values]
    return pa.array(shown, pa.string()).cast(type_.arrow) if type_ is Type.TIMESTAMP else pa.array(shown, type_.arrow)
