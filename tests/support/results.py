"""What a run has published, in a form that does not depend on how it is cut into rows and files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from reference.values import canonical_row

from support.micros import in_micros

Relation = dict[tuple[object, ...], dict[int, int]]
"""For each row, the instants at which its number changes, and by how much: the relation at every instant."""


@dataclass(frozen=True)
class Published:
    """All outputs as relations, the dead letters as a multiset, and what each step says that it left out."""

    relations: dict[str, Relation]
    dead: Counter[str]
    shed: tuple[str, ...] = ()

    @property
    def reasons(self) -> set[str]:
        return {json.loads(letter)["reason"] for letter in self.dead}


def published(folder: Path) -> Published:
    """What stands in an output folder now; what is only staged does not count."""
    told = ("dead_letters", "shedding")
    queries = {p.name: _parquet(p) for p in sorted(folder.iterdir()) if p.name not in told}
    letters, shed = (
        [line for p in sorted((folder / name).glob("*.jsonl")) for line in p.read_text().splitlines()] for name in told
    )
    relations = {name: relation(in_micros(table).to_pylist()) for name, table in queries.items()}
    return Published(relations, Counter(map(_letter, letters)), tuple(shed))


def relation(rows: Iterable[Mapping[str, Any]]) -> Relation:
    changes: Relation = {}
    for row in rows:
        begin, end, *values = row.values()
        assert begin < end, f"an empty validity: {row}"
        at = changes.setdefault(canonical_row(values), {})
        at[begin] = at.get(begin, 0) + 1
        at[end] = at.get(end, 0) - 1
    coalesced = {values: {t: n for t, n in sorted(at.items()) if n} for values, at in changes.items()}
    return {values: at for values, at in coalesced.items() if at}


def leftovers(folder: Path) -> list[str]:
    """Files of attempts, which must not stay when all is done."""
    return [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if ".staging" in p.parts and p.is_file()]


def _letter(line: str) -> str:
    letter = json.loads(line)
    if letter["reason"] == "late":  # behind which watermark depends on how rows arrive, and a crash may change that
        del letter["detail"]
    return json.dumps(letter)


def _parquet(folder: Path) -> pa.Table:
    tables = [pq.read_table(p) for p in sorted(folder.glob("*.parquet"))]
    return pa.concat_tables(tables) if tables else pa.table({})
