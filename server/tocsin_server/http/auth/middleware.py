"""Check the host, origin, identity and size of every request, and write the request log.

This is plain ASGI, so that WebSockets and streamed responses pass through unchanged. ``/mcp`` and everything
under ``/api/v1`` except :data:`OPEN` require an identity here already, so that a missing check in a route
cannot expose them. WebSockets authenticate themselves (the client's token is in its handshake).
"""

from __future__ import annotations

import logging
import time
from urllib.parse import quote

import anyio.to_thread
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin_server.core.origins import host_is_ours
from tocsin_server.core.permissions import Gate, Identity
from tocsin_server.core.responses import ExactJSON, Problem, problem_response, shortened
from tocsin_server.core.settings import Settings

API = "/api/v1/"
MCP = "/mcp"
OPEN = frozenset({"/api/v1/health", "/api/v1/ready"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
VISITOR_BYTES = 64 << 10
INVALID_REQUEST = -32600
"""Code of JSON-RPC."""

log = logging.getLogger("tocsin.requests")

NOBODY = Problem(
    401,
    subject="login",
    expected="an Authorization: Bearer token or the session cookie that the login link sets",
    detail="You are not logged in, or the token is unknown or revoked. Open the login link of the server, or "
    "send a valid token as Authorization: Bearer TOKEN.",
    headers={"www-authenticate": 'Bearer realm="tocsin"'},
)


class Guard:
    """ASGI middleware; sets ``request.state.identity`` (an Identity or None)."""

    def __init__(self, app: ASGIApp, settings: Settings, gate: Gate) -> None:
        self._app = app
        self._settings = settings
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        scope.setdefault("state", {})["identity"] = await self._identity(connection)
        started = time.perf_counter()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        problem = self._objection(connection, scope["method"]) or _too_big(connection, self._settings)
        try:
            if problem is not None:
                await _answer(scope["path"], problem)(scope, receive, noting)
            else:
                await self._app(scope, _bounded(receive, self._most_bytes(connection)), noting)
        finally:
            line = request_line(scope, status, time.perf_counter() - started)
            log.log(log_level(scope["path"], status), "%s", line)

    def _most_bytes(self, connection: HTTPConnection) -> int:
        """Return the maximum size of the body: without a login, only the login form is sent."""
        limit = self._settings.limit_body_bytes
        return min(limit, VISITOR_BYTES) if connection.state.identity is None else limit

    async def _identity(self, connection: HTTPConnection) -> Identity | None:
        """Return who sent a request.

        An unknown token makes the gate query the database, which must not happen on the event loop, nor on
        the paths that must answer while the database is down. Cookies never cause a query.
        """
        if connection.scope["path"] in OPEN:
            return self._gate.session_of(connection, ask=False)
        if "authorization" in connection.headers:
            return await anyio.to_thread.run_sync(self._gate.session_of, connection)
        return self._gate.session_of(connection)

    def _objection(self, connection: HTTPConnection, method: str) -> Problem | None:
        """Return the reason to reject a request before routing, or None."""
        if not self._host_is_ours(connection):
            return _wrong_host(connection)
        if method not in SAFE and not self._from_here(connection):
            return _wrong_origin(connection)
        path = connection.scope["path"]
        if (path.startswith(API) or path == MCP) and path not in OPEN and connection.state.identity is None:
            return NOBODY
        return None

    def _from_here(self, connection: HTTPConnection) -> bool:
        """Return whether a request with a cookie comes from our origin.

        Requests with a bearer token need no Origin, because pages of other sites cannot send the token.
        """
        if "authorization" in connection.headers or "cookie" not in connection.headers:
            return self._gate.same_origin(connection)
        return "origin" in connection.headers and self._gate.same_origin(connection)

    def _host_is_ours(self, connection: HTTPConnection) -> bool:
        return host_is_ours(
            connection.headers.get("host", ""),
            connection.url.scheme,
            loopback=self._settings.loopback,
            public_url=self._settings.public_origin,
        )

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        if self._host_is_ours(connection) and self._gate.same_origin(connection):
            await self._app(scope, receive, send)
            return
        log.info("%s", request_line({**scope, "method": "WEBSOCKET"}, 403, 0.0))
        await receive()
        await send({"type": "websocket.close", "code": 4403, "reason": "Host and Origin do not agree"})


def _wrong_host(connection: HTTPConnection) -> Problem:
    host = connection.headers.get("host", "")
    return Problem(
        421,
        subject="Host",
        expected="localhost, 127.0.0.1 or the host of public_url",
        got=host,
        detail=f"This server does not answer requests for the host {shortened(host) or '(none)'}. "
        "Use localhost or 127.0.0.1, or set public_url to the address that users enter.",
    )


def _wrong_origin(connection: HTTPConnection) -> Problem:
    host, origin = connection.headers.get("host", ""), connection.headers.get("origin", "")
    return Problem(
        403,
        subject="Origin",
        expected=f"a page of this server ({host})",
        got=origin,
        detail=f"The request comes from a page of another site ({shortened(origin) or 'unknown'}), so it was "
        "rejected. Repeat it from a page of this server, or send a bearer token.",
    )


def _too_big(connection: HTTPConnection, settings: Settings) -> Problem | None:
    length = connection.headers.get("content-length", "0")
    if length.isdigit() and int(length) <= settings.limit_body_bytes:
        return None
    return _too_many_bytes(settings.limit_body_bytes, f"{length} bytes")


def _answer(path: str, problem: Problem) -> Response:
    """Return the response for a problem. Clients of ``/mcp`` show only the message of a JSON-RPC error."""
    if path != MCP or problem.status != 413:
        return problem_response(problem)
    advice = (
        "Send only the last lines of the log up to the problem, or run `tocsin diagnose FILE` on its machine."
    )
    error = {"code": INVALID_REQUEST, "message": f"{problem.detail} {advice}"}
    return ExactJSON({"jsonrpc": "2.0", "id": None, "error": error}, problem.status)


def _too_many_bytes(limit: int, got: str) -> Problem:
    detail = f"The request body is too large: {shortened(got)}. At most {limit} bytes are accepted."
    return Problem(413, subject="body", expected=f"at most {limit} bytes", got=got, detail=detail)


def _bounded(receive: Receive, limit: int) -> Receive:
    """Wrap ``receive`` to raise a 413 if a body without Content-Length exceeds ``limit`` bytes."""
    received = 0

    async def counting() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise _too_many_bytes(limit, f"{received} bytes")
        return message

    return counting


def log_level(path: str, status: int) -> int:
    """Return the log level of a request: DEBUG for successful probes and files."""
    quiet = status < 400 and (path in OPEN or not path.startswith((API, "/login", "/logout")))
    return logging.DEBUG if quiet else logging.INFO


def request_line(scope: Scope, status: int, seconds: float) -> str:
    """Return a line of the request log, without the query because a login link contains its token there."""
    client = scope.get("client") or ("-", 0)
    path = quote(scope["path"], safe="/:@!$&'()*+,;=~-._")
    query = "?…" if scope.get("query_string") else ""
    return f"{client[0]} {scope['method']} {path}{query} {status} {seconds * 1000:.1f} ms"
