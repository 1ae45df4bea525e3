"""Send requests over HTTP/1.1 with the standard library. Connections are kept open and reused."""

from __future__ import annotations

import http.client
import weakref
from collections.abc import Iterator
from typing import Any

from ..transport.server_url import Target
from .errors import UnreachableError
from .exchange import Answer, Request

PIECE = 64 << 10
MOST_IDLE = 8
"""Connections that are kept open. Each thread that waits for an answer uses one."""


class HttpTransport:
    """Sends requests to one server. Safe to use from several threads.

    A redirect is not followed, because the token is for this server.
    """

    def __init__(self, target: Target, token: str, timeout_s: float) -> None:
        self.target = target
        self.has_token = bool(token)
        self._headers = {"accept": "application/json"} | (
            {"authorization": f"Bearer {token}"} if token else {}
        )
        self._timeout_s = timeout_s
        self._idle: list[http.client.HTTPConnection] = []
        self._context: Any = None
        weakref.finalize(self, _close_all, self._idle)

    def send(self, request: Request) -> Answer:
        """Return the answer to a request; never raises for a server that is not there."""
        connection = self._taken()
        try:
            response = self._response(connection, request)
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return Answer(0, failure=str(error) or type(error).__name__)
        self._keep(connection, response)
        return Answer(response.status, body, _headers(response))

    def streamed(self, request: Request) -> Answer | Iterator[bytes]:
        """Return the body of an answer in pieces, or the answer if its status is not 200.

        The pieces raise UnreachableError if the connection is lost before the end.
        """
        connection = self._taken()
        try:
            response = self._response(connection, request)
            if response.status == 200:
                return self._pieces(connection, response)
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return Answer(0, failure=str(error) or type(error).__name__)
        connection.close()
        return Answer(response.status, body, _headers(response))

    def _pieces(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> Iterator[bytes]:
        try:
            while piece := response.read(PIECE):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            why = f"The connection to {self.target.base} was lost during a download ({error})."
            raise UnreachableError(f"{why} Try again.") from error
        finally:
            connection.close()

    def close_idle(self) -> None:
        """Close the connections that no request uses."""
        _close_all(self._idle)

    def _response(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        headers = self._headers
        if request.body is not None:
            headers = {**headers, "content-type": "application/json"}
        connection.request(request.method, self.target.prefix + request.target, request.body, headers)
        return connection.getresponse()

    def _taken(self) -> http.client.HTTPConnection:
        """Return an idle connection that the server has not closed, or a new one."""
        while self._idle:
            connection = self._idle.pop()
            if not _is_closed(connection):
                return connection
            connection.close()
        host, port = self.target.host, self.target.port
        if not self.target.secure:
            return http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        if self._context is None:
            import ssl

            self._context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._context)

    def _keep(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        if response.will_close or len(self._idle) >= MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server closed an idle connection: it is readable, but no answer is due."""
    from selectors import EVENT_READ, DefaultSelector

    if connection.sock is None:
        return True
    with DefaultSelector() as selector:
        selector.register(connection.sock, EVENT_READ)
        return bool(selector.select(0))


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _close_all(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()
