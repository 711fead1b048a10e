"""What docs/service.md shows is so."""

from __future__ import annotations

import re
import threading

import pytest
from support.paths import ROOT
from support.served import served
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.service.openapi import OPERATIONS

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    with served(tmp_path) as service:
        data = tmp_path / "data"
        data.mkdir()
        (data / "1.csv").write_text("at,celsius\n1,20\n2,31.5\n")
        exec(compile(text.replace("http://127.0.0.1:8417", service.server.url), "service.md", "exec"), {})
        assert service.live.queries() == ()
    assert capsys.readouterr().out == "[31.5]\n['hot']\n"
    assert not [thread for thread in threading.enumerate() if thread.name == "tidegate-feed"]


def test_the_page_names_every_operation_and_no_other():
    table = re.findall(r"`(GET|POST|DELETE) (/[\w/.{}]+)`", PAGE)
    assert set(table) == {(each.method, each.path) for each in OPERATIONS}
    for path in re.findall(r"http://127\.0\.0\.1:8417(/\S+)", PAGE):
        assert any(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each.path), path) for each in OPERATIONS)


@pytest.mark.parametrize("command", ["serve", "sql"])
def test_the_page_names_every_option(command):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
    assert {option for option in options if option not in PAGE} == set()
