"""What the links of embedded charts show, and their signatures. Pure.

A link is bound to one chart of one run, expires, and can be revoked by its id. Anyone who has it sees the
chart without a login.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

LONGEST_DAYS = 90
KINDS = ("list", "formula", "spread", "scatter", "media")
"""Charts that are composed on the run page, as in ``formula:loss / 2``: ``web/lib/charts/customchart.js``."""
LOG = "log:"
"""Begins the line with the logarithmic axes of a chart, before the chart: ``log:x,y``."""
MOST_SERIES = 16


@dataclass(frozen=True, slots=True)
class EmbeddedChart:
    """A chart of a run: lines, a formula, the spread over ranks, two metrics, or an object it logged.

    ``text`` has a name a line, but that of a formula is the formula. ``log`` are its logarithmic axes.
    """

    kind: str
    text: str
    log: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The names of the series, or of the object."""
        lines = (line.strip() if self.kind != "list" else line for line in self.text.split("\n"))
        return list(dict.fromkeys(filter(None, lines)))[:MOST_SERIES]

    @property
    def title(self) -> str:
        """What the chart shows, in words."""
        if self.kind == "scatter" and len(self.names) == 2:
            return f"{self.names[1]} against {self.names[0]}"
        shown = self.text.strip() if self.kind == "formula" else ", ".join(self.names)
        return f"spread of {shown}" if self.kind == "spread" else shown


def read_chart(text: str) -> EmbeddedChart:
    """Return the chart of a link. A text of none of the kinds is the name of one series."""
    axes, chart = text.removeprefix(LOG).split("\n", 1) if _has_axes(text) else ("", text)
    kind, colon, rest = chart.partition(":")
    log = frozenset(axes.split(",")) & {"x", "y"}
    return EmbeddedChart(kind, rest, log) if colon and kind in KINDS else EmbeddedChart("list", chart, log)


def chart_text(series: str, known: Collection[str], log: Iterable[str] = ()) -> str:
    """Return the text that is signed: a series of the run, or a chart, and its logarithmic axes."""
    alone = series in known and read_chart(series) != EmbeddedChart("list", series)
    chart = f"list:{series}" if alone else series
    axes = ",".join(sorted(set(log)))
    return f"{LOG}{axes}\n{chart}" if axes else chart


def _has_axes(text: str) -> bool:
    return text.startswith(LOG) and "\n" in text


def embed_path(key: bytes, link_id: str, run_id: str, series: str, until: int) -> str:
    """Return the path and query of a chart that is shown until a Unix time in seconds."""
    asked = {"link": link_id, "run": run_id, "series": series, "until": str(until)}
    return f"/embed?{urlencode(asked | {'signature': embed_signature(key, link_id, run_id, series, until)})}"


def embed_signature(key: bytes, link_id: str, run_id: str, series: str, until: int) -> str:
    """Return 64 hex digits that sign the content of the link."""
    signed = json.dumps(["embed", until, link_id, run_id, series])
    return hmac.new(key, signed.encode("ascii"), hashlib.sha256).hexdigest()


def is_embed_signed(
    key: bytes, link_id: str, run_id: str, series: str, until: str, given: str, now_s: float
) -> bool:
    """Return whether a link has a valid signature and has not expired."""
    if not (until.isascii() and until.isdecimal() and len(until) < 12) or not given.isascii():
        return False
    wanted = embed_signature(key, link_id, run_id, series, int(until))
    return now_s < int(until) and hmac.compare_digest(given, wanted)
