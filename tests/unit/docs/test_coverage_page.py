"""The page that says what of PIPES is here: all of it is there, and what it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from support.paths import ROOT

PAGE = ROOT / "docs" / "pipes-coverage.md"
LAST = 120
COLUMNS = 4

ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| F-")
]
by_id = pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+\.(?:py|lark)(?:::\w+)?)`", text)


def test_every_capability_is_there_once_and_in_order() -> None:
    assert [row[0] for row in ROWS] == [f"F-{number:03d}" for number in range(1, LAST + 1)]


@by_id
def test_a_row_is_complete(row: list[str]) -> None:
    assert len(row) == COLUMNS
    assert all(row)
    assert "::" in row[2] or "not built: " in row[2], "neither a test nor a reason"


@pytest.mark.parametrize("name", sorted({name for name in named(PAGE.read_text(encoding="utf-8")) if "::" in name}))
def test_a_test_that_is_named_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert function in functions_of(ROOT / "tests" / file)


@by_id
def test_code_that_is_named_exists(row: list[str]) -> None:
    places = named(row[3])
    assert places
    for place in places:
        base = ROOT if place.startswith(("tests/", "examples/")) else ROOT / "src" / "tidegate"
        assert (base / place).is_file(), place
