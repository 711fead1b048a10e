"""docs/papers.md: all of each paper is there, what its rows name exists, and their states fit."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from support.papers import (
    CODE,
    NOTHING,
    ROWS,
    STATES,
    TEST,
    Row,
    all_named_tests,
    functions_of,
    has_figure,
    path_of,
    rows_of,
)
from support.paths import ROOT

LAST = {"F": 135, "T": 32, "R": 32, "K": 48, "S": 32}
"""The number of the last row of each paper."""

WIDTH = {"F": 3}
"""Digits of numbers; two where nothing is said."""

by_id = pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])


def test_every_row_is_there_once_and_in_order():
    expected = [f"{paper}-{n:0{WIDTH.get(paper, 2)}d}" for paper, last in LAST.items() for n in range(1, last + 1)]
    assert [row.id for row in ROWS] == expected


def problems(row: Row) -> list[str]:
    """Return what is wrong in a row: cells that are empty, and a state that does not fit."""
    has_reason, is_shown = "not built: " in row.test, bool(row.tests) or bool(row.figures)
    rules = {
        "a cell is empty": not all(row),
        f"{row.state} is no state": row.state not in STATES,
        "built, but neither a test nor a benchmark": row.state in {"built", "in part"} and not is_shown,
        "built, but something is not": row.state == "built" and ("not built" in row.test or "replaced: " in row.test),
        "replaced by what?": row.state == "replaced" and not ("replaced: " in row.test and row.tests),
        "no reason": row.state in {"in part", "not built"} and not has_reason,
        "tests that are not written as tests": row.test.count("::") != len(row.tests),
        "a benchmark without a figure": (row.benchmark == NOTHING) == bool(row.figures),
    }
    return [problem for problem, is_there in rules.items() if is_there]


@by_id
def test_the_state_of_a_row_fits(row):
    assert problems(row) == []


def test_rows_that_are_wrong_are_noticed():
    cells = "| X-1 | a thing | {} | {} | `a.py` | {} |"

    def found(state, test, benchmark=NOTHING):
        return problems(rows_of("\n## PIPES\n" + cells.format(state, test, benchmark))[0])

    test = "`unit/docs/test_papers_page.py::test_the_state_of_a_row_fits`"
    assert found("built", test) == found("built", NOTHING, "`kmon: fig4_worst_memory`") == []
    assert found("built", NOTHING) == ["built, but neither a test nor a benchmark"]
    assert found("built", f"{test}; not built: more") == ["built, but something is not"]
    assert found("replaced", test) == ["replaced by what?"]
    assert found("in part", test) == found("not built", NOTHING) == ["no reason"]
    assert found("done", test) == ["done is no state"]
    assert found("built", test, "kmon") == ["a benchmark without a figure"]
    assert found("built", f"{test}, test_x.py::test_y") == ["tests that are not written as tests"]


@pytest.mark.parametrize("test", all_named_tests(), ids=lambda test: f"{test.file}::{test.function}")
def test_a_test_that_is_named_exists_and_is_not_skipped(test):
    path = ROOT / "tests" / test.file
    function = functions_of(path)[test.function]
    assert function.name.startswith("test_")
    assert path.name.startswith("test_")
    assert not always_skipped(path.read_text(encoding="utf-8"), function.name)


def always_skipped(text: str, name: str) -> bool:
    """Return whether a test, or its whole module, has the mark `skip`, or `skipif` with a condition that is written."""
    tree = ast.parse(text)
    marks = [each for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name for each in n.decorator_list]
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            marks += node.value.elts if isinstance(node.value, ast.List) else [node.value]
    words = [ast.unparse(each) for each in marks]
    return any(word.startswith(("pytest.mark.skip(", "pytest.mark.skipif(True")) for word in words) or (
        "pytest.mark.skip" in words
    )


@pytest.mark.parametrize(
    ("marks", "is_skipped"),
    [
        ("@pytest.mark.skip", True),
        ("@pytest.mark.skip(reason='x')", True),
        ("@pytest.mark.skipif(True, reason='x')", True),
        ("@pytest.mark.skipif(sys.version_info < (3, 12), reason='x')", False),
        ("@pytest.mark.spark", False),
        ("pytestmark = [pytest.mark.slow, pytest.mark.skip]\n", True),
        ("pytestmark = pytest.mark.slow\n", False),
    ],
)
def test_a_test_that_is_always_skipped_is_noticed(marks, is_skipped):
    assert always_skipped(f"{marks}\ndef test_x(): pass", "test_x") is is_skipped


def test_pytest_collects_the_tests_that_are_named():
    named = all_named_tests()
    files = sorted({f"tests/{test.file}" for test in named})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    nodes = {line.partition("[")[0] for line in found.stdout.splitlines() if "::" in line}
    assert [test.node for test in named if test.node not in nodes] == []


@by_id
def test_code_that_is_named_exists(row):
    assert row.files
    assert [str(path) for path in row.files if not path.is_file()] == []
    assert len(row.files) == row.code.count("`") / 2


@by_id
def test_a_benchmark_that_is_named_has_the_figure(row):
    assert [f"{name}: {figure}" for name, figure in row.figures if not has_figure(name, figure)] == []


def test_figures_that_do_not_exist_are_noticed():
    assert has_figure("kmon", "fig4_k*_kept")
    assert not has_figure("kmon", "fig4_k*_keeps")
    assert not has_figure("kmon", "fig21_worst_memory")
    assert not has_figure("no_such_benchmark", "fig4_k*_kept")


def test_paths_are_read_as_the_page_says():
    assert CODE.findall("`edge.py`, `benchmarks/kmon.py`") == ["edge.py", "benchmarks/kmon.py"]
    assert path_of("edge.py") == ROOT / "src/tidegate/edge.py"
    assert path_of("benchmarks/kmon.py") == ROOT / "benchmarks/kmon.py"
    assert TEST.findall("`unit/docs/test_x.py::test_y`") == [("unit/docs/test_x.py", "test_y")]
