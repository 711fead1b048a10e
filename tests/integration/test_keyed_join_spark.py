"""Random keyed joins on Spark, stopped and started again: the output is the meaning there too."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from reference.semantics import relations_of
from strategies.many_one_programs import LENGTHS, Stream, World, world_of
from support.results import Relation, published

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import walk
from tidegate.language.bind.program import bind
from tidegate.optimizer import keyed_join
from tidegate.optimizer.optimize import optimize
from tidegate.session import Session

pytestmark = [pytest.mark.spark]

FILES, FIRST = 6, 3
LAST = 60
SEEDS = {8: -100, 10: 0, 36: -2, 37: -100}
"""Of each program, by how much more than is declared its rows deviate."""

SET = "SET constraints = monitored; SET monitor_events = 1; SET monitor_window = 2; SET monitor_sample = 0.2;\n"


def worlds() -> list[World]:
    return [world_of(Random(seed), most=3, last=LAST, prefix=f"w{seed}_") for seed in SEEDS]


def written(world: World, stream: Stream, folder: Path, numbers: range) -> None:
    """Some of the files of a stream, in the order in which its rows arrive."""
    place, rows = folder / stream.name, [row for row in world.rows if row.stream == stream.name]
    place.mkdir(exist_ok=True)
    for number, some in enumerate(np.array_split(np.arange(len(rows)), FILES)):
        if number in numbers:
            pq.write_table(stream.table([rows[at] for at in some]), place / f"{number}.parquet")
            os.utime(place / f"{number}.parquet", (number, number))


def at(relation: Relation, instant: int) -> Counter[tuple[object, ...]]:
    numbers = {row: sum(n for when, n in changes.items() if when <= instant) for row, changes in relation.items()}
    return Counter({row: n for row, n in numbers.items() if n})


def test_random_joins_on_spark_are_exact_though_they_are_stopped_and_started(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed_join, "why_plain_is_cheaper", lambda *_: None)
    all_ = worlds()
    declared = [
        w.declared(more, 0.5, " WITH (files_per_batch = 1)") for w, more in zip(all_, SEEDS.values(), strict=True)
    ]
    text = SET + "".join(declared).format(folder=tmp_path) + ";\n".join(world.query for world in all_)
    for numbers in (range(FIRST), range(FIRST, FILES)):
        for world in all_:
            for stream in world.streams.values():
                written(world, stream, tmp_path, numbers)
        with Session(spark=spark, buckets=2) as session:
            running = session.sql(text, once=True, checkpoint=str(tmp_path / "kept"), out=str(tmp_path / "out"))
            assert running is not None
            running.wait()
    found = published(tmp_path / "out")
    assert not found.dead
    for world, query in zip(all_, bind(text).queries, strict=True):
        assert any(isinstance(node, KeyedJoin) for node in walk(optimize(query.plan, ConstraintSettings())[0]))
        plan, _ = optimize(query.plan, ConstraintSettings(ConstraintUse.OFF))
        instants = range(LAST + max(LENGTHS) + 2)
        expected = relations_of(plan, world.elements, instants)
        assert any(expected.values()), query.name
        assert {t: at(found.relations[query.name], t) for t in instants} == expected
