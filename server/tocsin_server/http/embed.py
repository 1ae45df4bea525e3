"""``/embed``: one chart of one run for an iframe of another page, by a signed link without a login.

The page is a picture without scripts, forms and links, so that the page around it can do nothing with it.
"""

from __future__ import annotations

import base64
import html
import threading
import time
from collections import OrderedDict

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tocsin_server.core.embed_links import is_embed_signed, names_in
from tocsin_server.http.services import services_of
from tocsin_server.notify import chart_image
from tocsin_server.store.embed_links import read_link
from tocsin_server.store.reader import StoreReader

router = APIRouter(include_in_schema=False)

REFRESH_S = 30
"""The page asks for a new picture this often."""
FRESH_S = 10.0
"""A picture is drawn at most this often, however many readers a page has."""
KEPT = 64
BUCKETS = 600
STYLE = "body{margin:0;background:#fff;font:16px sans-serif}img{display:block;width:100%;height:auto}"
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
<html lang="en">
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


class Pictures:
    """The newest pictures: PNG by run and series, each drawn at most once in :data:`FRESH_S`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[tuple[str, str], tuple[float, bytes]] = OrderedDict()

    def of(self, reader: StoreReader, run_id: str, run_name: str, series: str) -> bytes | None:
        """Return the chart, or None without values. One at a time is drawn."""
        with self._lock:
            drawn_at, image = self._drawn.get((run_id, series), (float("-inf"), b""))
            if time.monotonic() - drawn_at > FRESH_S:
                image = _draw(reader, run_id, run_name, series)
                self._drawn[run_id, series] = (time.monotonic(), image)
                self._drawn.move_to_end((run_id, series))
                while len(self._drawn) > KEPT:
                    self._drawn.popitem(last=False)
            return image or None


def _draw(reader: StoreReader, run_id: str, run_name: str, chart: str) -> bytes:
    names = names_in(chart)
    answer = reader.series(run_id, names, start=None, stop=None, buckets=BUCKETS)
    layers = [(name, next(iter(answer.series.get(name, ())), None)) for name in names]
    curves = [
        (name, chart_image.curve_of(layer)) for name, layer in layers if layer is not None and layer.x.size
    ]
    if not curves:
        return b""
    (first, curve), *beside = curves
    return chart_image.draw(
        f"{run_name} · {first}" if beside else f"{first} · {run_name}", curve, None, beside
    )


@router.get("/embed")
def embed(
    request: Request,
    link: str = "",
    run: str = "",
    series: str = "",
    until: str = "",
    signature: str = "",
) -> Response:
    """Return the chart that the link is for. A cookie or token of the reader is ignored."""
    services = services_of(request)
    if not is_embed_signed(services.delivery.key, link, run, series, until, signature, time.time()):
        return _page("This link is invalid or has expired.", 403)
    with services.reader.consistent() as connection:
        if read_link(connection, link) is None:
            return _page("This link was revoked.", 403)
    stored = services.reader.run(run)
    if stored is None or stored.deletion_ns is not None:
        return _page("This run no longer exists.", 404)
    image = request.app.state.embedded.of(services.reader, run, stored.name, series)
    title = f"{', '.join(names_in(series))} of {stored.name}"
    if image is None:
        return _page(f"{title}: no values yet.", 200)
    data = base64.b64encode(image).decode("ascii")
    label = html.escape(f"{title}, last step {stored.last_step}")
    return _page(title, 200, f'<img alt="{label}" src="data:image/png;base64,{data}">')


def _page(title: str, status: int, content: str = "") -> HTMLResponse:
    shown = html.escape(title)
    body = PAGE.format(title=shown, style=STYLE, refresh=REFRESH_S, content=content or f"<p>{shown}</p>")
    return HTMLResponse(body, status_code=status, headers=HEADERS)
