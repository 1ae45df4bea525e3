"""Sign and check session cookies, and remember the sessions that were ended by logging out.

A cookie names a token and a session and contains its times. The signature covers the token's digest, so that
revoking or renewing the token ends its sessions. Ended sessions are stored in a file next to the signing key
until their cookies would have expired, so that copies stay invalid after a restart.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocsin_server.core.permissions import Session, Token

COOKIE = "tocsin_session"
LONGEST_COOKIE = 1024
MOST_ENDED = 256
"""Maximum number of ended sessions per token that are remembered individually; above it, all sessions of the
token that began before then are ended."""
EVERY = ""
"""Used in place of a token for all of them."""

log = logging.getLogger("tocsin.auth")


class Sessions:
    """Sign and read session cookies: ``v2.<token>.<session>.<begun>.<expiry>.<signature>`` in base64.

    Args:
        key: The signing key.
        lifetime_s: Seconds that a cookie is valid.
        ended: The sessions ended by logging out.
    """

    def __init__(self, key: bytes, lifetime_s: int, ended: Ended) -> None:
        self._key = key
        self._ended = ended
        self.lifetime_s = lifetime_s

    def issue(self, token: Token, now_s: float) -> str:
        """Return a cookie for the owner of ``token``, valid from now for the session's lifetime."""
        begun_s = int(now_s)
        session = Session(token.id, secrets.token_hex(12), begun_s, begun_s + self.lifetime_s)
        return self._cookie(session, token)

    def read(
        self, cookie: str, find: Callable[[str], Token | None], now_s: float
    ) -> tuple[Token, Session] | None:
        """Return the token and session of a cookie; None if it is forged, expired or ended."""
        session = _claim(cookie)
        token = find(session.token_id) if session else None
        if session is None or token is None or session.expires_s <= now_s:
            return None
        if not hmac.compare_digest(cookie, self._cookie(session, token)) or self._ended.holds(session):
            return None
        return token, session

    def _cookie(self, session: Session, token: Token) -> str:
        text = f"v2.{session.token_id}.{session.id}.{session.begun_s}.{session.expires_s}"
        signature = hmac.new(self._key, f"{text}.{token.digest}".encode(), hashlib.sha256).hexdigest()
        return base64.urlsafe_b64encode(f"{text}.{signature}".encode()).decode("ascii").rstrip("=")


def _claim(cookie: str) -> Session | None:
    """Return what a cookie claims, or None if it does not have our format."""
    if len(cookie) > LONGEST_COOKIE or not cookie.isascii():
        return None
    try:
        text = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)).decode("ascii")
        version, token_id, session_id, begun, expires, _signature = text.split(".")
        return Session(token_id, session_id, int(begun), int(expires)) if version == "v2" else None
    except (binascii.Error, ValueError):
        return None


class Ended:
    """The ended sessions, stored in a file. Thread-safe.

    Memory is bounded: :data:`MOST_ENDED` per token; above it, a time before which all of its sessions ended.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._ids: dict[str, dict[str, int]] = {}
        """Token -> session -> when its cookie expires."""
        self._until: dict[str, int] = {}
        """Token (or EVERY) -> time before which its sessions began that have ended."""
        self._read()

    def holds(self, session: Session) -> bool:
        """Return whether a session was ended."""
        if session.begun_s <= max(self._until.get(session.token_id, -1), self._until.get(EVERY, -1)):
            return True
        return session.id in self._ids.get(session.token_id, ())

    def add(self, session: Session, now_s: float) -> None:
        """End a session. If the file cannot be written, this is logged and lost at the next start."""
        with self._lock:
            live = {id_: at for id_, at in self._ids.get(session.token_id, {}).items() if at > now_s}
            live[session.id] = session.expires_s
            if len(live) > MOST_ENDED:
                self._until[session.token_id] = int(now_s)
                live = {session.id: session.expires_s}
            self._ids = {**self._ids, session.token_id: live}
            try:
                self._write()
            except OSError as error:
                log.warning(
                    "%s cannot be written, so a session is ended only until the next start: %s",
                    self._file,
                    error,
                )

    def _read(self) -> None:
        try:
            reported: Any = json.loads(self._file.read_text("utf-8"))
            for token_id, ids in reported["ended"].items():
                self._ids[str(token_id)] = {str(id_): int(at) for id_, at in ids.items()}
            self._until = {str(token_id): int(at) for token_id, at in reported["until"].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s cannot be read, so all sessions were ended: %s", self._file, error)
            self._until = {EVERY: int(time.time())}

    def _write(self) -> None:
        part = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump({"ended": self._ids, "until": self._until}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self._file)
