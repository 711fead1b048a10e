"""Requests to a service.

`http.client` of the standard library is enough: requests are few and small, and rows arrive as one Arrow stream. So a
program that only asks a service needs no other package for it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from tidegate.errors import DataError, QueryError
from tidegate.wire import error_from_json

ANSWER_SECONDS = 600.0
"""Time to wait for an answer: a statement waits for the current step."""
SILENCE_SECONDS = 60.0
"""Silence after which a stream of results counts as lost; the service says something more often."""

_TOKEN = re.compile(r"[\x21-\x7e]+")


class ServiceAddress:
    """Address of a service, with the token that it asks for."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            self._port = parts.port
        except ValueError:
            self._port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or self._port == -1 or parts.username:
            raise QueryError("Q511", f"'{url}' is not the address of a service", hint="write http://127.0.0.1:8080")
        if token is not None and not _TOKEN.fullmatch(token):
            raise QueryError("Q512", "the token has characters that no token has", hint="use letters and digits")
        self._is_secure, self._host, self._base = parts.scheme == "https", parts.hostname, parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.url = url

    def ask(
        self, method: str, path: str, text: str | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a request and return the JSON of the answer; raise the error that the service answers."""
        with self._open(method, path, text, headers or {}, ANSWER_SECONDS) as (_, response):
            return _read_json(response, self.url)

    @contextmanager
    def follow(
        self, method: str, path: str, text: str | None, headers: Mapping[str, str]
    ) -> Iterator[tuple[socket.socket, HTTPResponse]]:
        """Send a request and yield the answer, which goes on, with its socket."""
        with self._open(method, path, text, headers, SILENCE_SECONDS) as opened:
            yield opened

    @contextmanager
    def _open(
        self, method: str, path: str, text: str | None, headers: Mapping[str, str], seconds: float
    ) -> Iterator[tuple[socket.socket, HTTPResponse]]:
        kind = HTTPSConnection if self._is_secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=seconds)
        body = None if text is None else text.encode()
        content = {} if text is None else {"Content-Type": "application/sql"}
        try:
            with self._connection_errors():
                connection.connect()
                opened = connection.sock
                connection.request(method, self._base + path, body, {**self._headers, **content, **headers})
                response = connection.getresponse()
                if response.status != 200:
                    _raise_error(response, text or "", self.url)
            with self._connection_errors():
                yield opened, response
        finally:
            connection.close()

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, HTTPException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            hint = "is it running? `tidegate serve --checkpoint DIR` starts a service"
            raise DataError("D502", f"the service at {self.url} cannot be reached: {said}", hint=hint) from error


def _raise_error(response: HTTPResponse, text: str, url: str) -> None:
    content = _read_json(response, url)
    if not isinstance(content.get("error"), dict):
        raise _no_service(url)
    raise error_from_json(content["error"], text)


def _read_json(response: HTTPResponse, url: str) -> dict[str, Any]:
    try:
        content = json.loads(response.read())
    except ValueError:
        raise _no_service(url) from None
    if not isinstance(content, dict):
        raise _no_service(url)
    return content


def _no_service(url: str) -> DataError:
    return DataError("D503", f"what answers at {url} is not a service of Tidegate", hint="check the address")
