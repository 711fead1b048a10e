"""A service on a free port of this machine, and plain HTTP requests to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from tidegate.live.session import LiveSession
from tidegate.service.access import Access
from tidegate.service.server import Server, listen

PATIENCE = 120.0


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


@dataclass(frozen=True)
class Served:
    """A running service over a session."""

    live: LiveSession
    server: Server
    folder: Path

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        connection = self.connect()
        try:
            connection.request(method, path, body.encode() if isinstance(body, str) else body, dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, dict(response.headers.items()), response.read())
        finally:
            connection.close()

    def sql(self, text: str | bytes, **headers: str) -> Reply:
        return self.ask("POST", "/v1/sql", text, {"Content-Type": "application/sql", **headers})

    def follow(self, name: str, accept: str = "application/x-ndjson") -> tuple[HTTPConnection, HTTPResponse]:
        connection = self.connect()
        connection.request("GET", f"/v1/queries/{name}/results", headers={"Accept": accept})
        return connection, connection.getresponse()

    def define_readings(self) -> str:
        """Return the statement that makes a stream of the files that `write` writes."""
        return f"CREATE STREAM reading (at BIGINT, value DOUBLE) FROM '{self.folder}/reading-*.csv' TIMESTAMP BY at;"

    def write(self, number: int, *rows: tuple[int, float]) -> None:
        """Add a file of readings."""
        path = self.folder / f"reading-{number:03}.csv"
        path.with_suffix(".part").write_text("at,value\n" + "".join(f"{at},{value}\n" for at, value in rows))
        path.with_suffix(".part").rename(path)


@contextmanager
def served(folder: Path, access: Access | None = None) -> Iterator[Served]:
    live = LiveSession(checkpoint=str(folder / "checkpoint"), buckets=1, allowed_paths=[str(folder)])
    access = access or Access()
    server = Server(live, access, listen(access, 0))
    try:
        yield Served(live, server, folder)
    finally:
        server.close()
        live.close()
