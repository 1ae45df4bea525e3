"""Serve what a browser loads: the pages of ``web/``, plotly.js, the login page; and the security headers.

Deep links (such as ``/runs/<id>``) all return ``index.html``; the page reads its address. It loads the files
of ``web/``, joined by ``joined.py``, from addresses that contain their version, and browsers keep them: an
upgrade cannot mix old and new modules. The files without a version, or with another one, are revalidated on
every load.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin_server.core.origins import split_host
from tocsin_server.http import api_docs
from tocsin_server.http.auth.login import login_page, safe_next
from tocsin_server.http.joined import FOLDER, JoinedFiles, Packed
from tocsin_server.http.plotlyjs import PlotlyJS
from tocsin_server.http.preloads import preloads
from tocsin_server.http.zstd import accepts_zstd

DEEP_LINKS = (
    "/", "/runs/{rest:path}", "/alerts", "/alerts/{rest:path}", "/incidents/{rest:path}", "/compare",
    "/rules", "/silences", "/routes", "/channels", "/deliveries", "/settings",
)  # fmt: skip

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "style-src-elem 'self'",
        "style-src-attr 'unsafe-inline'",  # plotly positions its drawings with style attributes
        "img-src 'self' data: blob:",  # plotly's PNG export draws an SVG from a blob
        "font-src 'self'",
        "connect-src 'self'",
        "media-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
NO_DOCUMENT = "default-src 'none'; frame-ancestors 'none'"
"""Policy of other responses. It is sent with each of them, so it is short."""
SERVICE_WORKER = "/service-worker.js"
"""The script of a service worker has the policy for what the worker requests."""
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_ADDRESS = re.compile(r'(?<==")/(assets/|api/|manifest\.)?')
"""The beginning of an address in ``index.html``. An installed app has one manifest across versions."""
VERSIONED = "/assets/web-"
"""Beginning of an address of a file of ``web/``; its version, a slash and its path follow."""
IMMUTABLE = {"cache-control": "public, max-age=31536000, immutable"}
MODULE = '<script type="module"'
ABSENT = '<meta name="absent" />'
"""There is no such run or incident: the page makes no request that fails, which browsers would log."""
LOOKUP_S = 0.5
PRELOAD = '<link rel="modulepreload" href="/{}" />'
"""Loads a script that the page imports, so that the browser need not find it in the one that imports it."""
PLOTLY = '<link rel="preload" as="script" fetchpriority="low" href="/assets/plotly-{}.min.js" />'
"""Charts are seen before it has loaded, so it must not delay what they need."""
WITH_CHARTS = ("/runs/", "/compare?")
"""Beginnings of the addresses of pages with charts: a comparison has none before runs are chosen."""
REVALIDATED = {"cache-control": "no-cache"}
# Explicit, because the registry of the machine (especially on Windows) may have other values.
MEDIA_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}

PIECE = 64 << 10
"""Bytes of a body that are sent at a time."""

LOGIN_STYLE = b"""
:root { color-scheme: light dark; font: 15px/1.5 ui-sans-serif, -apple-system, "Segoe UI", sans-serif }
body { margin: 0; background: light-dark(#f3f4f1, #0b1012); color: light-dark(#13201c, #e3ebe8) }
main { max-width: 32rem; margin: 12vh auto 0; padding: 2rem; background: light-dark(#ffffff, #11181b);
  border: 1px solid light-dark(#dde1db, #223036); border-radius: 6px }
h1 { margin: 0 0 1rem; font-size: 1.5rem; border-bottom: 2px solid light-dark(#8d5b12, #d9a856);
  display: inline-block }
label { display: block; margin-top: 1.5rem; font-weight: 600 }
input { box-sizing: border-box; width: 100%; margin-top: .5rem; padding: .5rem; font: inherit; color: inherit;
  background: light-dark(#ffffff, #0b1012); border: 1px solid light-dark(#848e88, #647580);
  border-radius: 4px }
button { margin-top: .75rem; padding: .6rem 1.25rem; font: inherit; font-weight: 600; border: 0;
  cursor: pointer; border-radius: 4px; background: light-dark(#0a6b60, #5fcdba);
  color: light-dark(#ffffff, #0b1012) }
:focus-visible { outline: 2px solid light-dark(#0a6b60, #7fe3d1); outline-offset: 2px }
.wrong { padding: .5rem .75rem; border-left: 4px solid light-dark(#c21a27, #e5484d);
  background: light-dark(#fcebea, #2b1416) }
code { font-size: .92em; overflow-wrap: anywhere }
@media (max-width: 40rem) { main { margin: 1rem; padding: 1.25rem } }
"""


class SecurityHeaders:
    """ASGI middleware: add the security headers to every HTTP response that does not set them.

    Args:
        app: The wrapped application.
        public_url: The public address of the server; behind a proxy it shows whether browsers use HTTPS.
        hsts_days: Days for which browsers must use HTTPS; 0 omits the header.
    """

    def __init__(self, app: ASGIApp, public_url: str = "", hsts_days: int = 0) -> None:
        self._app = app
        self._public_url = public_url
        self._hsts = f"max-age={hsts_days * 86_400}" if hsts_days else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = Headers(raw=message.get("headers", []))
                html = present.get("content-type", "").startswith("text/html")
                full = html or scope["path"].endswith(SERVICE_WORKER)
                policy = CONTENT_SECURITY_POLICY if full else NO_DOCUMENT
                wanted = {"content-security-policy": policy, **SECURITY_HEADERS}
                if self._hsts and by_https(scope, self._public_url):
                    wanted["strict-transport-security"] = self._hsts
                if "frame-ancestors" in present.get("content-security-policy", ""):
                    del wanted["x-frame-options"]  # the response says itself who may frame it
                missing = {name: text for name, text in wanted.items() if name not in present}
                raw = [(name.encode(), text.encode()) for name, text in missing.items()]
                message = {**message, "headers": [*message.get("headers", []), *raw]}
            await send(message)

        await self._app(scope, receive, adding if scope["type"] == "http" else send)


def by_https(scope: Scope, public_url: str) -> bool:
    """Return whether a request used HTTPS: directly, per a trusted proxy, or by the public address."""
    if scope.get("scheme") == "https":
        return True
    if not public_url.startswith("https://"):
        return False
    named = split_host(Headers(scope=scope).get("host", ""), "https")
    return named is not None and named[0] == urlsplit(public_url).hostname


class Pieces:
    """ASGI middleware: send large bodies in pieces, each after the previous one was accepted.

    Otherwise plotly.js would be copied for every client, and stay in memory while a client does not read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def parted(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] != "http.response.body" or len(body) <= PIECE:
                await send(message)
                return
            view = memoryview(body)
            for start in range(0, len(body), PIECE):
                last = start + PIECE >= len(body)
                more = not last or bool(message.get("more_body"))
                await send({**message, "body": bytes(view[start : start + PIECE]), "more_body": more})

        await self._app(scope, receive, parted if scope["type"] == "http" else send)


class WebFiles(StaticFiles):
    """``web/`` with explicit media types and revalidation."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        media_type = MEDIA_TYPES.get(Path(full_path).suffix)
        if media_type and response.status_code != 304:
            charset = "; charset=utf-8" if media_type.startswith("text/") else ""
            response.headers["content-type"] = media_type + charset
        response.headers.update(REVALIDATED)
        return response


def page_routes(
    web: Path,
    joined: JoinedFiles,
    plotly: PlotlyJS,
    root: str = "",
    absent: Callable[[str], bool] = lambda address: False,
) -> APIRouter:
    """Return the routes of all pages and assets; include them last, because they match every other path.

    ``root`` is the path under which a proxy serves them; the addresses in ``index.html`` begin with it.
    ``absent`` returns whether the address of a page, such as ``/runs/r_1``, names what does not exist.
    """
    router = APIRouter(include_in_schema=False)
    files = WebFiles(directory=web, check_dir=False)

    async def is_absent(address: str) -> bool:
        """Ask, but not for long: pages also open while the database does not respond."""
        with anyio.move_on_after(LOOKUP_S):
            return await anyio.to_thread.run_sync(absent, address, abandon_on_cancel=True)
        return False

    async def page(request: Request) -> Response:
        """Return ``index.html`` with a login, else the login page. ``?sources`` loads the single modules."""
        if request.state.identity is None:
            return login_page(then=safe_next(request.url.path + _query(request)), root=root)
        if "sources" in request.query_params:
            text, own = (web / "index.html").read_text("utf-8"), f"{root}/"
        else:
            now = await anyio.to_thread.run_sync(joined.present)
            own = f"{root}{VERSIONED}{now.version}/"
            address = request.url.path.removeprefix(root)
            links = [*map(PRELOAD.format, now.scripts_of(address))]
            if await is_absent(request.scope["path"].removeprefix(root)):
                links.append(ABSENT)
            else:
                links.extend(preloads(address, request.url.query))
            if (address + _query(request)).startswith(WITH_CHARTS):
                links.append(PLOTLY.format(plotly.version))
            text = now.index_of(address).replace(MODULE, "".join(links) + MODULE, 1)
        text = _ADDRESS.sub(lambda found: root + found[0] if found[1] else own, text)
        return HTMLResponse(text, headers=REVALIDATED)

    async def found(request: Request) -> Response:
        path = files.get_path({**request.scope, "path": "/" + request.path_params["path"], "root_path": ""})
        return await files.get_response(path, request.scope)

    async def file(request: Request) -> Response:
        """Return one file of ``web/``. Raises a 404 for unknown paths, which browsers get as a page."""
        try:
            return await found(request)
        except HTTPException as problem:
            if problem.status_code != 404 or not _by_a_person(request):
                raise
        response = await page(request)
        response.status_code = 404 if response.status_code == 200 else response.status_code
        return response

    async def versioned(request: Request) -> Response:
        """Return a file, which browsers keep if it is of the present version."""
        name, path = request.path_params["version"], request.path_params["path"]
        if not path.startswith(FOLDER):
            response = await found(request)
            if joined.version.has(name, path):
                response.headers.update(IMMUTABLE)
            return response
        now = await anyio.to_thread.run_sync(joined.present)
        packed = now.files.get(path)
        if packed is None:
            raise HTTPException(404)
        kept = IMMUTABLE if name == now.version else REVALIDATED
        return await anyio.to_thread.run_sync(_packed_response, packed, request.headers, kept)

    for path in (*DEEP_LINKS, "/index.html"):
        router.routes.append(Route(path, page, methods=["GET"]))
    router.routes.extend(_asset_routes(plotly))
    router.routes.extend(api_docs.routes(root, REVALIDATED))
    router.routes.append(Route(VERSIONED + "{version}/{path:path}", versioned, methods=["GET"]))
    router.routes.append(Route("/{path:path}", file, methods=["GET"]))
    return router


def _packed_response(packed: Packed, asked: Headers, kept: Mapping[str, str]) -> Response:
    """Return a joined file in the best encoding that the client accepts, compressed once."""
    body, encoding = packed.text, {}
    if accepts_zstd(asked):
        body, encoding = packed.zstd, {"content-encoding": "zstd"}
    elif "gzip" in asked.get("accept-encoding", ""):
        body, encoding = packed.gzipped, {"content-encoding": "gzip"}
    headers = {"vary": "Accept-Encoding", **kept, **encoding}
    return Response(body, media_type=packed.media_type, headers=headers)


def _by_a_person(request: Request) -> bool:
    """Return whether a user opened that address in a browser, rather than an API client."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def _query(request: Request) -> str:
    return f"?{request.url.query}" if request.url.query else ""


def _asset_routes(plotly: PlotlyJS) -> list[Route]:
    """Return the routes of plotly.js and its style sheet by version, and of the login page's style."""

    def script(request: Request) -> Response:
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(plotly.script, media_type="text/javascript", headers=IMMUTABLE)
        headers = IMMUTABLE | {"content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(plotly.script_gzipped, media_type="text/javascript", headers=headers)

    def style(request: Request) -> Response:
        return Response(plotly.style, media_type="text/css", headers=IMMUTABLE)

    def login_style(request: Request) -> Response:
        return Response(LOGIN_STYLE, media_type="text/css", headers=REVALIDATED)

    def missing(request: Request) -> Response:
        raise HTTPException(404)

    return [
        Route(f"/assets/plotly-{plotly.version}.min.js", script),
        Route(f"/assets/plotly-{plotly.version}.css", style),
        Route("/assets/login.css", login_style),
        Route("/assets/plotly-{rest:path}", missing),
    ]
