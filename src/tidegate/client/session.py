"""Sessions with a service, which runs elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa

from tidegate.client.feed import RemoteFeed
from tidegate.client.http import ServiceAddress
from tidegate.errors import DataError
from tidegate.live.answers import Answer, QueryStatus, snapshot_table
from tidegate.runtime.figures import Metadata
from tidegate.wire import answer_from_json, metadata_from_json, status_from_json


def connect(url: str, token: str | None = None) -> RemoteSession:
    """Connect to a service that `tidegate serve` started; raise an error if it cannot be reached.

    The token is only needed if the service asks for one.
    """
    session = RemoteSession(ServiceAddress(url, token))
    session.health()
    return session


class RemoteSession:
    """Queries of a service. The service keeps them, whether or not a session is connected."""

    def __init__(self, address: ServiceAddress) -> None:
        self._address = address
        self._feeds: list[RemoteFeed] = []

    @property
    def url(self) -> str:
        return self._address.url

    def execute(self, text: str) -> tuple[Answer, ...]:
        """Run statements, all of them or none, and return an answer for each."""
        content = self._address.ask("POST", "/v1/sql?tables=arrow", text)
        return tuple(answer_from_json(each, text) for each in content["answers"])

    def sql(self, text: str) -> RemoteQuery | None:
        """Run statements; return the last query that they register, or None if they register none."""
        answers = self.execute(text)
        _warn(answers)
        about = [answer for answer in answers if answer.query is not None]
        known = {status.name for status in self.queries()} if about else set()
        registered = [answer.query for answer in about if answer.query in known]
        return RemoteQuery(self, registered[-1]) if registered else None

    def follow(self, text: str) -> RemoteQuery:
        """Run statements that register one query, and follow it: its first results are not missed."""
        feed = self._keep(RemoteFeed(self._address, "POST", "/v1/sql?follow=true", text))
        _warn(feed.answers)
        name = next(answer.query for answer in reversed(feed.answers) if answer.query is not None)
        return RemoteQuery(self, name, feed)

    def snapshot(self, text: str) -> pa.Table:
        """Return the rows of a query over materialized views and tables, as they are now.

        The metadata of the table's schema has the `instant`, in microseconds, if the rows depend on one.
        """
        answers = self.execute(text)
        _warn(answers)
        return snapshot_table(answers)

    def ask(self, text: str) -> str:
        """Return the answers to SHOW, DESCRIBE and EXPLAIN as text."""
        return "\n\n".join(_answer_text(answer) for answer in self.execute(text))

    def explain(self, text: str, *, analyze: bool = False) -> str:
        """Show the plan of a query. With `analyze`, run it, and show what each operator did."""
        return self.ask(f"EXPLAIN {'ANALYZE ' if analyze else ''}{text}")

    def queries(self) -> tuple[QueryStatus, ...]:
        """Return the registered queries."""
        return tuple(map(status_from_json, self._address.ask("GET", "/v1/queries")["queries"]))

    def query(self, name: str) -> RemoteQuery:
        """Return the handle on a registered query."""
        return RemoteQuery(self, self._status(name).name)

    def subscribe(self, name: str) -> RemoteFeed:
        """Return the results of a query from now on.

        "dead_letters" has the rows that could not be processed, "quality" the sizes of windows that change.
        """
        return self._keep(RemoteFeed(self._address, "GET", f"/v1/queries/{quote(name, safe='')}/results"))

    def status(self) -> dict[str, Any]:
        """Return the state and the figures of the run."""
        return self._address.ask("GET", "/v1/status")

    def metadata(self, name: str | None = None) -> Metadata:
        """Return what operators do, how fast sources are and where time goes, in all queries or in one."""
        path = "/v1/metadata" if name is None else f"/v1/queries/{quote(name, safe='')}/metadata"
        return metadata_from_json(self._address.ask("GET", f"{path}?tables=arrow"))

    def health(self) -> dict[str, Any]:
        """Return the state of the run; raise its error if it failed."""
        found = self._address.ask("GET", "/health")
        if "state" not in found:
            raise DataError("D503", f"what answers at {self.url} is not a service of Tidegate")
        return found

    def close(self) -> None:
        """End the feeds of this session. Queries go on."""
        for feed in self._feeds:
            feed.close()
        self._feeds.clear()

    def __repr__(self) -> str:
        return f"<RemoteSession at {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _status(self, name: str) -> QueryStatus:
        return status_from_json(self._address.ask("GET", f"/v1/queries/{quote(name, safe='')}"))

    def _drop(self, name: str) -> None:
        self._address.ask("DELETE", f"/v1/queries/{quote(name, safe='')}")

    def _keep(self, feed: RemoteFeed) -> RemoteFeed:
        self._feeds = [each for each in self._feeds if not each.closed] + [feed]
        return feed


class RemoteQuery:
    """Handle on a query of a service. Iterating yields its results as they arrive, as record batches."""

    def __init__(self, session: RemoteSession, name: str, feed: RemoteFeed | None = None) -> None:
        self.name = name
        self._session, self._feed = session, feed

    @property
    def feed(self) -> RemoteFeed:
        """Results since the first use of this property, or since the query was registered by `follow`."""
        if self._feed is None:
            self._feed = self._session.subscribe(self.name)
        return self._feed

    def status(self) -> QueryStatus:
        return self._session._status(self.name)  # noqa: SLF001 - the session of this handle

    @property
    def state(self) -> str:
        return self.status().state

    def results(self, timeout: float = 0.0) -> pa.Table:
        """Return the rows that have arrived since the last call; wait for the first of them up to the timeout."""
        batches: list[pa.RecordBatch] = []
        while (rows := self.feed.next(0.0 if batches else timeout)) is not None:
            batches.append(rows)
        return pa.Table.from_batches(batches, schema=self.feed.schema)

    def metadata(self) -> Metadata:
        """Return what the operators of the query do: rows, time, state and watermarks."""
        return self._session.metadata(self.name)

    def stop(self) -> None:
        """Drop the query."""
        self._session._drop(self.name)  # noqa: SLF001

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.feed)

    def __repr__(self) -> str:
        return f"<RemoteQuery {self.name} at {self._session.url}>"


def _warn(answers: Iterable[Answer]) -> None:
    for answer in answers:
        for warning in answer.warnings:
            warnings.warn(warning, stacklevel=3)  # points to the user's call


def _answer_text(answer: Answer) -> str:
    """Return the text of an answer: that of a table with one column, line by line, or the message."""
    if answer.table is None:
        return answer.message
    if answer.table.num_columns == 1:
        return "\n".join(str(cell) for cell in answer.table.column(0).to_pylist())
    return "\n".join("\t".join(map(str, row.values())) for row in answer.table.to_pylist())
