"""The interactive shell: history, completion, and statements of several lines."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from tidegate.cli.shell import Shell, is_complete
from tidegate.client.session import RemoteSession
from tidegate.errors import TidegateError

_WORD = re.compile(r"[^\W\d]\w*")
_SHORTEST_KEYWORD = 2


def run_shell(session: RemoteSession) -> None:
    r"""Read and run statements until \q or the end of the input."""
    shell, names = Shell(session, is_interactive=True), ServiceNames(session)
    prompt: PromptSession[str] = PromptSession(
        "tidegate> ",
        multiline=True,
        prompt_continuation=lambda width, *_: "...> ".rjust(width),
        history=_open_history(),
        completer=WordCompleter(names.words),
        complete_in_thread=True,
        complete_while_typing=False,
        key_bindings=_bind_enter(),
    )
    print(rf"connected to {session.url}; \? shows help")
    while True:
        try:
            text = prompt.prompt()
        except KeyboardInterrupt:  # discard what was typed
            continue
        except EOFError:
            return
        try:
            if not shell.run_text(text):
                return
        except TidegateError as error:
            print(error.render(), file=sys.stderr)
        except KeyboardInterrupt:
            print("cancelled: the service may still run the statement", file=sys.stderr)
        names.forget()


class ServiceNames:
    """Names of streams, columns and queries of a service, asked for when they are first needed."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self._words: tuple[str, ...] | None = None

    def words(self) -> tuple[str, ...]:
        if self._words is None:
            try:
                answers = self._session.execute("SHOW STREAMS; SHOW TABLES; SHOW QUERIES")
            except TidegateError:
                return ()
            cells = (str(c) for a in answers if a.table is not None for column in a.table for c in column.to_pylist())
            self._words = tuple(sorted({word for cell in cells for word in _WORD.findall(cell)}))
        return self._words

    def forget(self) -> None:
        """Ask again, because a statement may have changed the names."""
        self._words = None


class WordCompleter(Completer):
    """Completes keywords, and the names that a function returns."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        typed = document.get_word_before_cursor(pattern=_WORD)
        if not typed:
            return
        found = dict.fromkeys(self._names(), "name") | dict.fromkeys(keywords(), "keyword")
        for word in sorted(found, key=lambda each: (found[each] == "keyword", each)):
            if word.lower().startswith(typed.lower()):
                yield Completion(word, -len(typed), display_meta=found[word])


@cache
def keywords() -> tuple[str, ...]:
    """Return the keywords of the language, in capital letters.

    Examples
    --------
    >>> set(keywords()) >= {"SELECT", "WINDOW", "CREATE", "STREAM", "TIMESTAMP"}
    True
    """
    grammar = files("tidegate.language.parse").joinpath("grammar.lark").read_text(encoding="utf-8")
    plain = re.findall(r'"([a-z]+)"i', grammar)
    patterns = re.findall(r"^_?[A-Z_]+(?:\.\d+)?: /([a-z]+)(?:\\b|\\s|\(\?=|/)", grammar, re.MULTILINE)
    return tuple(sorted({word.upper() for word in (*plain, *patterns) if len(word) >= _SHORTEST_KEYWORD}))


def _bind_enter() -> KeyBindings:
    """Let Enter run a text that is complete, and begin a new line otherwise."""
    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def _open_history() -> History:
    """Return the history in the user's state folder; in memory, if that cannot be written."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "tidegate" / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("ab"):
            return FileHistory(str(path))
    except OSError:
        return InMemoryHistory()
