"""A server at a subpath, behind a proxy that removes the path or keeps it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.conftest import ServerThread, server_thread
from tocsin.transport.server_url import parse_target
from tocsin_server.app.application import create_app
from tocsin_server.app.serve import address, startup_message
from tocsin_server.core.errors import SettingError
from tocsin_server.core.settings import Settings, load
from tocsin_server.http.root_path import bare
from tocsin_server.notify.links import acknowledging

PUBLIC = "https://lab.test/tocsin"
OUR_ADDRESSES = re.compile(r'(?:href|src|action)="(/[^"]*)"')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """One server for this file."""
    with server_thread(tmp_path_factory.mktemp("server"), public_url=f"{PUBLIC}/") as running:
        yield running


@pytest.fixture(params=["", "/tocsin"], ids=["stripped", "left on"])
def visitor(server: Any, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A browser, as the server sees it behind either proxy."""
    headers = {"origin": "https://lab.test"}
    with httpx.Client(base_url=server.base + request.param, headers=headers) as client:
        yield client


def test_the_login_link_leads_to_the_pages_under_the_path(visitor: httpx.Client, server: Any) -> None:
    """The redirect, and a cookie that is not sent to other paths of the host."""
    answer = visitor.get("/login", params={"token": server.token, "next": "/runs/r?x=1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/tocsin/runs/r?x=1")
    assert "Path=/tocsin;" in answer.headers["set-cookie"]
    assert visitor.post("/logout").headers["location"] == "/tocsin/login"


@pytest.mark.parametrize("path", ["/", "/runs/r_1", "/login", "/ack"])
@pytest.mark.parametrize("logged_in", [True, False])
def test_every_address_in_a_page_is_under_the_path(
    visitor: httpx.Client, server: Any, path: str, logged_in: bool
) -> None:
    """Scripts, style sheets, icons and forms; each script and style sheet exists."""
    headers = {"authorization": f"Bearer {server.token}"} if logged_in else {}
    found = OUR_ADDRESSES.findall(visitor.get(path, headers=headers).text)
    assert found
    assert all(one.startswith("/tocsin/") for one in found)
    files = [one for one in found if "." in one]
    assert all(httpx.get(server.base + one).status_code == 200 for one in files)


def test_api_and_health_are_under_the_path(visitor: httpx.Client, server: Any) -> None:
    """Paths in OpenAPI are relative to it, and clients get the public address."""
    visitor.headers["authorization"] = f"Bearer {server.token}"
    assert visitor.get("/api/v1/health").json()["status"] == "ok"
    assert visitor.get("/api/v1/openapi.json").json()["servers"] == [{"url": "/tocsin"}]
    assert visitor.get("/api/v1/session").json()["ingest_url"] == PUBLIC


@pytest.mark.parametrize("path", ["", "/tocsin"])
def test_both_sockets_are_under_the_path(server: Any, dial: Any, watch: Any, path: str) -> None:
    """A client's and a browser's."""
    client = dial(server.base + path, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    page = watch(server.base + path, server.token, origin="https://lab.test")
    page.send({"type": "subscribe", "id": 1, "view": "fleet"})
    assert page.receive("fleet")


def test_the_links_of_a_message_are_public(server: Any, dial: Any) -> None:
    """The acknowledgement's form posts to the path too."""
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    alert = server.services.reader.alerts("r1")[0].alert.id
    assert server.services.delivery.base == PUBLIC
    link = acknowledging(f"{server.base}/tocsin", server.services.delivery.key, alert, time.time())
    assert 'action="/tocsin/ack"' in httpx.get(link).text


def test_the_cookie_of_a_server_at_the_root_is_harmless(server: Any) -> None:
    """A browser sends both cookies of one host, the longer path first."""
    cookie = httpx.get(f"{server.base}/login", params={"token": server.token}).cookies["tocsin_session"]
    both = {"cookie": f"tocsin_session={cookie}; tocsin_session=of-another"}
    assert httpx.get(f"{server.base}/api/v1/session", headers=both).status_code == 200


def test_serve_prints_the_path(tmp_path: Path) -> None:
    """The path is printed with a public address and with --root-path alone."""
    public = Settings(data_dir=tmp_path, public_url=f"{PUBLIC}/")
    assert f"{PUBLIC}/login?token=" in startup_message(public, address(public, 5))
    alone = load({"data_dir": tmp_path, "root_path": "/tocsin/"}, environ={})
    assert address(alone, 5) == "http://127.0.0.1:5/tocsin"


def test_the_hook_reports_under_the_path() -> None:
    """TOCSIN_URL with a path, with or without a trailing slash."""
    for url in (PUBLIC, f"{PUBLIC}/"):
        target = parse_target(url)
        assert (target.websocket.path, target.base) == (
            "/tocsin/api/v1/ingest",
            "https://lab.test:443/tocsin",
        )


@pytest.mark.parametrize(
    "given",
    [
        {"public_url": "lab.test/tocsin"},
        {"public_url": "https://lab.test/a?b"},
        {"public_url": "https://me@lab.test"},
        {"public_url": "https://lab.test:x"},
        {"public_url": "https://lab.test/a//b"},
        {"public_url": "https://lab.test/runs"},
        {"public_url": PUBLIC, "root_path": "/other"},
        {"root_path": "tocsin"},
        {"root_path": "/a/../b"},
        {"root_path": '/"><script>'},
    ],
)
def test_an_unfit_address_is_rejected(given: dict[str, str]) -> None:
    """When the server starts, with the setting's name."""
    with pytest.raises(SettingError, match=next(reversed(given))):
        load(given, environ={})


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/t", "/"), ("/t/", "/"), ("/t/runs/t", "/runs/t"), ("/tt", "/tt"), ("/runs/t", "/runs/t")],
)
def test_the_root_is_stripped_once(path: str, expected: str) -> None:
    """The root is stripped only as whole path segments."""
    assert bare(path, "/t") == expected


def test_no_root_hides_a_path_of_the_server(tmp_path: Path) -> None:
    """The first segments of all routes and page folders are rejected as roots."""
    app = create_app(Settings(data_dir=tmp_path))
    routes = {path.split("/")[1] for route in app.routes if (path := getattr(route, "path", ""))}
    folders = {path.name for path in (Path(__file__).parents[3] / "web").iterdir() if path.is_dir()}
    for name in sorted((routes | folders) - {"", "{path:path}", "index.html"}):
        with pytest.raises(SettingError):
            Settings(root_path=f"/{name}")
    app.state.services.database.close()


def test_agents_are_answered_under_the_path(visitor: httpx.Client, server: Any) -> None:
    """The tools call the API of the server, which is under the path too."""
    call = {"name": "list_runs", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"authorization": f"Bearer {server.token}", "accept": "application/json, text/event-stream"}
    answer = visitor.post("/mcp", json=body, headers=headers).json()["result"]
    assert not answer.get("isError")
    assert "run" in answer["content"][0]["text"]
