"""`tidegate serve` as a process: it starts, answers, ends cleanly, and survives `kill -9`."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.processes import Process, tidegate

import tidegate as api
from tidegate.errors import DataError, TidegateError

PROGRAM = """
CREATE STREAM reading (at BIGINT, value DOUBLE) FROM '{folder}/data/*.csv' TIMESTAMP BY at;
CREATE QUERY hot AS SELECT value FROM reading WHERE value > 10;
"""
TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "program.sql").write_text(PROGRAM.format(folder=tmp_path))
    return tmp_path


def write(folder: Path, number: int, *rows: tuple[int, float]) -> None:
    path = folder / f"{number}.part"
    path.write_text("at,value\n" + "".join(f"{at},{value}\n" for at, value in rows))
    path.rename(folder / "data" / f"{number}.csv")


@contextmanager
def service(folder: Path, *arguments: str, runtime: str = "embedded") -> Iterator[tuple[Process, str]]:
    """Start a service on a free port; yield its process and address."""
    log = folder / "serve.log"
    log.write_text("")
    options = ["--checkpoint", f"{folder}/checkpoint", "--runtime", runtime, "--port", "0", "--allow-path", str(folder)]
    process = tidegate("serve", *options, *arguments, log=log)
    try:
        assert process.wait_until(lambda: "listening on" in process.words), process.words
        yield process, re.findall(r"listening on (\S+)", process.words)[-1]
    finally:
        with suppress(ProcessLookupError):
            process.kill()


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    process = tidegate("serve", "--runtime", "embedded", *arguments, log=folder / "refused.log")
    return process.wait(), process.words


def values_of(query: api.RemoteQuery, count: int) -> list[float]:
    found: list[float] = []
    while len(found) < count:
        found += query.results(600).column("value").to_pylist()
    return found


def test_a_service_is_used_killed_and_continues(folder: Path):
    with service(folder, str(folder / "program.sql")) as (process, url):
        assert "query hot runs; exact from the beginning" in process.words
        with api.connect(url) as session:
            hot = session.query("hot")
            assert hot.results().num_rows == 0
            write(folder, 1, (1, 5.0), (2, 15.0))
            assert values_of(hot, 1) == [15.0]
            session.execute("CREATE QUERY cold AS SELECT value FROM reading WHERE value < 10")
        process.kill()
    with service(folder, str(folder / "program.sql")) as (process, url):
        assert "program.sql is not run" in process.words
        assert "query hot is running" in process.words
        with api.connect(url) as session:
            assert [each.name for each in session.queries()] == ["hot", "cold"]
            queries = [session.query(name) for name in ("hot", "cold")]
            assert [query.results().num_rows for query in queries] == [0, 0]
            write(folder, 2, (3, 20.0), (4, 7.0))
            assert [values_of(query, 1) for query in queries] == [[20.0], [7.0]]
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
        assert "stopping after the current step" in process.words


def test_ctrl_c_ends_the_service_and_its_subscriptions(folder: Path):
    with service(folder, str(folder / "program.sql")) as (process, url), api.connect(url) as session:
        hot = session.query("hot")
        assert hot.results().num_rows == 0
        process.popen.send_signal(signal.SIGINT)
        assert list(hot) == []
        assert process.wait() == 0


def test_a_run_that_fails_is_reported_and_ends_the_service(folder: Path):
    with service(folder, str(folder / "program.sql")) as (process, url), api.connect(url) as session:
        hot = session.query("hot")
        assert hot.results().num_rows == 0
        (folder / "checkpoint" / "steps").write_text("a file in place of the folder of records")
        write(folder, 1, (2, 15.0))
        with pytest.raises(TidegateError):
            list(hot)
        with pytest.raises(TidegateError):
            session.health()
        assert process.wait() == DataError.exit_code
        assert "error[D305]" in process.words


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--host", "0.0.0.0"], 2, "Q510"),
        (["--token-file", "no-such-file"], 2, "Q303"),
        (["no-such.sql"], 2, "Q303"),
        (["--host", "no.such.host.invalid", "--token-file", "token"], 3, "D501"),
    ],
)
def test_a_start_that_is_refused(folder: Path, arguments, code, said, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "token").write_text(TOKEN)
    ended, words = refused(folder, "--checkpoint", str(folder / "checkpoint"), "--port", "0", *arguments)
    assert (ended, said in words) == (code, True), words
    assert TOKEN not in words


def test_a_short_token_and_a_taken_port_are_refused(folder: Path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_TOKEN", "short")
    code, words = refused(folder, "--checkpoint", str(folder / "other"), "--port", "0")
    assert (code, "Q512" in words) == (2, True)
    monkeypatch.delenv("TIDEGATE_TOKEN")
    with service(folder) as (_, url):
        code, words = refused(folder, "--checkpoint", str(folder / "other"), "--port", url.rpartition(":")[2])
        assert (code, "D501" in words) == (3, True)


def test_on_another_address_only_the_token_opens_the_service(folder: Path, monkeypatch):
    (folder / "token").write_text(TOKEN)
    with service(folder, "--host", "0.0.0.0", "--token-file", str(folder / "token")) as (process, url):
        there = url.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(TidegateError, match="token is missing or wrong"):
            api.connect(there)
        assert api.connect(there, token=TOKEN).queries() == ()
        assert TOKEN not in process.words


@pytest.mark.spark
def test_a_service_on_spark(folder: Path):
    write(folder, 1, (1, 5.0), (2, 15.0))
    with service(folder, "--master", "local[2]", runtime="spark") as (process, url), api.connect(url) as session:
        session.execute(PROGRAM.format(folder=folder).split(";")[0])
        hot = session.follow("CREATE QUERY hot AS SELECT value FROM reading WHERE value > 10")
        assert values_of(hot, 1) == [15.0]
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 128 + signal.SIGTERM
