"""Log in by link or form, and log out."""

from __future__ import annotations

import html
import time
from collections import deque
from urllib.parse import parse_qs, quote, urlencode

import anyio.to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tocsin_server.core.permissions import Scope, Token
from tocsin_server.http.auth.authentication import Auth
from tocsin_server.http.auth.sessions import COOKIE
from tocsin_server.http.services import services_of

router = APIRouter(include_in_schema=False)

WINDOW_S = 60.0
ADDRESSES = 4096
"""Maximum number of addresses whose failures are counted; above it, the least recent one is dropped."""
BODY_BYTES = 4096
NO_REFERRER = {"referrer-policy": "no-referrer", "cache-control": "no-store"}
OWN_REFERRER = {"referrer-policy": "same-origin", "cache-control": "no-store"}
"""For pages with a form: without a referrer, browsers send ``Origin: null``, which is rejected."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tocsin · log in</title>
<link rel="icon" type="image/svg+xml" href="{root}/icon.svg">
<link rel="stylesheet" href="{root}/assets/login.css">
</head>
<body>
<main>
<h1>tocsin</h1>
{message}
<p>Open the login link that <code>tocsin-server serve</code> printed when it started. It ends in
<code>/login?token=…</code> and stays the same across restarts; the command prints it again each time.</p>
<form method="post" action="{root}/login">
<label for="token">Or paste a token (scope read, write or admin)</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<input name="next" type="hidden" value="{next}">
<button>Log in</button>
</form>
<p>Create a token with <code>tocsin-server token create NAME --scope read</code> on the server's machine.</p>
</main>
</body>
</html>
"""


class Attempts:
    """Count the failed logins per address within a minute. Pure: the clock is an argument.

    Memory is bounded: at most ``limit`` times per address and :data:`ADDRESSES` addresses.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failed: dict[str, deque[float]] = {}

    def wait_s(self, address: str, now_s: float) -> float:
        """Return the seconds until this address may try again; 0 if it may now."""
        times = self._failed.get(address, deque())
        while times and times[0] <= now_s - WINDOW_S:
            times.popleft()
        return times[0] + WINDOW_S - now_s if len(times) >= self._limit else 0.0

    def failed(self, address: str, now_s: float) -> None:
        """Count a failed login from this address."""
        times = self._failed.pop(address, deque(maxlen=self._limit))
        times.append(now_s)
        self._failed[address] = times
        if len(self._failed) > ADDRESSES:
            del self._failed[next(iter(self._failed))]


def login_page(message: str = "", *, status: int = 401, then: str = "/", root: str = "") -> HTMLResponse:
    """Return the login page.

    Args:
        message: Plain text to show, such as an error.
        status: HTTP status of the response.
        then: Path to open after the login.
        root: Path under which a proxy serves this server.
    """
    paragraph = f'<p role="alert" class="wrong">{html.escape(message)}</p>' if message else ""
    body = PAGE.format(message=paragraph, next=html.escape(then), root=root)
    return HTMLResponse(body, status_code=status, headers=OWN_REFERRER)


def safe_next(wanted: str) -> str:
    """Return ``wanted`` if it is a path of this site, else ``/``, to prevent open redirects."""
    elsewhere = wanted[1:2] in ("/", "\\")  # browsers treat both as the start of another host
    if not wanted.startswith("/") or elsewhere or not wanted.isprintable():
        return "/"
    return quote(wanted, safe="/%?&=#+,;:@!$'()*~[]-._")


@router.get("/login")
def login_link(request: Request, token: str = "", next: str = "/") -> Response:
    """Log in by link: set the session cookie and redirect to an address without the token."""
    if not token:
        return login_page(status=200, then=safe_next(next), root=_root(request))
    return _log_in(request, token, safe_next(next))


@router.post("/login")
async def login_form(request: Request) -> Response:
    """Log in by the form of the login page."""
    if not request.app.state.services.gate.same_origin(request):
        return login_page("The form was sent from another site.", status=403, root=_root(request))
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES:
            return login_page("This is not a valid token: it is too long.", status=413, root=_root(request))
    fields = parse_qs(body.decode("utf-8", "replace"))
    then, secret = safe_next(fields.get("next", ["/"])[0]), fields.get("token", [""])[0].strip()
    return await anyio.to_thread.run_sync(_log_in, request, secret, then)  # it may query the database


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session of this browser and of all copies of its cookie; its open pages are disconnected."""
    services = services_of(request)
    auth: Auth = request.app.state.services.gate
    for identity in auth.cookies_of(request):
        await anyio.to_thread.run_sync(auth.end_session, identity)  # it writes a file
    services.live.recheck()
    root = _root(request)
    response = RedirectResponse(f"{root}/login", status_code=303, headers=NO_REFERRER)
    response.delete_cookie(COOKIE, path=root or "/", httponly=True, samesite="lax")
    return response


def _log_in(request: Request, secret: str, then: str) -> Response:
    """Check a token and log in.

    The token is checked before the limit, so that other users at the address of an attacker are not locked
    out. A token has 256 random bits, so the limit protects the database rather than the token.
    """
    attempts: Attempts = request.app.state.attempts
    address = request.client.host if request.client else ""
    wait_s = attempts.wait_s(address, time.monotonic())
    auth: Auth = request.app.state.services.gate
    token = auth.find(secret, look_again=wait_s <= 0)
    if token is None and wait_s > 0:
        return _limited(wait_s, _root(request))
    if token is None:
        attempts.failed(address, time.monotonic())
        return login_page("This token is unknown or was revoked.", then=then, root=_root(request))
    if token.scope is Scope.INGEST:
        message = "This is an ingest token. It cannot open pages."
        return login_page(message, status=403, then=then, root=_root(request))
    return _welcome(request, auth, token, then)


def _limited(wait_s: float, root: str) -> Response:
    seconds = int(wait_s) + 1
    message = f"Too many wrong tokens from this address. Try again in {seconds} s."
    response = login_page(message, status=429, root=root)
    response.headers["retry-after"] = str(seconds)
    return response


def _welcome(request: Request, auth: Auth, token: Token, then: str) -> Response:
    root = _root(request)
    response = RedirectResponse(root + then, status_code=303, headers=NO_REFERRER)
    response.set_cookie(
        COOKIE,
        auth.issue_cookie(token),
        max_age=auth.sessions.lifetime_s,
        path=root or "/",
        httponly=True,
        samesite="lax",
        secure=_by_https(request),
    )
    return response


def _root(request: Request) -> str:
    root: str = request.app.state.services.settings.root_path
    return root


def _by_https(request: Request) -> bool:
    public: str = request.app.state.services.settings.public_url
    return request.url.scheme == "https" or public.startswith("https://")


def login_address(base: str, secret: str) -> str:
    """Return the login link of a server at ``base``."""
    return f"{base}/login?{urlencode({'token': secret})}"
