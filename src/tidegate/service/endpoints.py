"""Handlers of the service's requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tidegate import __version__
from tidegate.errors import InternalError, TidegateError, suggest_name
from tidegate.live.answers import QueryStatus
from tidegate.live.feeds import ResultFeed
from tidegate.live.session import LiveSession
from tidegate.runtime.job import DEAD_LETTERS, QueryState
from tidegate.runtime.quality import QUALITY
from tidegate.service.follow import FeedResponse
from tidegate.service.formats import choose_format
from tidegate.service.metrics import MEDIA_TYPE, ServiceFigures, collect_metrics, format_metrics
from tidegate.service.openapi import make_description
from tidegate.service.refusals import Refusal, refuse
from tidegate.service.requests import RequestLine, read_text
from tidegate.service.subscribers import Subscribers
from tidegate.time import BEGINNING, FOREVER
from tidegate.wire import (
    ARROW,
    Json,
    answer_to_json,
    answers_to_table,
    error_to_json,
    metadata_to_json,
    status_to_json,
    table_to_arrow,
)


class Endpoints:
    """The service over a live session. Statements, questions and encoding have threads of their own."""

    def __init__(self, live: LiveSession, subscribers: Subscribers) -> None:
        self._live, self._subscribers = live, subscribers
        self._statements, self._questions, self._encoders = RequestLine(), RequestLine(), RequestLine(at_once=2)

    async def run_statements(self, request: Request) -> Response:
        self._refuse_if_ended()
        if request.query_params.get("follow") == "true":
            return await self._run_and_follow(request)
        async with self._statements.place():
            text = await read_text(request)
            answers = await self._statements.call(self._live.execute, text)
        if ARROW in request.headers.get("accept", ""):
            table = await self._encoders.call(table_to_arrow, answers_to_table(answers))
            return Response(table, media_type=ARROW)
        arrow = request.query_params.get("tables") == "arrow"
        encoded = await self._encoders.call(lambda: [answer_to_json(answer, arrow=arrow) for answer in answers])
        return JSONResponse({"answers": encoded})

    async def list_queries(self, request: Request) -> Response:
        statuses = await self._ask(self._live.queries)
        return JSONResponse({"queries": [status_to_json(status) for status in statuses]})

    async def show_query(self, request: Request) -> Response:
        return JSONResponse(status_to_json(await self._find_query(request)))

    async def drop_query(self, request: Request) -> Response:
        self._refuse_if_ended()
        status = await self._find_query(request)
        async with self._statements.place():
            answers = await self._statements.call(self._live.execute, drop_statement(status))
        return JSONResponse({"answers": [answer_to_json(answer) for answer in answers]})

    async def follow_query(self, request: Request) -> Response:
        self._refuse_if_ended()
        self._subscribers.check_room()
        name = request.path_params["name"]
        if name not in (DEAD_LETTERS, QUALITY):
            name = (await self._find_query(request)).name
        feed = await self._questions.call(self._live.subscribe, name)
        return self._follow(request, feed)

    async def show_status(self, request: Request) -> Response:
        progress = await self._ask(self._live.progress)
        watermarks = progress.watermarks.copy().items()
        return JSONResponse(
            self._health()
            | {
                "step": progress.steps,
                "rows_in": progress.rows_in,
                "rows_out": progress.rows_out.copy(),
                "dead_letters": progress.dead.copy(),
                "watermarks": {s: mark if BEGINNING < mark < FOREVER else None for s, mark in watermarks},
                "state_bytes": progress.state_bytes,
                "subscribers": self._subscribers.count,
            }
        )

    async def show_health(self, request: Request) -> Response:
        return JSONResponse(self._health(), 503 if self._live.state is QueryState.FAILED else 200)

    async def show_metrics(self, request: Request) -> Response:
        live, others = self._live, self._subscribers
        progress, sizes, queries = await self._ask(lambda: (live.progress(), live.state_sizes(), live.queries()))
        figures = ServiceFigures(live.state, progress, sizes, queries, others.count, others.lost_rows)
        return PlainTextResponse(format_metrics(collect_metrics(figures)), media_type=MEDIA_TYPE)

    async def show_metadata(self, request: Request) -> Response:
        return await self._answer_metadata(request, None)

    async def show_query_metadata(self, request: Request) -> Response:
        return await self._answer_metadata(request, (await self._find_query(request)).name)

    async def describe_api(self, request: Request) -> Response:
        return JSONResponse(make_description())

    async def _answer_metadata(self, request: Request, query: str | None) -> Response:
        found = await self._ask(lambda: self._live.metadata(query))
        if ARROW in request.headers.get("accept", ""):
            return Response(await self._encoders.call(table_to_arrow, found.operators), media_type=ARROW)
        arrow = request.query_params.get("tables") == "arrow"
        return JSONResponse(await self._encoders.call(lambda: metadata_to_json(found, arrow=arrow)))

    async def _run_and_follow(self, request: Request) -> Response:
        """Run statements that register one query, and follow its results from the first on."""
        self._subscribers.check_room()
        async with self._statements.place():
            text = await read_text(request)
            answers, feed = await self._statements.call(self._live.follow, text)
        encoded = [answer_to_json(answer, arrow=True) for answer in answers]
        return self._follow(request, feed, encoded)

    def _follow(self, request: Request, feed: ResultFeed, answers: Sequence[Json] = ()) -> Response:
        shown = choose_format(request.headers.get("accept", ""), feed.schema)
        return FeedResponse(feed, shown, self._subscribers, self._encoders, answers)

    def _health(self) -> Json:
        error = self._live.error
        failed = {} if error is None else {"error": error_to_json(error)}
        return {"state": str(self._live.state), "version": __version__, **failed}

    async def _ask(self, question: Callable[[], Any]) -> Any:
        async with self._questions.place():
            return await self._questions.call(question)

    async def _find_query(self, request: Request) -> QueryStatus:
        name = request.path_params["name"]
        statuses = await self._ask(self._live.queries)
        for status in statuses:
            if status.name.lower() == name.lower():
                return status  # type: ignore[no-any-return]
        hint = suggest_name(name, [status.name for status in statuses]) or "no query is registered"
        raise refuse(404, "Q502", f"there is no query '{name}'", hint=hint)

    def _refuse_if_ended(self) -> None:
        """Refuse statements and subscriptions if the run has failed or was stopped."""
        if self._live.state is QueryState.RUNNING:
            return
        error = self._live.error
        if not isinstance(error, TidegateError):
            what = "was stopped" if error is None else f"has failed: {type(error).__name__}"
            error = InternalError("I502", f"the run {what}", hint="start the service again; it continues")
        raise Refusal(503, error)


_KINDS = {"ALERT": "ALERT", "ALERTS": "ALERT", "MATERIALIZED": "VIEW"}
"""Kinds of objects other than queries, by the second words of the statements that create them."""


def drop_statement(status: QueryStatus) -> str:
    """Return the statement that drops a query, an alert or a view.

    Examples
    --------
    >>> drop_statement(QueryStatus('a"b', "SELECT 1", "running", None, 0))
    'DROP QUERY "a""b"'
    """
    first, second = [*status.text.upper().split(), "", ""][:2]
    kind = _KINDS.get(second, "QUERY") if first == "CREATE" else "QUERY"
    quoted = status.name.replace('"', '""')
    return f'DROP {kind} "{quoted}"'
