"""The command line as a user meets it: results on standard output, words on standard error, exit codes that tell."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.canonical import canonical_text, output_rows
from support.commands import PATIENCE, Ended, forked
from support.micros import in_micros

from tidegate import __version__
from tidegate.cli import main as cli
from tidegate.schema import Schema, Type

COMMAND = [sys.executable, "-m", "tidegate.cli.main"]

STREAM = """CREATE STREAM reading (sensor INT, celsius DOUBLE, room STRING, at BIGINT)
  FROM '{path}' TIMESTAMP BY at UNIT MICROSECONDS DELAY 2 MICROSECONDS;
"""
WARM = "SELECT sensor, celsius, room FROM reading WHERE celsius > 20;\n"
COUNT = "SELECT sensor, COUNT(*) AS readings FROM reading WINDOW(RANGE 10) GROUP BY sensor;\n"
HEADER = "sensor,celsius,room,at\n"
GOOD = HEADER + "1,20.5,attic,0\n2,19,hall,3\n1,23,,4\n"
BAD = "3,warm,hall,5\n"


def tidegate(*arguments: str | Path, folder: Path, text: str | None = None, **environment: str) -> Ended:
    """Runs the command in a folder, with a text as its standard input."""
    return forked(list(map(str, arguments)), folder, text, surroundings(**environment))


def surroundings(**more: str) -> dict[str, str]:
    paths = os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)
    return {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "COLUMNS": "100", **more}


def run_embedded(folder: Path, *options: str | Path, query: str = "query.sql", **more: str):
    return tidegate("run", query, "--runtime", "embedded", "--once", *options, folder=folder, **more)


@pytest.fixture
def folder(tmp_path):
    """A folder with a query over one file, all of whose rows are good."""
    (tmp_path / "reading.csv").write_text(GOOD)
    (tmp_path / "query.sql").write_text(STREAM.format(path="reading.csv") + WARM)
    return tmp_path


# ---- warnings

NO_WINDOW = "SELECT COUNT(*) AS n FROM reading;\n"


@pytest.fixture
def unwindowed(folder):
    (folder / "query.sql").write_text(STREAM.format(path="reading.csv") + NO_WINDOW)
    return folder


def test_a_warning_goes_to_standard_error_and_the_query_runs(unwindowed):
    for arguments in (["check", "query.sql"], ["run", "query.sql", "--runtime", "embedded", "--once", "--quiet"]):
        ended = tidegate(*arguments, folder=unwindowed)
        assert (ended.returncode, ended.stderr.count("warning[W101]: reading has no window")) == (0, 1)
        assert "hint: give it a window" in ended.stderr
        assert ended.stdout


def test_with_strict_a_warning_is_an_error(unwindowed):
    for arguments in (["check", "query.sql"], ["run", "query.sql", "--runtime", "embedded", "--once"]):
        ended = tidegate(*arguments, "--strict", folder=unwindowed)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("error[W101]: reading has no window")


def test_warnings_are_lines_of_json_beside_json_lines(unwindowed):
    ended = run_embedded(unwindowed, "--format", "jsonl", "--quiet")
    (line,) = ended.stderr.splitlines()
    assert json.loads(line).items() >= {"warning": "W101", "line": 3, "column": 27}.items()
    assert ended.returncode == 0


ISO = ["1970-01-01T00:00:00Z", *(f"1970-01-01T00:00:00.{n:06}Z" for n in range(1, 10))]
"""The times 0 to 9, as texts have them."""

AS_CSV = f"""valid_from,valid_to,sensor,celsius,room
{ISO[0]},{ISO[1]},1,20.5,attic
{ISO[4]},{ISO[5]},1,23,
"""
AS_JSON = f"""{{"valid_from": "{ISO[0]}", "valid_to": "{ISO[1]}", "sensor": 1, "celsius": 20.5, "room": "attic"}}
{{"valid_from": "{ISO[4]}", "valid_to": "{ISO[5]}", "sensor": 1, "celsius": 23, "room": null}}
"""


# ---- standard output


def test_a_run_prints_a_table_and_says_what_it_did_on_standard_error(folder):
    ended = run_embedded(folder)
    assert ended.stdout == (
        "valid_from                   valid_to                     sensor  celsius  room\n"
        "1970-01-01T00:00:00Z         1970-01-01T00:00:00.000001Z       1     20.5  attic\n"
        "1970-01-01T00:00:00.000004Z  1970-01-01T00:00:00.000005Z       1     23.0  NULL\n"
    )
    assert ended.stderr.startswith("3 rows in · 2 rows out · watermark 1970-01-01T00:00:00.000002Z · state 0 B · ")
    assert ended.stderr.count("\n") == 1
    assert ended.returncode == 0


def test_results_of_several_queries_are_told_apart(folder):
    (folder / "query.sql").write_text(STREAM.format(path="reading.csv") + WARM + COUNT)
    lines = run_embedded(folder, "--format", "jsonl", "--quiet").stdout.splitlines()
    assert {json.loads(line)["query"] for line in lines} == {"query_1", "query_2"}
    table = run_embedded(folder, "--times", "micros", "--quiet").stdout
    assert table.startswith("query_1:\nvalid_from  valid_to  sensor  celsius  room\n")
    assert "query_2:\nvalid_from  valid_to  sensor  readings\n" in table


def test_results_as_json_lines_and_nothing_else(folder):
    ended = run_embedded(folder, "--format", "jsonl", "--quiet")
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [
        {"valid_from": ISO[0], "valid_to": ISO[1], "sensor": 1, "celsius": 20.5, "room": "attic"},
        {"valid_from": ISO[4], "valid_to": ISO[5], "sensor": 1, "celsius": 23, "room": None},
    ]
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_dead_letters_are_shown_on_standard_error_and_by_the_exit_code(folder):
    (folder / "reading.csv").write_text(GOOD + BAD)
    ended = run_embedded(folder, "--format", "csv")
    assert ended.stdout == AS_CSV
    letter, figures, reasons = ended.stderr.splitlines()
    place = f"{folder / 'reading.csv'}:{GOOD.count(chr(10)) + 1}"
    assert letter == f"dead letter (malformed) {place}: column 'celsius': 'warm' is not a valid DOUBLE: 3,warm,hall,5"
    assert "4 rows in · 2 rows out" in figures
    assert "1 dead letters" in figures
    assert reasons == "dead letters: 1 malformed"
    assert ended.returncode == 3


def test_many_dead_letters_are_not_all_shown(folder):
    (folder / "reading.csv").write_text(GOOD + BAD * 25)
    ended = run_embedded(folder, "--quiet")
    assert ended.stderr.count("dead letter (malformed)") == 10
    assert ended.stderr.endswith("… and 15 more dead letters\n")


def test_a_query_can_come_from_standard_input(folder):
    text = (folder / "query.sql").read_text()
    ended = run_embedded(folder, "--format", "csv", query="-", text=text)
    assert (ended.stdout.count("\n"), ended.returncode) == (3, 0)


def test_paths_are_relative_to_the_current_folder_or_to_that_of_the_query(folder):
    (folder / "elsewhere").mkdir()
    ended = run_embedded(folder / "elsewhere", "--format", "csv", query="../query.sql")
    assert (ended.stdout.count("\n"), ended.returncode) == (3, 0)
    (folder / "elsewhere" / "reading.csv").write_text(HEADER)
    empty = run_embedded(folder / "elsewhere", "--format", "csv", query="../query.sql")
    assert empty.stdout == "valid_from,valid_to,sensor,celsius,room\n"


def test_settings_can_come_from_the_environment(folder):
    ended = tidegate(
        "run", "query.sql", "--once", folder=folder, TIDEGATE_RUNTIME="embedded", TIDEGATE_CHECKPOINT="state"
    )
    assert ended.returncode == 0
    assert (folder / "state" / "program.json").exists()


@pytest.mark.parametrize("shape", ["table", "csv"])
def test_a_reader_who_leaves_early_ends_the_run_without_a_word(folder, shape):
    source = "generator://?rows=2000000&seed=1&keys=3&interval=1s"
    (folder / "query.sql").write_text(STREAM.format(path=source) + "SELECT sensor, celsius FROM reading;")
    command = [*COMMAND, "run", "query.sql", "--runtime", "embedded", "--quiet"]
    with subprocess.Popen(
        [*command, "--format", shape], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings()
    ) as process:
        assert process.stdout.readline().split(None if shape == "table" else b",")[:2] == [b"valid_from", b"valid_to"]
        process.stdout.close()
        words = process.stderr.read()
        assert process.wait(PATIENCE) == 0
    assert words == b""


def hear_interrupts():
    """A shell lets what it starts in the background ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_an_endless_run_shows_results_as_they_come_and_ends_when_interrupted(folder, number, code):
    command = [*COMMAND, "run", "query.sql", "--runtime", "embedded", "--format", "csv"]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(),
        preexec_fn=hear_interrupts,  # noqa: PLW1509 - there are no threads here
    ) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        with (folder / "reading.csv").open("a") as file:
            file.write("2,30,cellar,6\n")
        assert [*lines, process.stdout.readline()] == [
            "valid_from,valid_to,sensor,celsius,room\n",
            f"{ISO[0]},{ISO[1]},1,20.5,attic\n",
            f"{ISO[4]},{ISO[5]},1,23,\n",
            f"{ISO[6]},{ISO[7]},2,30,cellar\n",
        ]
        process.send_signal(number)
        rest, words = process.communicate(timeout=PATIENCE)
    assert (rest, process.returncode) == ("", code)
    assert words.startswith("stopping after the current step …\n4 rows in · 3 rows out")


def test_a_master_that_cannot_be_reached_is_one_error_with_a_hint(folder):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    ended = tidegate("run", "query.sql", "--once", "--master", f"spark://127.0.0.1:{port}", folder=folder)
    first, second = ended.stderr.splitlines()
    assert first.startswith(f"error[D403]: Spark did not start on spark://127.0.0.1:{port}: ")
    assert second.startswith("   = hint: ")
    assert (ended.stdout, ended.returncode) == ("", 3)


# ---- files


def test_results_go_to_a_folder_for_each_query_and_dead_letters_to_one_of_their_own(folder):
    (folder / "reading.csv").write_text(GOOD + BAD)
    early = COUNT.replace(";", " EMIT EARLY;")
    (folder / "query.sql").write_text(STREAM.format(path="reading.csv") + WARM + early)
    ended = run_embedded(folder, "--out", "results")
    assert ended.stdout == ""
    assert ended.stderr.splitlines()[-1] == "dead letters: 1 malformed, in results/dead_letters"
    assert ended.returncode == 3
    assert steps_of(folder / "results") == [
        "dead_letters/batch-00000001.jsonl",
        "query_1/batch-00000001.parquet",
        "query_2/batch-00000001.parquet",
        "query_2/final.parquet",
    ]
    found = pq.read_table(folder / "results" / "query_1")
    assert found.schema.types[:2] == [pa.timestamp("us", "UTC")] * 2
    assert in_micros(found).to_pylist() == [
        {"valid_from": 0, "valid_to": 1, "sensor": 1, "celsius": 20.5, "room": "attic"},
        {"valid_from": 4, "valid_to": 5, "sensor": 1, "celsius": 23.0, "room": None},
    ]
    (letter,) = (folder / "results" / "dead_letters").glob("*.jsonl")
    assert json.loads(letter.read_text()) == {
        "origin": "reading",
        "reason": "malformed",
        "detail": "column 'celsius': 'warm' is not a valid DOUBLE",
        "time": ISO[5],
        "row": "3,warm,hall,5",
        "file": str(folder / "reading.csv"),
        "line": GOOD.count("\n") + 1,
    }


@pytest.mark.parametrize(("shape", "expected"), [("csv", AS_CSV), ("jsonl", AS_JSON)])
def test_results_in_files_of_text(folder, shape, expected):
    assert run_embedded(folder, "--out", "results", "--format", shape).returncode == 0
    (file,) = (folder / "results" / "query_1").glob(f"batch-*.{shape}")
    assert file.read_text() == expected


def test_places_can_be_uris(folder):
    results, state = (folder / "results").as_uri(), (folder / "state").as_uri()
    assert run_embedded(folder, "--out", results, "--checkpoint", state).returncode == 0
    assert steps_of(folder / "results") == ["query_1/batch-00000001.parquet"]
    assert (folder / "state" / "program.json").exists()


def test_insert_into_names_a_folder_and_other_results_are_printed(folder):
    text = STREAM.format(path="reading.csv") + f"INSERT INTO 'kept' {WARM} INSERT INTO '{folder.as_uri()}/uri' {WARM}"
    (folder / "query.sql").write_text(text + COUNT)
    ended = run_embedded(folder, "--format", "csv")
    assert ended.returncode == 0
    assert ended.stdout.startswith("valid_from,valid_to,sensor,readings\n")
    for place in ("kept", "uri"):
        assert steps_of(folder / place) == ["batch-00000001.csv"]


def test_the_place_of_every_file_sink_is_shown_before_the_run(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "query.sql").write_text(
        STREAM.format(path="../reading.csv") + f"INSERT INTO '../../{folder.name}/kept' {WARM}" + COUNT
    )
    ended = run_embedded(folder / "inner", "--out", "results", "--format", "csv")
    assert ended.stderr.splitlines()[:3] == [
        f"results of query_1 go to {folder}/kept (csv)",
        f"results of query_2 go to {folder}/inner/results/query_2 (csv)",
        f"dead letters go to {folder}/inner/results/dead_letters (jsonl)",
    ]
    assert steps_of(folder / "kept") == ["batch-00000001.csv"]
    assert run_embedded(folder / "inner", "--out", "results", "--format", "csv", "--quiet").stderr == ""


def test_a_run_goes_on_from_its_checkpoint(folder):
    """Over file 1, then over file 2 as well: what is published is that of one run over both."""
    (folder / "query.sql").write_text(STREAM.format(path="data") + WARM + COUNT)
    first, second = "1,20.5,attic,0\n2,19,hall,3\n1,23,,4\n", "2,25,hall,2\n1,26,,9\n2,21,hall,15\n"
    (folder / "data").mkdir()
    (folder / "data" / "1.csv").write_text(HEADER + first)
    options = ("--checkpoint", "state", "--out", "results")
    once = run_embedded(folder, *options)
    (folder / "data" / "2.csv").write_text(HEADER + second)
    again = run_embedded(folder, *options)
    assert ("3 rows in" in once.stderr, "3 rows in" in again.stderr) == (True, True)
    whole = run_embedded(folder, "--out", "whole")
    assert "6 rows in" in whole.stderr
    for query in ("query_1", "query_2"):
        assert published(folder / "results" / query) == published(folder / "whole" / query)
    assert "\n0 rows in" in run_embedded(folder, *options).stderr
    assert published(folder / "results" / "query_2") == published(folder / "whole" / "query_2")


def steps_of(folder: Path) -> list[str]:
    """The published files, without the number of their part of a step."""
    paths = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return sorted({re.sub(r"-\d+(?=\.\w+$)", "", str(p)) for p in paths if ".staging" not in p.parts})


def published(folder: Path) -> str:
    table = pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])
    names = dict.fromkeys(table.column_names[2:], Type.STRING)
    return canonical_text(Schema.of(**names), output_rows(table.to_batches()))


# ---- other commands, and what is wrong


def test_explain_shows_plans_and_stages_without_looking_at_the_data(folder):
    (folder / "reading.csv").unlink()
    ended = tidegate("explain", "query.sql", folder=folder)
    assert (ended.stderr, ended.returncode) == ("", 0)
    for heading in ("query query_1", "logical plan", "optimised plan", "stages"):
        assert f"{heading}" in ended.stdout
    assert "from stream reading: sensor, celsius, room, at the source only where celsius > 20" in ended.stdout


def test_check_names_the_queries_and_their_columns(folder):
    (folder / "query.sql").write_text(STREAM.format(path="reading.csv") + WARM + COUNT)
    ended = tidegate("check", "query.sql", folder=folder)
    assert ended.stdout == ("query_1: sensor INT, celsius DOUBLE, room STRING\nquery_2: sensor INT, readings BIGINT\n")
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_a_wrong_query_ends_with_2_and_wrong_data_with_3(folder):
    (folder / "query.sql").write_text(STREAM.format(path="reading.csv") + "SELECT senzor FROM reading;")
    ended = tidegate("check", "query.sql", folder=folder)
    assert (ended.stdout, ended.returncode) == ("", 2)
    assert ended.stderr.splitlines()[-1] == "   = hint: did you mean 'sensor'?"
    (folder / "query.sql").write_text(STREAM.format(path="nothing.csv") + WARM)
    ended = run_embedded(folder)
    assert (ended.stdout, ended.returncode) == ("", 3)
    assert ended.stderr.startswith("error[D102]: stream 'reading': no data at ")


@pytest.fixture
def here(folder, monkeypatch, capsys):
    """Runs the command in this process, which is quicker; answers the exit code and what it said."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_options_that_do_not_go_together_are_refused(here):
    code, _, words = here("run", "query.sql", "--format", "parquet")
    assert code == 2
    assert words == "error[Q304]: parquet cannot be written to standard output\n   = hint: add --out DIR\n"
    code, _, words = here("run", "query.sql", "--format", "table", "--out", "results")
    assert (code, words.splitlines()[0]) == (2, "error[Q304]: a table cannot be written to files")
    code, _, words = here("run", "query.sql", "--nonce")
    assert (code, "No such option: --nonce" in words) == (2, True)
    code, _, words = here("run", "query.sql", "--buckets", "0")
    assert (code, "--buckets" in words) == (2, True)


def test_a_file_that_only_declares_streams_has_nothing_to_run(here, folder):
    (folder / "query.sql").write_text(STREAM.format(path="reading.csv"))
    nothing = "error[Q302]: there is nothing to run\n   = hint: add a SELECT statement\n"
    assert here("run", "query.sql") == (2, "", nothing)


def test_help_tells_of_every_option_and_command(here):
    code, shown, _ = here("run", "--help")
    assert code == 0
    for name in inspect.signature(cli.run).parameters:
        assert (f"--{name}" if name != "query" else "FILE.sql") in shown
    _, shown, _ = here("--help")
    assert all(command in shown for command in ("run", "explain", "check", "--version"))
    assert here("--version") == (0, f"tidegate {__version__}\n", "")


# ---- Spark


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_on_spark_from_end_to_end(folder):
    """The same query with the same results: into files, with a dead letter, and nothing on standard output."""
    (folder / "reading.csv").write_text(GOOD + BAD)
    (folder / "query.sql").write_text(STREAM.format(path="reading.csv") + WARM + COUNT)
    on_spark = subprocess.run(
        [*COMMAND, "run", "query.sql", "--once", "--master", "local[2]", "--out", "spark"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=surroundings(),
        check=False,
    )
    embedded = run_embedded(folder, "--out", "embedded")
    assert (on_spark.stdout, on_spark.returncode, embedded.returncode) == ("", 3, 3)
    assert "Traceback" not in on_spark.stderr
    assert "4 rows in" in on_spark.stderr
    assert on_spark.stderr.splitlines()[-1] == "dead letters: 1 malformed, in spark/dead_letters"
    for query in ("query_1", "query_2"):
        assert published(folder / "spark" / query) == published(folder / "embedded" / query)
    letters = [[p.read_text() for p in (folder / o / "dead_letters").glob("*.jsonl")] for o in ("spark", "embedded")]
    assert letters[0] == letters[1]


def test_a_run_from_the_beginning_replaces_the_results_of_a_longer_one_and_leaves_other_files(folder):
    assert run_embedded(folder, "--out", "out", "--format", "csv").returncode == 0
    (folder / "out" / "query_1" / "notes.csv").write_text("mine")
    (folder / "reading.csv").write_text(HEADER + "7,30,hall,0\n")
    assert run_embedded(folder, "--out", "out", "--format", "csv").returncode == 0
    *results, notes = sorted((folder / "out" / "query_1").glob("*.csv"))
    assert notes.read_text() == "mine"
    assert (
        "".join(f.read_text() for f in results)
        == f"valid_from,valid_to,sensor,celsius,room\n{ISO[0]},{ISO[1]},7,30,hall\n"
    )
