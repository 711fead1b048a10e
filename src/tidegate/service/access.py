"""Who may ask: the Host header, the origin of a page in a browser, and the token.

A page in a browser can send requests to services on the same machine. It is refused by what the browser adds to a
request (`Origin`, `Sec-Fetch-Site`), and, if a name was made to point to this machine (DNS rebinding), by the `Host`.
"""

from __future__ import annotations

import hmac
import ipaddress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.service.refusals import Refusal, error_response, refuse
from tidegate.values import value

_HARDENING = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}


@value
class Access:
    """Rules of access: the address that the service is bound to, and the token, if there is one."""

    host: str = "127.0.0.1"
    token: str | None = None

    def __repr__(self) -> str:  # the token is never shown
        return f"Access(host={self.host!r}, token={'set' if self.token else 'none'})"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine only.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AccessControl:
    """ASGI middleware that refuses requests before anything of them is read."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = find_refusal(Headers(scope=scope), self._access)
        if refusal is not None:
            await error_response(refusal)(scope, receive, _with_headers(send))
            return
        await self._app(scope, receive, _with_headers(send))


def find_refusal(headers: Headers, access: Access) -> Refusal | None:
    """Return why a request with these headers is refused; None if it is not."""
    host = headers.get("host", "")
    if is_loopback(access.host) and not is_loopback(_without_port(host)):
        hint = "ask for localhost or 127.0.0.1"
        return refuse(403, "Q504", "the Host header names another machine", hint=hint)
    if _is_cross_origin(headers, host):
        hint = "pages of other origins may not use the service; use a program"
        return refuse(403, "Q505", "the request comes from a page of another origin", hint=hint)
    if access.token is not None and not _has_token(headers, access.token):
        refusal = refuse(401, "Q503", "the token is missing or wrong", hint="send it as 'Authorization: Bearer TOKEN'")
        refusal.headers = {"www-authenticate": "Bearer"}
        return refusal
    return None


def _without_port(host: str) -> str:
    """Return the name or address of a Host header.

    Examples
    --------
    >>> [_without_port(host) for host in ("localhost:80", "[::1]:8080", "::1", "a.example")]
    ['localhost', '::1', '::1', 'a.example']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _is_cross_origin(headers: Headers, host: str) -> bool:
    # A page on another port of this machine is of the same site, but of another origin.
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower())


def _has_token(headers: Headers, token: str) -> bool:
    kind, _, given = headers.get("authorization", "").partition(" ")
    is_equal = hmac.compare_digest(given.strip().encode(), token.encode())
    return kind.lower() == "bearer" and is_equal


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, text in _HARDENING.items():
                headers.setdefault(name, text)
        await send(message)

    return send_with_headers
