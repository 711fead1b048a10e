"""What the service needs of a live session."""

from __future__ import annotations

from typing import Protocol

from tidegate.live.answers import Answer, QueryStatus
from tidegate.live.feeds import ResultFeed
from tidegate.runtime.job import Progress, QueryState


class LiveGraph(Protocol):
    """A live session. All calls may block, and may come from any thread."""

    @property
    def state(self) -> QueryState: ...

    @property
    def error(self) -> BaseException | None: ...

    def execute(self, text: str) -> tuple[Answer, ...]: ...

    def follow(self, text: str) -> tuple[tuple[Answer, ...], ResultFeed]: ...

    def queries(self) -> tuple[QueryStatus, ...]: ...

    def subscribe(self, name: str) -> ResultFeed: ...

    def progress(self) -> Progress: ...
