"""Sign and check the links of embedded charts. Pure.

A link is bound to one chart of one run, expires, and can be revoked by its id. Anyone who has it sees the
chart without a login.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from urllib.parse import urlencode

LONGEST_DAYS = 90
LIST = "list:"
"""Begins a chart of several series; their names follow, one a line."""
MOST_SERIES = 16


def names_in(chart: str) -> list[str]:
    """Return the series of a chart: one, or those of a list."""
    if not chart.startswith(LIST):
        return [chart]
    return list(dict.fromkeys(name for name in chart.removeprefix(LIST).split("\n") if name))[:MOST_SERIES]


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
