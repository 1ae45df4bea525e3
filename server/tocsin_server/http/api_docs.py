"""Serve ``/docs``: Swagger UI for the OpenAPI description, from files of this package.

``swagger_ui/`` has files of the npm package ``swagger-ui-dist`` and their license (see README.md there). The
page makes no request to another host, and needs a login like the other pages: it sends requests with the
session of the browser.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tocsin_server import __version__
from tocsin_server.http.auth.login import login_page

VERSION = "5.35.0"
"""Version of swagger-ui-dist."""
PATH = "/docs"
ASSETS = f"/assets/swagger-ui-{VERSION}-{__version__}/"
"""Browsers keep the files of an address, so it has the versions of both."""
GZIP_LEVEL = 6
MEDIA_TYPES = {"js": "text/javascript", "css": "text/css"}
KEPT = {"cache-control": "public, max-age=31536000, immutable", "vary": "Accept-Encoding"}

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>tocsin · HTTP API</title>
<link rel="icon" type="image/svg+xml" href="{root}/icon.svg">
<link rel="stylesheet" href="{assets}swagger-ui.css">
<link rel="stylesheet" href="{assets}page.css">
<script src="{assets}theme.js"></script>
</head>
<body>
<header><a href="{root}/">tocsin</a></header>
<div id="api" data-description="{root}/api/v1/openapi.json"></div>
<script src="{assets}swagger-ui-bundle.js"></script>
<script src="{assets}page.js"></script>
</body>
</html>
"""


def routes(root: str, revalidated: dict[str, str]) -> list[Route]:
    """Return the routes of the page and its files; ``root`` is the path under which a proxy serves them."""
    text = PAGE.format(root=root, assets=root + ASSETS)

    async def page(request: Request) -> Response:
        """Return Swagger UI with a login, else the login page."""
        if request.state.identity is None:
            return login_page(then=PATH, root=root)
        return HTMLResponse(text, headers=revalidated | {"vary": "Cookie"})

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        kind = MEDIA_TYPES.get(name.rpartition(".")[2])
        if kind is None or not files(__package__).joinpath("swagger_ui", name).is_file():
            raise HTTPException(404)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(_body(name), media_type=kind, headers=KEPT)
        return Response(_gzipped(name), media_type=kind, headers=KEPT | {"content-encoding": "gzip"})

    return [Route(PATH, page, methods=["GET"]), Route(f"{ASSETS}{{name}}", file, methods=["GET"])]


@cache
def _body(name: str) -> bytes:
    """Return a file without the address of its source map, which is not shipped."""
    found = files(__package__).joinpath("swagger_ui", name).read_bytes()
    return found.partition(b"/*# sourceMappingURL=")[0]


@cache
def _gzipped(name: str) -> bytes:
    return gzip.compress(_body(name), GZIP_LEVEL, mtime=0)
