"""The walks of docs/walkthrough.md: what it names is called, in that order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.paths import ROOT
from support.walks import Called, calls_of_run

PAGE = (ROOT / "docs/walkthrough.md").read_text(encoding="utf-8")
STEP = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`:", re.MULTILINE)

FILES = {
    "A row of a CSV file meets another in a window join": {
        "a.csv": "k,v,t\n1,2,1700000000\n",
        "b.csv": "k,w,t\n1,5,1700000003\n",
    },
    "A reading that cannot matter is omitted": {
        "inlet.csv": "k,v,t\n1,4,1700000000\n1,2,1700000001\n1,7,1700000002\n",
        "outlet.csv": "k,v,t\n1,5,1700000003\n",
    },
    "A subscription is registered and completes": {
        "trade.csv": "symbol,price,shares,at\nx,5,100,1700000005\nx,6,100,1700000006\n",
        "subscription.csv": "id,symbol,low,high,threshold,at\ns1,x,1,9,150,1700000003\n",
    },
}
"""Data of each walk, by its title: each has one result."""


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def first_missing(named: list[Called], calls: list[Called]) -> Called | None:
    """Return the first of the named functions that is not called after those before it."""
    rest = iter(calls)
    return next((each for each in named if each not in rest), None)


def test_every_walk_of_the_page_has_data():
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == list(FILES)


@pytest.mark.parametrize("title", FILES)
def test_the_functions_of_a_walk_are_called_in_the_order_of_the_page(title: str, tmp_path: Path):
    text = section(title)
    (sql,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    named = STEP.findall(text)
    assert len(named) >= 10
    calls = calls_of_run(sql, FILES[title], tmp_path)
    assert first_missing(named, calls) is None
    (result,) = [each for each in (tmp_path / "out").glob("*/*.csv") if "dead_letters" not in str(each)]
    assert len(result.read_text().splitlines()) == 2


def test_a_walk_in_another_order_is_noticed():
    called = [("a.py", "one"), ("a.py", "two"), ("a.py", "one")]
    assert first_missing([("a.py", "two"), ("a.py", "one")], called) is None
    assert first_missing([("a.py", "two"), ("a.py", "two")], called) == ("a.py", "two")


@pytest.mark.parametrize(("title", "most"), list(zip(FILES, (237, 250, 321), strict=True)))
def test_a_walk_does_not_become_longer(title: str, most: int, tmp_path: Path):
    # Distinct functions between the file and the result: who adds one asks whether it must lie on this path.
    (sql,) = re.findall(r"```sql\n(.*?)```", section(title), re.DOTALL)
    calls = {each for each in calls_of_run(sql, FILES[title], tmp_path) if "<" not in each[1].rpartition(".")[2]}
    assert len(calls) <= most
