"""The tables of docs/papers.md, and what they name: tests, code and figures of benchmarks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support.paths import ROOT

PAGE = ROOT / "docs" / "papers.md"
CELLS = 6
NOTHING = "–"
STATES = ("built", "replaced", "in part", "not built")

TEST = re.compile(r"`((?:unit|property|golden|integration)/[\w/]+\.py)::(\w+)`")
CODE = re.compile(r"`([\w/]+\.(?:py|lark|sql))`")
FIGURE = re.compile(r"`(\w+): ([\w*]+)`")


class NamedTest(NamedTuple):
    """A test as the page names it."""

    file: str
    function: str

    @property
    def node(self) -> str:
        """Its name for pytest."""
        return f"tests/{self.file}::{self.function}"


class Row(NamedTuple):
    """A row of a table."""

    id: str
    capability: str
    state: str
    test: str
    code: str
    benchmark: str

    @property
    def tests(self) -> list[NamedTest]:
        return [NamedTest(*named) for named in TEST.findall(self.test)]

    @property
    def files(self) -> list[Path]:
        """Files of its code."""
        return [path_of(place) for place in CODE.findall(self.code)]

    @property
    def figures(self) -> list[tuple[str, str]]:
        """Benchmarks, each with the name of a figure."""
        return FIGURE.findall(self.benchmark)


def path_of(place: str) -> Path:
    elsewhere = place.startswith(("tests/", "benchmarks/", "examples/"))
    return ROOT / place if elsewhere else ROOT / "src" / "tidegate" / place


def rows_of(page: str) -> list[Row]:
    """Return the rows of all tables; a row without the right number of cells is an error."""
    lines = [line for line in page.partition("\n## PIPES\n")[2].splitlines() if re.match(r"\| [A-Z]-\d", line)]
    return [Row(*(cell.strip() for cell in line.strip().strip("|").split("|"))) for line in lines]


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


def all_named_tests() -> list[NamedTest]:
    return sorted({NamedTest(*named) for named in TEST.findall(PAGE.read_text(encoding="utf-8"))})


@cache
def functions_of(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@cache
def figures_of(benchmark: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns of all names that a benchmark may give to figures and pictures: the strings of its modules."""
    patterns = set()
    for module in modules_of(benchmark):
        nodes = list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))
        parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                patterns.add(re.escape(node.value))
            elif isinstance(node, ast.JoinedStr):
                patterns |= {pattern for pattern in [_pattern_of(node)] if len(re.findall("[a-z]", pattern)) > 2}
    return tuple(map(re.compile, sorted(patterns)))


def _pattern_of(text: ast.JoinedStr) -> str:
    values = (part.value if isinstance(part, ast.Constant) else None for part in text.values)
    return "".join("(.*)" if value is None else re.escape(str(value)) for value in values)


def modules_of(benchmark: str) -> Iterator[Path]:
    """Yield the module of a benchmark, and all those of `benchmarks` that it imports."""
    seen, rest = set[Path](), [ROOT / "benchmarks" / f"{benchmark}.py"]
    while rest:
        module = rest.pop()
        if module in seen or not module.is_file():
            continue
        seen.add(module)
        yield module
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("benchmarks"):
                base = ROOT.joinpath(*node.module.split("."))
                rest += [base.with_suffix(".py"), *(base / f"{name.name}.py" for name in node.names)]


def has_figure(benchmark: str, figure: str) -> bool:
    """Return whether a benchmark may give a figure of this name.

    What it puts into a name is written in its modules as well, unless the page has a * there.
    """
    found = (pattern.fullmatch(figure) for pattern in figures_of(benchmark))
    return any(match and all(_may_be_put(benchmark, part) for part in match.groups()) for match in found)


def _may_be_put(benchmark: str, part: str) -> bool:
    return not part or "*" in part or has_figure(benchmark, part)
