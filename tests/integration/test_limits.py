"""Runs within a memory limit, from end to end: the load triples and falls, processes are killed, results stay exact."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.processes import tidegate

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
RATES = [40] * 15 + [120] * 15 + [40] * 25
"""Rows a second of each stream."""
LEAST, MOST = 1 * SECOND, 6 * SECOND
LIMIT = 36_000
"""Bytes of state: with the best sizes, the middle of the load would need about twice as much."""

Rows = dict[str, list[tuple[int, int, int]]]
"""Times, keys and ids by stream."""


def write_streams(folder: Path) -> Rows:
    """Write a file for each second of both streams."""
    random = np.random.default_rng(1)
    found: Rows = {"a": [], "b": []}
    for name in found:
        (folder / name).mkdir()
        for second, rate in enumerate(RATES):
            times = np.sort(random.integers(0, SECOND, rate)) + BEGIN + second * SECOND
            drawn = zip(times.tolist(), random.integers(0, 30, rate).tolist(), strict=True)
            new = [(time, key, len(found[name]) + number) for number, (time, key) in enumerate(drawn)]
            found[name] += new
            lines = [f"{key},{number},{time}" for time, key, number in new]
            (folder / name / f"{second:03}.csv").write_text("\n".join(["k,id,at", *lines, ""]))
    return found


def program(folder: Path) -> str:
    streams = "".join(
        f"CREATE STREAM {name} (k INT, id INT, at BIGINT) FROM '{folder / name}' TIMESTAMP BY at UNIT MICROSECONDS "
        "WITH (format = 'csv', files_per_batch = 1);\n"
        for name in "ab"
    )
    window = "WINDOW(RANGE MIN 1 SECOND, MAX 6 SECONDS)"
    join = f"SELECT a.id AS x, b.id AS y FROM a {window}, b {window} WHERE a.k = b.k"
    return f"SET memory_limit = {LIMIT};\n{streams}INSERT INTO '{folder / 'pairs'}' {join};"


def published_sizes(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """The instants and sizes of each stream's window, as the run has published them."""
    rows = [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        stream = row["window"].rpartition(" of ")[2]
        found.setdefault(stream, []).append((row["valid_from"] or 0, row["size"]))
    return {stream: sorted(each) for stream, each in found.items()}


def pairs_by_definition(rows: Rows, sizes: dict[str, list[tuple[int, int]]]) -> Counter[tuple[int, int, int, int]]:
    """Pairs with equal keys and their common validity, where each row has the size in force at its time."""

    def end_of(stream: str, time: int) -> int:
        return time + next(size for instant, size in reversed(sizes[stream]) if instant <= time)

    by_key: dict[int, list[tuple[int, int, int]]] = {}
    for time, key, number in rows["b"]:
        by_key.setdefault(key, []).append((time, end_of("b", time), number))
    return Counter(
        (max(time, start), min(end_of("a", time), end), number, other)
        for time, key, number in rows["a"]
        for start, end, other in by_key.get(key, [])
        if max(time, start) < min(end_of("a", time), end)
    )


def has_more_files(folder: Path, number: int) -> bool:
    return len(list(folder.glob("*"))) > number


def run_and_kill(folder: Path, runtime: str, kills: list[int]) -> None:
    """Run the program to its end; kill it whenever some more results have been published."""
    text, out = folder / "program.sql", folder / "out"
    text.write_text(program(folder))
    for number in [*kills, None]:
        made = tidegate(
            *("run", text, "--once", "--runtime", runtime, "--buckets", "1", "--format", "jsonl", "--times", "micros"),
            *("--checkpoint", folder / "checkpoint", "--out", out),
            log=folder / "log",
        )
        if number is not None and made.wait_until(partial(has_more_files, folder / "pairs", number)):
            made.kill()
            continue
        assert made.wait() == 0, made.words
        break


@pytest.mark.parametrize(
    ("runtime", "kills"),
    [
        ("embedded", []),
        ("embedded", [8, 19, 24]),
        pytest.param("spark", [18], marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_results_are_exact_for_the_published_sizes_whoever_is_killed(tmp_path: Path, runtime: str, kills: list[int]):
    rows = write_streams(tmp_path)
    run_and_kill(tmp_path, runtime, kills)
    sizes = published_sizes(tmp_path / "out" / "quality")
    assert all(LEAST <= size <= MOST for each in sizes.values() for _, size in each)
    assert min(size for each in sizes.values() for _, size in each) < 0.8 * MOST
    assert all(each[-1][1] > 0.8 * MOST for each in sizes.values())
    lines = [
        json.loads(line) for file in (tmp_path / "pairs").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    found = Counter((row["valid_from"], row["valid_to"], row["x"], row["y"]) for row in lines)
    assert found == pairs_by_definition(rows, sizes)
