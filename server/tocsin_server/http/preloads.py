"""The API requests without which a page shows nothing, as links in its HTML.

The browser sends them while it loads the scripts, instead of after they ran. Others would delay these,
because a browser has six connections to a server without HTTP/2. Each address is exactly that of the request
in ``web/data/``; a test in a browser finds the ones that differ.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, unquote, urlencode

from tocsin_server.http.api.series import VITAL_SIGNS

ALL_PAGES = ("/session",)
FLEET = ("/runs?limit=5000&sparks=false",)
RUN = ("/runs/{}?sparks=false", "/runs/{}/events?{}")
ALERTS = "/alerts?{}"
"""Of one run: its page is hidden until they arrive, because they are above its charts."""
HIDDEN_EVENTS = ("layers", "layer-names", "media-content", "console")
"""Kinds of events that a run's page does not load with the others."""
BUCKETS = (("(width <= 1600px)", 600), ("(width > 1600px)", 1500))
"""Buckets of the vital signs by the width of the window, as in ``web/pages/run/charts.js``."""
OTHER_AXIS = ("x", "logx")
"""With these in its address, a run's page loads other series or other buckets."""
LINK = '<link rel="preload" as="fetch" crossorigin="anonymous" href="/api/v1{}"{} />'


def preloads(path: str, query: str) -> Iterator[str]:
    """Yield the links of the page at ``path`` (without the root path), such as ``/runs/r_1``."""
    for address, media in _requests(path.rstrip("/"), query):
        yield LINK.format(html.escape(address), f' media="{html.escape(media)}"' if media else "")


def _requests(path: str, query: str) -> Iterator[tuple[str, str]]:
    """Yield the address of each request, most urgent first, and the windows in which it is made."""
    folder, _, name = path.removeprefix("/").partition("/")
    yield from ((address, "") for address in ALL_PAGES)
    if not folder:
        yield from ((address, "") for address in FLEET)
    elif folder == "runs" and name and "/" not in name:
        run = quote(unquote(name), safe="!'()*~")  # as encodeURIComponent does
        if not parse_qs(query).keys() & OTHER_AXIS:
            yield from ((_series(run, buckets), media) for media, buckets in BUCKETS)
        events = urlencode([("limit", 5000), *(("without", kind) for kind in HIDDEN_EVENTS)])
        yield from ((address.format(run, events), "") for address in RUN)
        yield ALERTS.format(urlencode({"run": unquote(name)})), ""


def _series(run: str, buckets: int) -> str:
    names = [("names", name) for name in (*VITAL_SIGNS, "skipped")]
    return f"/runs/{run}/series?{urlencode([*names, ('buckets', buckets), ('chart', 'true')])}"
