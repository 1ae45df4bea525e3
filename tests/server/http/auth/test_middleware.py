"""Checks of every request: host, origin, identity, size; and the request log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request, WebSocket
from starlette.middleware import Middleware
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tocsin_server.core.permissions import Scope, Token, digest_of
from tocsin_server.core.settings import Settings
from tocsin_server.http.api.failures import Crashes, install
from tocsin_server.http.auth.authentication import Auth
from tocsin_server.http.auth.middleware import Guard, log_level, request_line
from tocsin_server.http.auth.sessions import COOKIE

TOKEN = Token("t_1", "me", Scope.ADMIN, "", digest_of("s3cret"), 0)
BEARER = {"authorization": "Bearer s3cret"}


@pytest.fixture
def auth(tmp_path: Path) -> Auth:
    return Auth(Settings(data_dir=tmp_path), lambda: [TOKEN])


@pytest.fixture
def client(
    tmp_path: Path, auth: Auth, serve_app: Callable[[FastAPI], AbstractContextManager[str]]
) -> Iterator[httpx.Client]:
    settings = Settings(data_dir=tmp_path, limit_body_bytes=100)
    guard = Middleware(Guard, settings=settings, gate=auth)
    app = FastAPI(middleware=[guard, Middleware(Crashes)])
    install(app)

    @app.get("/api/v1/thing")
    @app.get("/api/v1/health")
    def thing(request: Request) -> dict[str, str]:
        return {"who": request.state.identity.name if request.state.identity else "nobody"}

    @app.post("/api/v1/thing")
    async def change(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @app.get("/api/v1/crash")
    def crash() -> None:
        raise RuntimeError("secret detail")

    @app.websocket("/socket")
    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("hello")
        await websocket.close()

    with serve_app(app) as address, httpx.Client(base_url=address) as client:
        yield client


def with_session(auth: Auth) -> dict[str, str]:
    return {"cookie": f"{COOKIE}={auth.issue_cookie(TOKEN)}"}


def test_the_api_needs_a_login(client: httpx.Client) -> None:
    """Without token and session, every path of the API is a 401 problem, also unknown paths."""
    for path in ("/api/v1/thing", "/api/v1/absent", "/api/v1/"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_health_is_open(client: httpx.Client) -> None:
    """A probe needs no token."""
    assert client.get("/api/v1/health").json() == {"who": "nobody"}


def test_a_token_or_a_session_opens_it(client: httpx.Client, auth: Auth) -> None:
    """Bearer token and session cookie lead to the same identity."""
    assert client.get("/api/v1/thing", headers=BEARER).json() == {"who": "me"}
    assert client.get("/api/v1/thing", headers=with_session(auth)).json() == {"who": "me"}


@pytest.mark.parametrize("origin", [{}, {"origin": "http://evil.example"}, {"origin": "null"}])
def test_another_sites_page_changes_nothing_by_our_cookie(
    client: httpx.Client, auth: Auth, origin: dict[str, str]
) -> None:
    """A change with the cookie needs our Origin (CSRF)."""
    answer = client.post("/api/v1/thing", headers=with_session(auth) | origin)
    assert answer.status_code == 403
    assert answer.json()["subject"] == "Origin"


def test_our_own_page_and_programs_may_change(client: httpx.Client, auth: Auth) -> None:
    """A page of ours with the cookie, a program with a token and without Origin."""
    assert (
        client.post(
            "/api/v1/thing", headers=with_session(auth) | {"origin": str(client.base_url).rstrip("/")}
        ).status_code
        == 200
    )
    assert client.post("/api/v1/thing", headers=BEARER).status_code == 200


def test_a_rebound_name_is_rejected(client: httpx.Client) -> None:
    """On loopback, a Host that DNS could point here is rejected, even with a token."""
    answer = client.get("/api/v1/thing", headers=BEARER | {"host": "evil.example:8321"})
    assert answer.status_code == 421
    assert answer.json()["detail"] == (
        "This server does not answer requests for the host evil.example:8321. Use localhost or 127.0.0.1, "
        "or set public_url to the address that users enter."
    )


def test_a_large_body_is_rejected(client: httpx.Client) -> None:
    """A body is rejected by its announced length, or once it has grown too large."""
    assert client.post("/api/v1/thing", headers=BEARER, content=b"x" * 100).json() == {"bytes": 100}
    assert client.post("/api/v1/thing", headers=BEARER, content=b"x" * 101).status_code == 413
    streamed = client.post("/api/v1/thing", headers=BEARER, content=iter([b"x" * 60, b"x" * 60]))
    assert streamed.status_code == 413


def test_a_crash_reveals_no_details(client: httpx.Client) -> None:
    """An internal error is a 500 problem without details."""
    answer = client.get("/api/v1/crash", headers=BEARER)
    assert (answer.status_code, answer.json()["subject"]) == (500, "server")
    assert "secret detail" not in answer.text


def test_a_websocket_of_another_site_is_rejected(client: httpx.Client) -> None:
    """Before it is accepted; a program, which sends no Origin, reaches the route."""
    address = f"ws://127.0.0.1:{client.base_url.port}/socket"
    with pytest.raises(InvalidStatus, match="403"), connect(address, origin=Origin("http://evil.example")):
        pass
    with connect(address) as socket:
        assert socket.recv() == "hello"


def test_the_request_log_holds_no_query(
    client: httpx.Client, caplog: pytest.LogCaptureFixture, eventually: Callable[..., object]
) -> None:
    """The log contains neither a login link's token nor a line break from a name."""
    with caplog.at_level(logging.INFO, logger="tocsin.requests"):
        client.get("/login?token=s3cret")
        client.get("/runs/a%0Ab")
        eventually(lambda: "/runs/a%0Ab" in caplog.text, "the second line")
    assert "s3cret" not in caplog.text
    assert "GET /login?… 404" in caplog.text


@pytest.mark.parametrize(
    ("path", "status", "level"),
    [
        ("/main.js", 200, logging.DEBUG),
        ("/api/v1/health", 200, logging.DEBUG),
        ("/api/v1/runs", 200, logging.INFO),
        ("/login", 303, logging.INFO),
        ("/main.js", 404, logging.INFO),
    ],
)
def test_the_log_shows_what_matters(path: str, status: int, level: int) -> None:
    """Probes and static files are not logged; the API, logins and every failure are."""
    assert log_level(path, status) == level


def test_a_request_without_client_is_logged() -> None:
    """A request over a Unix socket has no client address."""
    line = request_line({"method": "GET", "path": "/<b>", "query_string": b""}, 200, 0.0015)
    assert line == "- GET /%3Cb%3E 200 1.5 ms"
