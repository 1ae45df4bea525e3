"""Files that a browser loads, and their security headers."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from tocsin_server.core.permissions import Scope, Token, digest_of
from tocsin_server.core.settings import Settings
from tocsin_server.http.api.failures import install
from tocsin_server.http.auth.authentication import Auth
from tocsin_server.http.auth.middleware import Guard
from tocsin_server.http.auth.sessions import COOKIE
from tocsin_server.http.joined import JoinedFiles
from tocsin_server.http.pages import DEEP_LINKS, SecurityHeaders, by_https, page_routes
from tocsin_server.http.plotlyjs import installed
from tocsin_server.http.web_files import web_directory

PLOTLY = installed()
ASSETS = f"/assets/plotly-{PLOTLY.version}"
TOKEN = Token("t_1", "me", Scope.READ, "", digest_of("s3cret"), 0)
LOGGED_IN = {"authorization": "Bearer s3cret"}
INDEX = f"""<!doctype html><title>page</title>
<link rel="stylesheet" id="plotly.js-style-global" class="no-inline-styles" href="{ASSETS}.css">
<link rel="icon" href="data:,"><script src="{ASSETS}.min.js"></script>
<script type="module" src="/main.js"></script><div id="chart"></div>"""
VERSION = re.compile("/assets/web-[0-9a-f]{16}/joined")
RULES = """() => Array.from(
    document.getElementById("plotly.js-style-global").sheet.cssRules, rule => rule.cssText)"""
DRAW = """/** Draws a chart. */
export async function draw() {
  await Plotly.newPlot("chart", [{y: [1, 2]}], {width: 300, height: 200});
  document.title = (await Plotly.toImage("chart", {format: "png"})).slice(0, 22);
}
"""
MAIN = 'import { draw } from "./lib/draw.js";\nvoid draw();\n'


@pytest.fixture
def web(tmp_path: Path) -> Path:
    folder = tmp_path / "web"
    (folder / "lib").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "lib" / "draw.js").write_text(DRAW)
    (folder / "main.js").write_text(MAIN)
    (folder / "app.css").write_text("body{}")
    (tmp_path / "secret.txt").write_text("outside")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


@pytest.fixture
def auth(tmp_path: Path) -> Auth:
    return Auth(Settings(data_dir=tmp_path / "data"), lambda: [TOKEN])


@pytest.fixture
def address(
    web: Path, auth: Auth, tmp_path: Path, serve_app: Callable[[FastAPI], AbstractContextManager[str]]
) -> Iterator[str]:
    guard = Middleware(Guard, settings=Settings(data_dir=tmp_path), gate=auth)
    app = FastAPI(middleware=[Middleware(SecurityHeaders), guard, Middleware(GZipMiddleware)])
    install(app)
    app.add_route("/api/v1/session", lambda _request: Response())
    app.include_router(page_routes(web, JoinedFiles(web), PLOTLY))
    with serve_app(app) as where:
        yield where


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, headers=LOGGED_IN) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        assert path, "expected chromium or google-chrome on the PATH: `make setup` brings it"
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, auth: Auth, address: str) -> Iterator[Page]:
    """A page of a browser that is logged in."""
    context = browser.new_context()
    context.add_cookies([{"name": COOKIE, "value": auth.issue_cookie(TOKEN), "url": address}])
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("path", [link.replace("{rest:path}", "r_1/<b>..%2F") for link in DEEP_LINKS])
def test_every_deep_link_opens_the_page(client: httpx.Client, path: str) -> None:
    """The page reads its own address, whatever a run's name is."""
    answer = client.get(path)
    text = re.sub('<link rel="preload"[^>]+>', "", VERSION.sub("", answer.text))
    assert (answer.status_code, text) == (200, INDEX)


def test_without_a_login_the_login_page_is_shown(client: httpx.Client) -> None:
    """The login page explains how to log in and keeps the requested page, escaped."""
    answer = client.get('/runs/"><script>', headers={"authorization": ""}, params={"x": "1"})
    assert answer.status_code == 401
    assert "tocsin-server serve" in answer.text
    assert "<script>" not in answer.text
    assert "%3Cscript%3E?x=1" in answer.text


def test_every_answer_carries_the_security_headers(client: httpx.Client) -> None:
    """Pages, files, assets and errors."""
    for path in ("/", "/lib/draw.js", f"{ASSETS}.css", "/absent", "/login"):
        headers = client.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "referrer-policy" in headers


def test_only_documents_and_the_service_worker_have_the_whole_policy(client: httpx.Client, web: Path) -> None:
    """Others can load nothing, and need fewer bytes."""
    (web / "service-worker.js").write_text("")
    paths = ("/", "/service-worker.js", "/lib/draw.js", f"{ASSETS}.css")
    policies = [client.get(path).headers["content-security-policy"] for path in paths]
    assert ["script-src 'self';" in each for each in policies] == [True, True, False, False]


def module_address(client: httpx.Client) -> str:
    """Return the address from which the page loads its module."""
    found = re.search('src="(/assets/web-[^"]+)"', client.get("/").text)
    assert found
    return found[1]


def test_a_module_is_kept_by_browsers(client: httpx.Client) -> None:
    """The address of its script names its version."""
    answer = client.get(module_address(client))
    assert "Plotly.newPlot" in answer.text
    assert answer.headers["vary"] == "Accept-Encoding"
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "identity"])
def test_a_script_is_sent_as_the_browser_accepts_it(encoding: str, client: httpx.Client) -> None:
    answer = client.get(module_address(client), headers={"accept-encoding": encoding})
    assert answer.headers.get("content-encoding", "identity") == encoding
    assert "Plotly.newPlot" in answer.text


def test_the_scripts_of_a_page_are_loaded_at_once(client: httpx.Client, web: Path) -> None:
    """The browser need not find them one by one."""
    (web / "pages").mkdir()
    (web / "pages" / "run.js").write_text("")
    (web / "main.js").write_text('void import("./pages/run.js");\n')
    link = 'rel="modulepreload" href="/assets/web-[0-9a-f]{16}/joined/pages_run.js"'
    assert re.search(link, client.get("/runs/r_1").text)
    assert not re.search(link, client.get("/alerts").text)


def test_a_page_asks_at_once_for_what_it_always_needs(client: httpx.Client) -> None:
    """Who is logged in, the values and alerts of the run, and for charts plotly.js."""
    named = re.findall('rel="preload" as="[a-z]+" [^>]*?href="([^"]+)"', client.get("/runs/r_1").text)
    assert {"/api/v1/session", "/api/v1/runs/r_1?sparks=false", f"{ASSETS}.min.js"} <= set(named)
    assert "/api/v1/alerts?run=r_1" in named
    assert len([each for each in named if each.startswith("/api/v1/runs/r_1/series?")]) == 2
    for without in ("/", "/compare"):
        assert 'rel="preload" as="script"' not in client.get(without).text
    assert f'as="script" fetchpriority="low" href="{ASSETS}' in client.get("/compare?run=r_1").text


def test_the_name_of_a_run_cannot_leave_its_link(client: httpx.Client) -> None:
    text = client.get('/runs/"><script>').text
    assert "<script>" not in text
    assert 'href="/api/v1/runs/%22%3E%3Cscript%3E?sparks=false"' in text


def test_another_x_axis_needs_other_series(client: httpx.Client) -> None:
    """Which the page requests itself."""
    assert "/series?" in client.get("/runs/r_1?at=5").text
    assert "/series?" not in client.get("/runs/r_1?x=metric:tokens").text


def test_the_sources_of_the_modules_can_be_asked_for(client: httpx.Client) -> None:
    """For a debugger: with their comments and lines."""
    page = client.get("/", params={"sources": "1"})
    assert page.text == INDEX
    assert client.get("/lib/draw.js").text == DRAW


def test_a_changed_module_has_another_address(client: httpx.Client, web: Path) -> None:
    """An upgrade never mixes old and new modules, even where their sizes are equal."""
    before = module_address(client)
    (web / "lib" / "draw.js").write_text(DRAW.replace("300", "301"))
    assert module_address(client) != before
    assert client.get(before).headers["cache-control"] == "no-cache"


def test_a_module_that_changed_after_the_page_is_not_kept(client: httpx.Client, web: Path) -> None:
    """The page that loads it was opened just before an upgrade."""
    address = module_address(client)
    (web / "lib" / "draw.js").write_text(DRAW.replace("300", "3000"))
    assert client.get(address).headers["cache-control"] == "no-cache"


def test_modules_without_a_version_are_revalidated_and_typed(client: httpx.Client) -> None:
    """For addresses that people wrote down."""
    answer = client.get("/lib/draw.js")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    again = client.get("/lib/draw.js", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == "no-cache"


def test_a_changed_module_is_seen(client: httpx.Client, web: Path) -> None:
    """The ETag follows the file."""
    etag = client.get("/lib/draw.js").headers["etag"]
    (web / "lib" / "draw.js").write_text("export const changed = 1;")
    os.utime(web / "lib" / "draw.js", (1, 1))
    assert client.get("/lib/draw.js", headers={"if-none-match": etag}).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/lib/..%2f..%2fsecret.txt", "/link.txt", "//etc/passwd",
     "/%2fetc/passwd", "/lib", "/lib/", "/absent.js", "/lib/%00", "/" + "x" * 5000, "/..%5csecret.txt"],
)  # fmt: skip
def test_nothing_outside_is_served(client: httpx.Client, path: str) -> None:
    """Path tricks, links out of the folder and folders are 404 problems."""
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["subject"] == "path"


@pytest.mark.parametrize("path", ["/nonsense", "/runs", "/fleet/x.html"])
def test_a_mistyped_address_is_a_page(client: httpx.Client, path: str) -> None:
    """A browser gets a page with links; the status is 404."""
    answer = client.get(path, headers={"accept": "text/html,*/*;q=0.8"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>page</title>" in answer.text
    assert client.get("/api/v1/absent", headers={"accept": "text/html"}).json()["status"] == 404


def test_plotly_never_changes_under_its_address(client: httpx.Client) -> None:
    """Immutable, compressed once, public, and without other versions."""
    with client.stream("GET", f"{ASSETS}.min.js", headers={"authorization": ""}) as answer:
        body = b"".join(answer.iter_raw())
    assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
    assert "immutable" in answer.headers["cache-control"]
    assert gzip.decompress(body) == PLOTLY.script
    plain = client.get(f"{ASSETS}.min.js", headers={"accept-encoding": "identity"})
    assert plain.content == PLOTLY.script
    assert client.get("/assets/plotly-0.0.0.min.js").status_code == 404


def test_the_pages_are_where_they_should_be() -> None:
    """The checkout's web/ is found without being installed."""
    assert (web_directory() / "index.html").is_file()


@pytest.mark.browser
def test_plotly_draws_and_exports_under_our_policy(page: Page, address: str) -> None:
    """Layout and PNG export work, and nothing is blocked."""
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.goto(f"{address}/runs/r_1?sources")  # without links to the API, which is not served here
    page.wait_for_function("document.title.startsWith('data:image/png;base64')")
    where = page.evaluate("getComputedStyle(document.querySelector('.main-svg')).position")
    assert where == "absolute"
    assert messages == []


@pytest.mark.browser
def test_the_style_sheet_is_what_plotly_would_insert(page: Page, address: str) -> None:
    """Rule by rule, in the same order."""
    page.goto(address)
    ours = page.evaluate(RULES)
    page.route("**/free", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
    page.goto(f"{address}/free")
    page.add_script_tag(content=PLOTLY.script.decode())
    assert page.evaluate(RULES) == ours
    assert len(ours) > 50


@pytest.mark.parametrize(
    ("public_url", "scheme", "host", "asked"),
    [
        ("", "https", "node:8321", True),
        ("", "http", "node:8321", False),
        ("https://tocsin.lab", "http", "tocsin.lab", True),
        ("https://tocsin.lab:8443/", "http", "tocsin.lab:8443", True),
        ("https://tocsin.lab", "http", "127.0.0.1:8321", False),
        ("http://tocsin.lab", "http", "tocsin.lab", False),
        ("https://tocsin.lab", "http", "", False),
    ],
)
def test_https_is_known_from_the_request_or_the_public_address(
    public_url: str, scheme: str, host: str, asked: bool
) -> None:
    """Plain HTTP on this machine is not, even if the public address is https."""
    scope = {"type": "http", "scheme": scheme, "headers": [(b"host", host.encode())]}
    assert by_https(scope, public_url) is asked
