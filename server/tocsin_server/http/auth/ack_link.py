"""``/ack``: the signed link in a notification. Opening it changes nothing, because mail programs and chats
open links automatically; the button on its page acknowledges the alert and the others of its incident.
"""

from __future__ import annotations

import html
import time
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tocsin_server.http.api.incidents import acknowledge_incident
from tocsin_server.http.services import services_of
from tocsin_server.notify.links import is_signed
from tocsin_server.store.acks import Ack

router = APIRouter(include_in_schema=False)

BODY_BYTES = 8192
HEADERS = {"cache-control": "no-store", "referrer-policy": "same-origin"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>tocsin · acknowledge</title>
<link rel="stylesheet" href="{root}/assets/login.css">
</head>
<body>
<main>
<h1>tocsin</h1>
{content}
</main>
</body>
</html>
"""
INVALID = "<p>This link is invalid or has expired. Open the alert in tocsin.</p>"
FORM = """<p>{summary}</p>
<p>This acknowledges all alerts of the incident: no more reminders.
You'll still be notified if it gets worse or ends.</p>
<form method="post" action="{root}/ack">
<input name="alert" type="hidden" value="{alert}">
<input name="until" type="hidden" value="{until}">
<input name="signature" type="hidden" value="{signature}">
<label for="note">Note for other users (optional)</label>
<input id="note" name="note" maxlength="1000">
<button>Acknowledge</button>
</form>"""


@router.get("/ack")
def show(request: Request, alert: str = "", until: str = "", signature: str = "") -> Response:
    """Return the page with the button. Opening it changes nothing."""
    services = services_of(request)
    if not is_signed(services.delivery.key, alert, until, signature, time.time()):
        return _page(request, INVALID, 403)
    stored = services.reader.alert(alert)
    if stored is None:
        return _page(request, "<p>This alert no longer exists.</p>", 404)
    summary = f"{stored.run_name}: {stored.alert.summary} ({stored.alert.state})"
    root = services.settings.root_path
    shown = {"summary": summary, "alert": alert, "until": until, "signature": signature, "root": root}
    return _page(request, FORM.format(**{name: html.escape(text) for name, text in shown.items()}))


@router.post("/ack")
async def acknowledge(request: Request) -> Response:
    """Acknowledge the incident of the alert on behalf of the holder of the link."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES:
            return _page(request, "<p>The note is too long.</p>", 413)
    fields = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    alert, now_s = fields.get("alert", ""), time.time()
    services = services_of(request)
    signed = is_signed(
        services.delivery.key, alert, fields.get("until", ""), fields.get("signature", ""), now_s
    )
    if not signed:
        return _page(request, INVALID, 403)
    identity = request.state.identity
    actor = "link of a message" if identity is None else f"{identity.token_id} {identity.name}".strip()
    stored = services.reader.alert(alert)
    ack = Ack(int(now_s * 1e9), actor, fields.get("note", "")[:1000])
    if stored is None or not await acknowledge_incident(services, stored.alert.incident_id, ack):
        return _page(request, "<p>This alert no longer exists.</p>", 404)
    return _page(request, "<p>Acknowledged. You may close this page.</p>")


def _page(request: Request, content: str, status: int = 200) -> HTMLResponse:
    root = services_of(request).settings.root_path
    body = PAGE.format(content=content, root=root)
    return HTMLResponse(body, status_code=status, headers=HEADERS)
