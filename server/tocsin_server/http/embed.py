"""``/embed``: one chart of one run for an iframe of another page, by a signed link without a login.

The page has no scripts, forms and links, so that the page around it can do nothing with it.
"""

from __future__ import annotations

import html
import threading
import time
from collections import OrderedDict

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tocsin_server.core.embed_links import is_embed_signed, read_chart
from tocsin_server.core.formula import FormulaError
from tocsin_server.http.api.embedded_chart import ChartOfRun
from tocsin_server.http.embedded_drawing import STYLE as DRAWING_STYLE
from tocsin_server.http.services import services_of
from tocsin_server.store.embed_links import read_link

router = APIRouter(include_in_schema=False)

REFRESH_S = 30
"""The page asks for newer values this often."""
FRESH_S = 10.0
"""A chart is drawn at most this often, however many readers a page has."""
KEPT = 64
STYLE = "".join(
    (
        ":root{color-scheme:light dark}:root[data-theme=light]{color-scheme:light}",
        ":root[data-theme=dark]{color-scheme:dark}",
        "body{margin:0;background:light-dark(#fff,#11181b);color:light-dark(#13201c,#e3ebe8);",
        "font:14px/1.4 ui-sans-serif,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif}",
        "p,pre{margin:8px}img{display:block;width:100%;height:100vh;object-fit:contain}",
        "pre{white-space:pre-wrap;overflow-wrap:anywhere}table{border-collapse:collapse}",
        "th,td{padding:4px 8px;border:1px solid light-dark(#dde1db,#223036);text-align:left}",
        DRAWING_STYLE,
    )
)
THEMES = ("light", "dark")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "img-src data:",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors *",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "cross-origin",
}
PAGE = """<!doctype html>
<html lang="en"{theme}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="{refresh}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>{content}</body>
</html>
"""


class Contents:
    """The newest contents of embedded charts, as HTML, each made at most once in :data:`FRESH_S`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()

    def of(self, text: str, shown: ChartOfRun) -> str | None:
        """Return the chart, or None without values. One at a time is drawn."""
        key = (shown.run.id, text)
        with self._lock:
            made_at, content = self._made.get(key, (float("-inf"), ""))
            if time.monotonic() - made_at > FRESH_S:
                content = _content(shown)
                self._made[key] = (time.monotonic(), content)
                self._made.move_to_end(key)
                while len(self._made) > KEPT:
                    self._made.popitem(last=False)
            return content or None


def _content(shown: ChartOfRun) -> str:
    try:
        return shown.content() or ""
    except FormulaError:  # a series of the formula was deleted
        return ""


@router.get("/embed")
def embed(
    request: Request,
    link: str = "",
    run: str = "",
    series: str = "",
    until: str = "",
    signature: str = "",
    theme: str = "",
) -> Response:
    """Return the chart that the link is for. A cookie or token of the reader is ignored.

    ``theme``, which is not signed, is light or dark; otherwise that of the reader's system.
    """
    services = services_of(request)
    if not is_embed_signed(services.delivery.key, link, run, series, until, signature, time.time()):
        return _page("This link is invalid or has expired.", 403)
    with services.reader.consistent() as connection:
        if read_link(connection, link) is None:
            return _page("This link was revoked.", 403)
    stored = services.reader.run(run)
    if stored is None or stored.deletion_ns is not None:
        return _page("This run no longer exists.", 404)
    shown = ChartOfRun(services.reader, stored, read_chart(series))
    content = request.app.state.embedded.of(series, shown)
    return _page(shown.title if content else f"{shown.title}: no values yet.", 200, content or "", theme)


def _page(title: str, status: int, content: str = "", theme: str = "") -> HTMLResponse:
    shown = html.escape(title)
    body = PAGE.format(
        title=shown,
        theme=f' data-theme="{theme}"' if theme in THEMES else "",
        style=STYLE,
        refresh=REFRESH_S,
        content=content or f"<p>{shown}</p>",
    )
    return HTMLResponse(body, status_code=status, headers=HEADERS)
