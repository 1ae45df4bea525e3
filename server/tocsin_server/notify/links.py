"""Build the links in messages: to the incident's page, to silence it, and to acknowledge it. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

VALID_S = 7 * 86_400
"""How long an acknowledge link is valid."""


def page(base: str, alert: Mapping[str, Any]) -> str:
    """Return a link to the page of an alert's incident, in the format of ``web/lib/route.js``.

    An alert that belongs to no incident has its run's page at the onset.
    """
    if alert.get("incident"):
        return f"{base}/incidents/{quote(alert['incident'], safe='')}"
    asked = {} if alert["onset_step"] is None else {"at": str(alert["onset_step"])}
    return f"{base}/runs/{quote(alert['run_id'], safe='')}?{urlencode(asked | {'alert': alert['id']})}"


def silencing(base: str, alert: Mapping[str, Any]) -> str:
    """Return a link to the form that silences an alert's incident; it needs a login."""
    name = "incident" if alert.get("incident") else "run_id"
    value = str(alert[name]).replace("\\", "\\\\").replace('"', '\\"')
    asked = {"new": "", "matcher": f'{name}="{value}"'}
    return f"{base}/silences?{urlencode(asked)}"


def acknowledging(base: str, key: bytes, alert_id: str, now_s: float) -> str:
    """Return a link to a page that acknowledges an alert without a login, valid for :data:`VALID_S`."""
    until = int(now_s) + VALID_S
    asked = {"alert": alert_id, "until": str(until), "signature": signature(key, alert_id, until)}
    return f"{base}/ack?{urlencode(asked)}"


def signature(key: bytes, alert_id: str, until: int) -> str:
    """Return 64 hex digits that sign the content of the link."""
    return hmac.new(key, f"ack\n{until}\n{alert_id}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def is_signed(key: bytes, alert_id: str, until: str, given: str, now_s: float) -> bool:
    """Return whether a link has a valid signature and has not expired."""
    if not (until.isascii() and until.isdecimal() and len(until) < 12) or not given.isascii():
        return False
    return now_s < int(until) and hmac.compare_digest(given, signature(key, alert_id, int(until)))
