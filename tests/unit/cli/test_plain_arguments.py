"""Arguments that are read without Typer are read as Typer reads them."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tidegate.cli import main
from tidegate.cli.formats import Runtime, TimesOption
from tidegate.cli.plain_arguments import plain_values

WORDS = [
    *("q.sql", "-", "--once", "--quiet", "-q", "--strict", "--analyze", "--runtime", "embedded", "spark", "flink"),
    *("--runtime=embedded", "--runtime=", "--buckets", "2", "0", "-1", "--buckets=3", "--format", "csv", "mermaid"),
    *(
        "--times=micros",
        "--out",
        "o",
        "--out=a=b",
        "--checkpoint",
        "--master=local[2]",
        "--",
        "--help",
        "--onc",
        "a b",
        "",
    ),
    *("--once=1", "-q=1", "--format=table", "-qq", "--no-once", "--Once"),
]
OPTIONS = st.tuples(
    st.sampled_from(["--buckets", "--runtime", "--format", "--times", "--out", "--checkpoint", "--strict"]),
    st.sampled_from(["0", "1", "02", "-1", "1.5", "csv", "dot", "embedded", "Embedded", "iso", ""]),
).flatmap(lambda pair: st.sampled_from([list(pair), ["=".join(pair)]]))
"""An option with a value, right or wrong, in one word or in two."""


def with_query(parts):
    """Arguments around the name of a file."""
    before, after = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    return [*(word for part in before for word in part), "q.sql", *(word for part in after for word in part)]


COMMANDS = [main.run, main.explain, main.check, main.constraints]


def typer_values(command, words, environment):
    """Values that Typer gives to a command, or None if it refuses the words."""
    seen = []
    app = typer.Typer()

    def record(**values):
        seen.append(values)

    vars(record)["__signature__"] = inspect.signature(command, eval_str=True)
    app.command()(record)
    CliRunner().invoke(app, list(words), env=environment)
    return seen[0] if seen else None


@pytest.mark.parametrize("value", ["0", "1", "02", "-1", "1.5", "csv", "dot", "embedded", "Embedded", "iso", "", "a=b"])
@pytest.mark.parametrize("option", ["--buckets", "--runtime", "--format", "--times", "--out", "--strict", "-q"])
@pytest.mark.parametrize("command", [main.run, main.explain])
def test_an_option_with_a_value_is_read_as_typer_reads_it(command, option, value):
    for words in ([option, value, "q.sql"], ["q.sql", f"{option}={value}"]):
        read = plain_values(command, words, {})
        if read is not None:
            assert read == typer_values(command, words, {})


@pytest.mark.parametrize("command", COMMANDS)
@given(words=st.lists(st.sampled_from(WORDS).map(lambda word: [word]) | OPTIONS, max_size=3).map(with_query))
def test_what_is_read_is_what_typer_reads(command, words):
    read = plain_values(command, words, {})
    if read is not None:
        assert read == typer_values(command, words, {})


@given(
    words=st.lists(st.sampled_from(WORDS), max_size=3),
    name=st.sampled_from(["TIDEGATE_RUNTIME", "TIDEGATE_MASTER", "TIDEGATE_CHECKPOINT"]),
    text=st.sampled_from(["", "embedded", "nowhere"]),
)
def test_variables_of_the_environment_are_read_as_typer_reads_them(words, name, text):
    read = plain_values(main.run, words, {name: text})
    if read is not None:
        assert read == typer_values(main.run, words, {name: text})


def test_the_usual_arguments_are_read_without_typer():
    read = partial(plain_values, environment={})
    found = read(main.run, ["--runtime", "embedded", "q.sql", "--once", "--buckets=2", "-q", "--times", "micros"])
    assert found == {
        "query": Path("q.sql"),
        "runtime": Runtime.EMBEDDED,
        "master": "local[*]",
        "checkpoint": None,
        "out": None,
        "format": None,
        "times": TimesOption.MICROS,
        "once": True,
        "buckets": 2,
        "quiet": True,
        "strict": False,
    }
    assert read(main.check, ["-"]) == {"query": Path("-"), "strict": False}
    analyzed = read(main.explain, ["q.sql", "--analyze"])
    assert analyzed is not None
    assert analyzed["analyze"] is True


LEFT = [[], ["--help"], ["q.sql", "--hlep"], ["q.sql", "more.sql"], ["q.sql", "--strict", "--strict"], ["--", "q"]]


@pytest.mark.parametrize("words", LEFT)
def test_mistakes_and_help_are_left_to_typer(words):
    assert plain_values(main.check, words, {}) is None
