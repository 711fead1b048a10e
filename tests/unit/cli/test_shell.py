"""`tidegate sql`: through pipes, from a file, and through a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from support.processes import python_environment
from support.served import Served, served

import tidegate
from tidegate.cli.prompt import ServiceNames, WordCompleter, _open_history
from tidegate.errors import QueryError
from tidegate.service.access import Access

COMMAND = [sys.executable, "-m", "tidegate.cli.main", "sql"]
PATIENCE = 60.0


@pytest.fixture(name="service")
def _service(tmp_path):
    with served(tmp_path) as service:
        yield service


def run(service: Served, *arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*COMMAND, "--url", service.server.url, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, **python_environment(), **environment},
    )


def test_statements_from_a_pipe(service: Served):
    done = run(service, text=f"{service.define_readings()}\nSELECT value FROM reading;\n\\d\nSHOW STREAMS")
    assert (done.returncode, done.stderr) == (0, "")
    assert "query_1" in done.stdout
    assert done.stdout.endswith("reading  at BIGINT, value DOUBLE\n")
    assert [each.name for each in service.live.queries()] == ["query_1"]


def test_a_file_is_run_up_to_the_first_error_which_shows_its_place(service: Served, tmp_path):
    file = tmp_path / "program.sql"
    file.write_text(f"{service.define_readings()}\n\nSHOW STREAMS;\n  SELECT valeu FROM reading;\nDROP STREAM reading;")
    done = run(service, str(file))
    assert done.returncode == QueryError.exit_code
    assert "reading  at BIGINT" in done.stdout
    assert "--> 4:10\n   |   SELECT valeu FROM reading;\n   |          ^^^^^" in done.stderr
    assert "reading" in service.sql("SHOW STREAMS").body.decode()


@pytest.mark.parametrize(
    ("text", "code"), [("\\x", 2), ("SELECT", 2), ("\\d no_such", 2), ("\\f no_such", 2), ("\\q\nnonsense", 0), ("", 0)]
)
def test_exit_codes(service: Served, text, code):
    assert run(service, text=text).returncode == code


def test_a_service_that_is_not_there_and_a_file_that_is_not_there(service: Served, tmp_path):
    assert run(service, str(tmp_path / "no.sql")).returncode == 2
    done = run(service, "--url", "http://127.0.0.1:1", text="SHOW STREAMS")
    assert done.returncode == 3
    assert "error[D502]" in done.stderr


def test_the_token_comes_from_a_file_or_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    with served(tmp_path, Access(token="0123456789abcdef")) as service:
        assert run(service, text="SHOW STREAMS").returncode == 2
        assert run(service, "--token-file", str(file), text="SHOW STREAMS").returncode == 0
        assert run(service, text="SHOW STREAMS", TIDEGATE_TOKEN="0123456789abcdef").returncode == 0
        wrong = run(service, text="SHOW STREAMS", TIDEGATE_TOKEN="another")
        assert (wrong.returncode, "another" in wrong.stderr) == (2, False)


class Terminal:
    """The shell in a pseudo terminal."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            # A process in the background ignores Ctrl-C, and so would the shell.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execve(COMMAND[0], [*COMMAND, *arguments], environment)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def expect(self, pattern: str) -> None:
        """Wait until what the terminal shows has the pattern, and go on after it."""
        until = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < until, f"{pattern!r} is not in {self.seen!r}"
            if select.select([self.file], [], [], 1)[0]:
                self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(self.file, 65536).decode(errors="replace"))
        self.seen = self.seen[found.end() :]

    def end(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def terminal(service: Served, state: str):
    environment = {**os.environ, **python_environment(), "XDG_STATE_HOME": state, "PROMPT_TOOLKIT_NO_CPR": "1"}
    shell = Terminal(["--url", service.server.url], {**environment, "TERM": "xterm", "NO_COLOR": "1"})
    try:
        yield shell
    finally:
        try:
            os.kill(shell.pid, signal.SIGKILL)
            os.waitpid(shell.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(shell.file)


def test_the_shell_in_a_terminal(service: Served, tmp_path):
    with terminal(service, str(tmp_path)) as shell:
        shell.expect("shows help")
        shell.expect("tidegate>")
        shell.type(service.define_readings() + "\r")
        shell.expect("created stream reading")
        shell.expect("tidegate>")
        shell.type("SELECT valeu\r")
        shell.expect(r"\.\.\.>")
        shell.type("FROM reading;\r")
        shell.expect(r"error\[Q")
        shell.expect(r"--> 1:8")
        shell.expect("tidegate>")
        service.write(1, (1_000_000, 5.25))
        shell.type("SELECT value FROM read\t")
        shell.expect("FROM read")
        shell.expect("ing")
        shell.type(";\r")
        shell.expect("valid_from")
        shell.expect(r"5\.25")
        service.write(2, (2_000_000, 7.75))
        shell.expect(r"7\.75")
        assert len(service.live.queries()) == 1
        shell.type("\x03")
        shell.expect("dropped query query_1")
        shell.expect("tidegate>")
        assert service.live.queries() == ()
        shell.type("\\q\r")
        assert shell.end() == 0
    history = tmp_path / "tidegate" / "history"
    assert "FROM reading" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_names_and_keywords_are_completed(service: Served):
    with tidegate.connect(service.server.url) as session:
        names = ServiceNames(session)
        session.execute(service.define_readings())
        completer = WordCompleter(names.words)

        def complete(text: str) -> list[str]:
            return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]

        assert complete("SELECT val") == ["value", "VALID"]
        assert complete("SELECT value FROM rea") == ["reading"]
        assert complete("sel") == ["SELECT"]
        assert complete("SELECT ") == []
        session.execute("CREATE STREAM reasons AS SELECT * FROM reading")
        assert complete("rea") == ["reading"]
        names.forget()
        assert complete("rea") == ["reading", "reasons"]


def test_a_history_that_cannot_be_written_is_kept_in_memory(tmp_path, monkeypatch):
    (tmp_path / "tidegate").write_text("a file in place of the folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert type(_open_history()).__name__ == "InMemoryHistory"


def test_a_select_over_a_view_is_shown_at_once(service: Served, tmp_path):
    service.sql(service.define_readings())
    service.sql("CREATE MATERIALIZED VIEW top AS SELECT MAX(value) AS top FROM reading WINDOW(RANGE 1 HOUR)")
    service.write(1, (1, 5.0), (2, 7.0), (3, 1.0))
    while not service.live.snapshot("SELECT top FROM top").num_rows:
        pass
    with terminal(service, str(tmp_path)) as shell:
        shell.expect("tidegate>")
        shell.type("SELECT top FROM top;\r")
        shell.expect(r"7\.0")
        shell.expect("1 rows at 1970-01-01T00:00:00.000002Z")
        shell.expect("tidegate>")
    assert [each.name for each in service.live.queries()] == ["top"]
