"""Errors as HTTP responses: JSON with code, message, hint and place, and the status that fits."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from tidegate.errors import DataError, QueryError, TidegateError
from tidegate.wire import error_to_json

_CONFLICTS = frozenset({"Q105", "Q118"})
"""Codes of a name that exists already, and of an object that is in use."""

_ENDED = frozenset({"Q312", "Q320"})
"""Codes of a session that was closed, or whose run failed, while a statement waited."""


class Refusal(Exception):  # noqa: N818 - a refused request is not an error of the service
    """A request that is refused with a status, before a statement is looked at."""

    def __init__(self, status: int, error: TidegateError, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(error.message)
        self.status, self.error, self.headers = status, error, headers


def refuse(status: int, code: str, message: str, *, hint: str | None = None) -> Refusal:
    """Return a refusal of what the client sent."""
    return Refusal(status, QueryError(code, message, hint=hint))


def error_response(error: BaseException) -> Response:
    """Return the response to a request that failed."""
    if isinstance(error, Refusal):
        return JSONResponse({"error": error_to_json(error.error)}, error.status, headers=error.headers)
    return JSONResponse({"error": error_to_json(error)}, status_of(error))


def status_of(error: BaseException) -> int:
    """Return the HTTP status of an error in a statement.

    Examples
    --------
    >>> status_of(QueryError("Q001", "syntax")), status_of(DataError("D101", "no file")), status_of(ValueError())
    (400, 422, 500)
    """
    match error:
        case QueryError(code=code) if code in _CONFLICTS:
            return 409
        case QueryError(code=code) if code in _ENDED:
            return 503
        case QueryError(code="Q316"):  # a path that is not allowed
            return 403
        case QueryError():
            return 400
        case DataError():
            return 422
    return 500
