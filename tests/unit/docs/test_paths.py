"""Files that pages name exist."""

from __future__ import annotations

import re

from support.paths import ROOT

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = ("src", "tests", "benchmarks", "examples")
FILES = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
NAMED = re.compile(r"`(?:src/tidegate/)?([\w/]+\.(?:py|lark))\b")


def missing(text: str) -> list[str]:
    """Return the files that a text names in backticks, and that no folder has."""
    return [name for name in NAMED.findall(text) if not any(path.endswith(f"/{name}") for path in FILES)]


def test_files_that_pages_name_exist():
    found = {page.name: missing(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_a_file_that_does_not_exist_is_noticed():
    assert missing("see `runtime/no_such_module.py` and `runtime/stage.py`") == ["runtime/no_such_module.py"]
