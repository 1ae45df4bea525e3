"""Authentication: tokens, the browser's session, the login link.

A token is known by its digest. The table of digests is read into memory, again every second
(app.py) and on every unknown token, so that a token made or revoked by another process counts
at once or within two seconds. Two tokens lie in the data directory instead (mode 0600): that
of the login link (``admin-token``) and that of the lines to paste (``trainer-token``), so that
both work over restarts.

A browser session is a signed cookie: it names a token, carries its expiry, and its signature
covers the token's digest, so revoking or renewing the token ends its sessions.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import HTTPConnection

from tocsin_server.access import ADMIN_ID, TRAINER_ID, Identity, Scope, Token, digest_of, new_secret
from tocsin_server.origins import origin_agrees
from tocsin_server.settings import Settings

COOKIE = "tocsin_session"
KEY_FILE = "session-key"
LONGEST_SECRET = 512
"""Longer than any token: not even hashed."""
LONGEST_COOKIE = 1024

log = logging.getLogger("tocsin.auth")


class Sessions:
    """Signs and reads session cookies: ``v1.<token id>.<expiry>.<signature>``, all in one base64 word."""

    def __init__(self, key: bytes, lifetime_s: int) -> None:
        self._key = key
        self.lifetime_s = lifetime_s

    def issue(self, token: Token, now_s: float) -> str:
        """A cookie for the bearer of ``token``, valid from now for the session's lifetime."""
        return self._cookie(token, int(now_s) + self.lifetime_s)

    def read(self, cookie: str, find: Callable[[str], Token | None], now_s: float) -> Token | None:
        """The token behind a cookie; None where it is forged, expired or its token is gone."""
        claim = _claim(cookie)
        token = find(claim[0]) if claim else None
        if claim is None or token is None or claim[1] <= now_s:
            return None
        return token if hmac.compare_digest(cookie, self._cookie(token, claim[1])) else None

    def _cookie(self, token: Token, expires: int) -> str:
        text = f"v1.{token.id}.{expires}"
        signed = f"{text}.{token.digest}".encode()
        signature = hmac.new(self._key, signed, hashlib.sha256).hexdigest()
        return base64.urlsafe_b64encode(f"{text}.{signature}".encode()).decode("ascii").rstrip("=")


def _claim(cookie: str) -> tuple[str, int] | None:
    """(token id, expiry) as a cookie claims, or None for what was never ours."""
    if len(cookie) > LONGEST_COOKIE or not cookie.isascii():
        return None
    try:
        text = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)).decode("ascii")
        _version, token_id, expires, _signature = text.split(".")
        return token_id, int(expires)
    except (binascii.Error, ValueError):
        return None


class Auth:
    """The gate (see :class:`tocsin_server.access.Gate`). Thread-safe: the table is swapped whole."""

    def __init__(
        self,
        settings: Settings,
        load: Callable[[], Iterable[Token]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._load = load
        self._clock = clock
        self._by_digest: dict[str, Token] = {}
        self._by_id: dict[str, Token] = {}
        self._loads = True
        key = secret_file(settings.data_dir / KEY_FILE, lambda: secrets.token_hex(32))
        self.sessions = Sessions(key.encode(), settings.session_days * 86_400)
        self.refresh()

    def refresh(self) -> None:
        """Reads the tokens again. Where the database fails, the known ones stay in force."""
        try:
            found = [token for token in self._load() if token.revoked_ns is None]
            found += file_tokens(self._settings)
        except Exception as error:  # noqa: BLE001 - a database that is away must not lock its users out
            self._report(error)
            return
        self._loads = True
        self._by_id = {token.id: token for token in found}
        self._by_digest = {token.digest: token for token in found}

    def _report(self, error: Exception) -> None:
        if self._loads:
            log.warning("tokens could not be read, those known stay in force: %s", error)
        self._loads = False

    def find(self, secret: str) -> Token | None:
        """The stored token of a secret, or None where it is unknown or revoked."""
        if not secret or len(secret) > LONGEST_SECRET:
            return None
        digest = digest_of(secret)
        if digest not in self._by_digest and self._loads:
            self.refresh()
        token = self._by_digest.get(digest)
        return token if token is not None and hmac.compare_digest(token.digest, digest) else None

    def check_token(self, secret: str) -> Identity | None:
        """The identity behind a token, or None where it is unknown or revoked."""
        token = self.find(secret)
        return None if token is None else identity_of(token)

    def session_of(self, connection: HTTPConnection) -> Identity | None:
        """Who sent a request or opened a websocket: its bearer token, else its session cookie.

        A bearer token that is wrong is not made good by a cookie.
        """
        header = connection.headers.get("authorization")
        if header is not None:
            return self.check_token(bearer(header))
        token = self.sessions.read(connection.cookies.get(COOKIE, ""), self._by_id.get, self._clock())
        return None if token is None else identity_of(token)

    def same_origin(self, connection: HTTPConnection) -> bool:
        """False where a browser's Origin names another site than the Host it calls; programs send none."""
        origin = connection.headers.get("origin")
        if origin is None:
            return True
        host = connection.headers.get("host", "")
        return origin_agrees(origin, host, connection.url.scheme, self._settings.public_url)

    def still_valid(self, identity: Identity) -> bool:
        """False once the token behind an identity is revoked."""
        return identity.token_id in self._by_id

    def issue_cookie(self, token: Token) -> str:
        """The value of a fresh session cookie."""
        return self.sessions.issue(token, self._clock())


def identity_of(token: Token) -> Identity:
    """Who speaks by a token."""
    return Identity(token_id=token.id, name=token.name, scope=token.scope, project=token.project)


def bearer(header: str) -> str:
    """The token of an Authorization header, ``""`` where it is of another scheme."""
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


@dataclass(frozen=True, slots=True)
class FileToken:
    """A token whose secret is kept in the data directory, because ``serve`` prints it at every start."""

    id: str
    name: str
    scope: Scope
    file: str

    def secret(self, data_dir: Path) -> str:
        """Its secret, made at the first call. Raises OSError."""
        return secret_file(data_dir / self.file, new_secret)

    def renew(self, data_dir: Path) -> str:
        """A new secret; the old one and the sessions by it end within two seconds."""
        (data_dir / self.file).unlink(missing_ok=True)
        return self.secret(data_dir)

    def stored(self, data_dir: Path) -> Token:
        """This token as those of the database are."""
        digest = digest_of(self.secret(data_dir))
        return Token(id=self.id, name=self.name, scope=self.scope, project="", digest=digest, created_ns=0)


ADMIN = FileToken(ADMIN_ID, "login link", Scope.ADMIN, "admin-token")
TRAINER = FileToken(TRAINER_ID, "lines to paste", Scope.INGEST, "trainer-token")
FILE_TOKENS = (ADMIN, TRAINER)


def file_tokens(settings: Settings) -> list[Token]:
    """The tokens of the data directory. Beyond loopback they count only where that was asked for."""
    if not (settings.loopback or settings.allow_admin_link):
        return []
    return [token.stored(settings.data_dir) for token in FILE_TOKENS]


def secret_file(path: Path, make: Callable[[], str]) -> str:
    """The secret kept at ``path``, made with mode 0600 where there is none. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = _kept(path)
    if kept:
        return kept
    # Written aside and linked into place: another process starting now sees all of it or nothing.
    aside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        _write_private(aside, make())
        _link(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    return _kept(path)


def _kept(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        return ""


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")


def _link(aside: Path, path: Path) -> None:
    if path.exists() and not _kept(path):
        os.replace(aside, path)
        return
    try:
        os.link(aside, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        os.replace(aside, path)
