"""The application: its routes, and what it answers to errors."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidegate.errors import QueryError, TidegateError
from tidegate.live.session import LiveSession
from tidegate.service.access import Access, AccessControl
from tidegate.service.endpoints import Endpoints
from tidegate.service.openapi import OPERATIONS
from tidegate.service.refusals import Refusal, error_response
from tidegate.service.subscribers import Subscribers

_LOG = logging.getLogger("tidegate.service")


def make_app(live: LiveSession, access: Access, subscribers: Subscribers) -> Starlette:
    """Make the application over a live session."""
    endpoints = Endpoints(live, subscribers)
    routes = [
        Route(operation.path, getattr(endpoints, operation.name), methods=[operation.method], name=operation.name)
        for operation in OPERATIONS
    ]
    handlers = {
        TidegateError: _answer_error,
        Refusal: _answer_error,
        HTTPException: _answer_http_error,
        Exception: _answer_unexpected_error,
    }
    middleware = [Middleware(AccessControl, access=access)]
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


async def _answer_error(_: Request, error: Exception) -> Response:
    return error_response(error)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """Answer what Starlette refuses: an unknown path, or another method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path} is not part of the service"
    refusal = Refusal(error.status_code, QueryError("Q508", message, hint="/openapi.json describes the service"))
    refusal.headers = dict(error.headers or {})
    return error_response(refusal)


async def _answer_unexpected_error(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(error)
