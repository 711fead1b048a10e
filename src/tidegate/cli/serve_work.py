"""Start a service, wait for its end, and end it cleanly."""

from __future__ import annotations

import gc
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Literal

from tidegate.cli.signals import StopSignals
from tidegate.cli.texts import read_statements
from tidegate.cli.tokens import read_token, refuse_short_token
from tidegate.errors import TidegateError, TidegateWarning
from tidegate.live.session import LiveSession
from tidegate.service.access import Access
from tidegate.service.server import Server, listen
from tidegate.values import value

FAILED_SECONDS = 5.0
"""Time for which a failed run is still reported by the service."""
GENERATOR = "generator://"
"""Beginning of the locations of generated rows, which are always allowed: they read nothing."""
_POLL_SECONDS = 0.1


@value
class ServeOptions:
    """Options of the command."""

    runtime: Literal["spark", "embedded"]
    master: str
    checkpoint: str
    buckets: int | None
    host: str
    port: int
    token_file: Path | None
    allowed_paths: tuple[str, ...]
    files: tuple[Path, ...]
    reoptimize: bool = True


def run_service(options: ServeOptions) -> int:
    """Serve until a signal or an error of the run; return the exit code."""
    _log_to_stderr()
    token = read_token(options.token_file)
    refuse_short_token(token)
    access = Access(options.host, token)
    texts = [(file, read_statements(file)) for file in options.files]
    with listen(access, options.port) as listener:  # before Spark is started
        live = _open_session(options)
        with live, StopSignals(live.kill) as signals:
            _run_files(live, texts)
            _shorten_pauses()
            with Server(live, access, listener) as server:
                _announce(live, server, options)
                signals.running = True
                _wait_for_end(live, signals)
    return signals.exit_code


def _open_session(options: ServeOptions) -> LiveSession:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TidegateWarning)  # they are shown as other messages are
        live = LiveSession(
            checkpoint=options.checkpoint,
            runtime=options.runtime,
            master=options.master,
            buckets=options.buckets,
            allowed_paths=(*options.allowed_paths, GENERATOR),
            reoptimize=options.reoptimize,
        )
    for warning in live.warnings:
        _say(warning.render())
    return live


def _run_files(live: LiveSession, texts: list[tuple[Path, str]]) -> None:
    """Run the statements of files if nothing is registered yet."""
    for file, text in texts:
        if live.is_resumed:
            _say(f"{file} is not run: the checkpoint has statements already, and continues")
        else:
            for answer in live.execute(text):
                for warning in answer.warnings:
                    _say(warning.render())
                _say(answer.message)


def _shorten_pauses() -> None:
    """Let the garbage collector leave alone what stays for the life of the process, mostly modules.

    Otherwise it stops all threads for about a tenth of a second from time to time, which is as long as a step.
    """
    gc.collect()
    gc.freeze()


def _announce(live: LiveSession, server: Server, options: ServeOptions) -> None:
    for status in live.queries():
        _say(f"query {status.name} is {status.state}")
    _say(f"checkpoint {options.checkpoint}; files in {', '.join(options.allowed_paths)}")
    _say(f"listening on {server.url}")


def _wait_for_end(live: LiveSession, signals: StopSignals) -> None:
    """Wait for a signal. If the run fails, report that for a while, then raise its error."""
    try:
        while signals.received is None:
            if live.wait(_POLL_SECONDS):
                return
    except TidegateError as error:
        _say(error.render())
        until = time.monotonic() + FAILED_SECONDS
        while signals.received is None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        raise
    _say("stopping after the current step …")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _log_to_stderr() -> None:
    """Show what fails in the service itself, and which queries move to better plans.

    Requests are not logged, because their headers have the token.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    for name in ("tidegate.service", "tidegate.live"):
        log = logging.getLogger(name)
        log.addHandler(handler)
        log.propagate = False
    logging.getLogger("tidegate.live").setLevel(logging.INFO)
