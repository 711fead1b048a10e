"""The server: bound to an address, in a thread of its own."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self

import uvicorn

from tidegate.errors import DataError, QueryError
from tidegate.live.session import LiveSession
from tidegate.service.access import Access, is_loopback
from tidegate.service.app import make_app
from tidegate.service.subscribers import Subscribers

_BACKLOG = 2048
_SECONDS_TO_END = 10


class Server:
    """A server that answers from the end of `__init__` until `close`, at a socket that `listen` made."""

    def __init__(self, live: LiveSession, access: Access, listener: socket.socket) -> None:
        self._socket = listener
        self.url = _url_of(listener)
        self._subscribers = Subscribers()
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                make_app(live, access, self._subscribers),
                http="h11",
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_SECONDS_TO_END,
            )
        )
        self._thread = threading.Thread(
            target=self._uvicorn.run, kwargs={"sockets": [self._socket]}, name="tidegate-service", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer the requests that have begun, end all subscriptions, then stop listening."""
        self._uvicorn.should_exit = True
        while self._thread.is_alive():
            # Again and again: a client may subscribe until the server has stopped listening.
            self._subscribers.end_all()
            self._thread.join(0.05)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_access(access: Access) -> None:
    """Refuse to serve other machines without a token."""
    if access.token is None and not is_loopback(access.host):
        hint = "name a file with --token-file or set TIDEGATE_TOKEN; or leave out --host to serve this machine only"
        raise QueryError("Q510", f"to listen on {access.host}, the service needs a token", hint=hint)


def listen(access: Access, port: int) -> socket.socket:
    """Return a socket that listens on the address; port 0 is any free port."""
    check_access(access)
    host = access.host
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise DataError("D501", f"cannot listen on {host}: {error.strerror}", hint="check --host") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        message = f"cannot listen on {host}:{port}: {error.strerror}"
        raise DataError("D501", message, hint="choose another --port") from error
    return listener


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
