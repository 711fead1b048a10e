"""Every example of the documentation is run."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from support.paths import ROOT

from tidegate.catalog.catalog import Catalog
from tidegate.cli.table import align_table
from tidegate.errors import QueryError
from tidegate.expressions.functions.resolve import function_names
from tidegate.language.bind.program import bind
from tidegate.runtime.outputs import sort_by_time
from tidegate.session import Session

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_queries_of_a_page_are_right(page):
    catalog = Catalog()
    for text in blocks(page, "sql"):
        catalog = bind(text, catalog).catalog


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page):
    for text in blocks(page, "python"):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text, page.name, "exec"), {})


def test_the_query_of_the_readme_gives_the_result_shown_there(monkeypatch):
    monkeypatch.chdir(ROOT)
    query, *_ = blocks(ROOT / "README.md", "sql")
    assert (ROOT / "examples/auction/closing.sql").read_text() == query
    with Session(runtime="embedded") as session:
        running = session.sql(query, once=True)
        assert running is not None
        running.wait()
        shown = align_table(sort_by_time(running.results()))
    assert "closing.sql --once --quiet\n" + shown in (ROOT / "README.md").read_text()


def test_the_alert_of_the_readme_is_that_of_the_demo():
    _, text, _ = blocks(ROOT / "README.md", "sql")
    demo = (ROOT / "examples/condensation/condensation.sql").read_text()
    assert text[text.index("CREATE ALERT") :] == demo[demo.index("CREATE ALERT") :]


def test_the_subscribers_of_the_readme_are_told_what_was_traded(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = blocks(ROOT / "README.md", "sql")[-1]
    assert (ROOT / "examples/trades/watch.sql").read_text() == text
    with Session(runtime="embedded") as session:
        running = session.sql(text, once=True)
        assert running is not None
        running.wait()
        told = [(row["r_id"], row["t_price"], row["total"]) for row in running.results().to_pylist()]
        assert not running.progress().dead
    assert sorted(told) == [("ann", 20.05, 1150), ("bob", 7.6, 2000), ("cid", 19.9, 700)]


def test_the_mistake_of_the_readme_is_shown_as_it_says(monkeypatch):
    monkeypatch.chdir(ROOT)
    query, *_ = blocks(ROOT / "README.md", "sql")
    with pytest.raises(QueryError) as caught:
        bind("SELECT SUM(prise) FROM bid WINDOW(RANGE 1 HOUR)", bind(query).catalog)
    assert caught.value.render() in (ROOT / "README.md").read_text()


def test_the_page_of_the_language_names_every_function():
    words = set(re.findall(r"\w+", (ROOT / "docs/language.md").read_text()))
    synonyms = {"ceiling", "char_length", "character_length", "pow", "substr", "strpos", "instr", "dayofmonth"}
    assert set(function_names()) - synonyms <= words


def test_the_page_of_plans_shows_what_is_printed(monkeypatch):
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs/plans.md"
    made, wrong, *_ = blocks(page, "python")
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(made, names)
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(wrong, {})
    for text in (f"{names['closing']!r}\n", shown.getvalue()):
        assert f"```\n{text}```\n" in page.read_text()
