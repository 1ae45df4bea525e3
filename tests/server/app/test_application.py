"""The application as a whole: start, stop, and stop while clients hang."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from websockets.sync.client import connect

from tocsin import protocol
from tocsin_server.app.application import assemble, create_app, stored_tokens
from tocsin_server.core.settings import Settings
from tocsin_server.http.live import endpoint as live
from tocsin_server.http.plotlyjs import VERSION
from tocsin_server.store.database import migrate, open_database


def test_every_page_and_asset_is_there(server: Any) -> None:
    """One server serves the index, its modules, and plotly.js under one address."""
    with httpx.Client(base_url=server.base, headers=server.headers) as client:
        index = client.get("/")
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        assert client.get("/main.js").headers["content-type"].startswith("text/javascript")
        assert client.get("/api/v1/openapi.json").json()["info"]["title"] == "tocsin"


@pytest.mark.parametrize("path", ["/runs/none", "/incidents/none.1.1"])
def test_a_page_of_what_does_not_exist_says_so(server: Any, path: str) -> None:
    """In its HTML, without requests in advance, which would fail."""
    page = httpx.get(server.base + path, headers=server.headers)
    assert page.status_code == 200
    assert '<meta name="absent" />' in page.text
    assert path not in page.text
    assert "absent" not in httpx.get(f"{server.base}/compare", headers=server.headers).text


def test_it_stops_while_sockets_are_open(start_server: Callable[..., Any]) -> None:
    """A training process that sends nothing and a browser that never reads do not delay it."""
    server = start_server(TOCSIN_SHUTDOWN_S="2")
    address = server.base.replace("http", "ws", 1)
    headers = {"Authorization": f"Bearer {server.token}"}
    with connect(address + protocol.PATH), connect(address + "/api/v1/live", additional_headers=headers):
        assert server.stop(signal.SIGTERM) == 0
    assert "Traceback" not in server.text


def test_it_stops_while_an_answer_is_on_its_way(start_server: Callable[..., Any]) -> None:
    """A client that does not read its response is disconnected after the grace time."""
    server = start_server(TOCSIN_SHUTDOWN_S="1")
    url = httpx.URL(server.base)
    path = f"/assets/plotly-{VERSION}.min.js"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((url.host, url.port))
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: {url.netloc.decode()}\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 200"
        assert server.stop(signal.SIGTERM) == 0


def test_a_training_process_waits_for_no_route_of_the_api(tmp_path: Path) -> None:
    """The two sockets are tried first; preparing the routes of the API takes half a second."""
    routes: list[Any] = list(create_app(Settings(data_dir=tmp_path)).router.routes)
    # Newer versions of FastAPI keep included routers apart, older ones take over their routes.
    joined: list[Any] = [
        getattr(route, "original_router", None) or APIRouter(routes=[route]) for route in routes
    ]
    paths = [route.path for router in joined for route in router.routes]
    assert paths[:3] == ["/api/v1/openapi.json", protocol.PATH, live.PATH]


def test_its_parts_come_from_its_settings(tmp_path: Path) -> None:
    """A new database has no tokens; authentication uses those of the data directory."""
    settings = Settings(data_dir=tmp_path)
    migrate(settings.url)
    database = open_database(settings.url)
    services = assemble(settings, database)
    assert list(stored_tokens(database)) == []
    assert services.gate.check_token((tmp_path / "admin-token").read_text().strip()) is not None
    database.close()


@pytest.mark.parametrize(("days", "header"), [(365, "max-age=31536000"), (0, None)])
def test_browsers_are_asked_to_stay_with_https(
    run_server: Callable[..., Any], days: int, header: str | None
) -> None:
    """Only if a proxy on this machine reports https, and the setting does not disable it."""
    server = run_server(public_url="https://tocsin.lab", hsts_days=days)
    forwarded = {"x-forwarded-proto": "https"}
    for path in ("/login", "/api/v1/health", "/nothing"):
        answer = httpx.get(f"{server.base}{path}", headers=forwarded)
        assert answer.headers.get("strict-transport-security") == header
        assert "strict-transport-security" not in httpx.get(f"{server.base}{path}").headers
