"""``POST /mcp``: tools for coding agents over streamable HTTP, behind the same tokens as the API.

The tools are those of :mod:`tocsin.mcp`. They call the routes of this server's own API with the credentials
of the request, so that permissions, limits and the audit log are those of the API. Each request is served by
itself, without a session: nothing is kept between requests, and any replica can answer.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

import anyio
import anyio.to_thread
from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tocsin.mcp.api import ApiError
from tocsin_server.core.permissions import Scope as Permission
from tocsin_server.core.responses import Problem
from tocsin_server.http.api.methods import not_allowed
from tocsin_server.http.services import services_of

if TYPE_CHECKING:
    from mcp.server import Server

    from tocsin.mcp.server import Context

PATH = "/mcp"
API = "/api/v1"
FORWARDED = (b"host", b"authorization", b"cookie", b"origin")
MISSING = Problem(
    501,
    subject="mcp",
    expected="the package mcp",
    got="none",
    detail="The tools for agents need the package mcp on the server: `pip install 'tocsin-server[mcp]'`.",
)


class Endpoint:
    """ASGI application of ``/mcp``. The first request imports the SDK, because that takes a second."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":  # a GET would open a stream, on which nothing is ever sent
            raise not_allowed(scope["method"], "POST", {"allow": "POST"})
        identity = scope["state"]["identity"]
        if not identity.may(Permission.READ):
            got = str(identity.scope)
            detail = f"This needs a token with scope read; yours has scope {got}."
            raise Problem(403, subject="scope", expected="a token of scope read", got=got, detail=detail)
        if find_spec("mcp") is None:
            raise MISSING
        server = await anyio.to_thread.run_sync(_server)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        limit = services_of(Request(scope)).settings.limit_body_bytes
        manager = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=limit
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)


@functools.lru_cache(maxsize=1)
def _server() -> Server[Any]:
    from tocsin.mcp.server import make_server

    logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
    return make_server(_api_of)


def _api_of(context: Context) -> OwnApi:
    assert isinstance(context.request, Request)
    return OwnApi(context.request)


class OwnApi:
    """The API of this server in the name of the caller of a request (:class:`tocsin.mcp.api.Api`)."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def get(self, path: str, params: Mapping[str, Any]) -> Any:
        """Return the JSON of a GET. Raises ApiError."""
        return await self._asked("GET", path, urlencode(params, doseq=True), b"")

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON of a POST, a list if it is JSON Lines. Raises ApiError."""
        return await self._asked("POST", path, "", json.dumps(body).encode())

    async def _asked(self, method: str, path: str, query: str, body: bytes) -> Any:
        """Call the whole application with a separate request."""
        outer = self._request.scope
        whole = services_of(self._request).settings.root_path + API + path
        scope: Scope = {
            **{name: outer[name] for name in ("asgi", "http_version", "scheme", "client", "server")},
            "type": "http",
            "method": method,
            "path": unquote(whole),
            "raw_path": whole.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [
                *(pair for pair in outer["headers"] if pair[0] in FORWARDED),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
            ],
        }
        status, headers, parts = 500, Headers(), list[bytes]()
        unread = [body]

        async def receive() -> Message:
            if not unread:
                await anyio.sleep_forever()  # a streaming response waits here for a disconnect
            return {"type": "http.request", "body": unread.pop(), "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status, headers = message["status"], Headers(raw=message["headers"])
            parts.append(message.get("body", b""))

        await self._request.app(scope, receive, send)
        text = b"".join(parts)
        if status >= 400:
            raise ApiError(status, json.loads(text)["detail"])
        has_lines = headers.get("content-type", "").startswith("application/x-ndjson")
        return [json.loads(line) for line in text.splitlines()] if has_lines else json.loads(text)


router = APIRouter(include_in_schema=False)
router.routes.append(Route(PATH, Endpoint()))
