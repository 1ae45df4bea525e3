"""Browser sessions: signed, limited in time, and ended by a logout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tocsin_server.core.permissions import Scope, Session, Token, digest_of
from tocsin_server.http.auth import sessions as module
from tocsin_server.http.auth.sessions import COOKIE, Ended, Sessions

HOUR_S = 3600


def token(secret: str = "s3cret") -> Token:
    return Token("t_1", "me", Scope.READ, "", digest_of(secret), 0)


def made(key: bytes = b"key", folder: Path = Path("/nowhere")) -> Sessions:
    return Sessions(key, HOUR_S, Ended(folder / "ended"))


def opens(sessions: Sessions, cookie: str, now_s: float = 1.0, secret: str = "s3cret") -> bool:
    found = sessions.read(cookie, lambda _: token(secret), now_s)
    assert found is None or found[0] == token(secret)
    return found is not None


def test_a_session_ends_after_its_lifetime() -> None:
    """A cookie is valid until its expiry and not a second longer."""
    cookie = made().issue(token(), 1000.0)
    assert opens(made(), cookie, 1000.0 + HOUR_S - 1)
    assert not opens(made(), cookie, 1000.0 + HOUR_S)


def test_a_session_ends_with_the_tokens_secret_and_with_the_key() -> None:
    """A renewed token, or another server's key, makes it invalid."""
    cookie = made().issue(token(), 0.0)
    assert not opens(made(), cookie, secret="new")
    assert not opens(made(b"theirs"), cookie)


@given(st.text(max_size=200), st.integers(0, 150), st.characters())
def test_no_altered_cookie_is_a_session(noise: str, place: int, character: str) -> None:
    """Only the exact cookie that was issued is accepted."""
    sessions = made()
    real = sessions.issue(token(), 0.0)
    altered = real[: place % len(real)] + character + real[place % len(real) + 1 :]
    for cookie in {noise, altered} - {real}:
        assert not opens(sessions, cookie)


def test_an_ended_session_stays_ended(tmp_path: Path) -> None:
    """Also after a restart; another session of the same token continues."""
    ended = Ended(tmp_path / "ended")
    sessions = Sessions(b"key", HOUR_S, ended)
    one, other = (sessions.issue(token(), 0.0) for _ in range(2))
    found = sessions.read(one, lambda _: token(), 1.0)
    assert found is not None
    ended.add(found[1], 1.0)
    for each in (sessions, made(folder=tmp_path)):
        assert not opens(each, one)
        assert opens(each, other)
    assert (tmp_path / "ended").stat().st_mode & 0o077 == 0


def test_ended_sessions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, all sessions of that token that started before then are ended, rather than
    restored."""
    monkeypatch.setattr(module, "MOST_ENDED", 3)
    ended = Ended(tmp_path / "ended")
    many = [Session("t_1", f"s{no}", 10 + no, 5000) for no in range(6)]
    for session in many:
        ended.add(session, 20.0)
    assert all(ended.holds(session) for session in many)
    assert len((tmp_path / "ended").read_text()) < 200
    assert ended.holds(Session("t_1", "other", 20, 5000))
    assert not ended.holds(Session("t_1", "later", 21, 5000))
    assert not ended.holds(Session("t_2", "other", 20, 5000))


def test_expired_sessions_are_dropped(tmp_path: Path) -> None:
    """The cookies of expired sessions are invalid in any case."""
    ended = Ended(tmp_path / "ended")
    ended.add(Session("t_1", "old", 0, 10), 5.0)
    ended.add(Session("t_1", "new", 0, 100), 50.0)
    assert "old" not in (tmp_path / "ended").read_text()


def test_a_file_that_cannot_be_read_ends_every_session(tmp_path: Path) -> None:
    """Instead of restoring those that were ended; a later login works."""
    (tmp_path / "ended").write_text('{"ended": [')
    sessions = made(folder=tmp_path)
    assert not opens(sessions, sessions.issue(token(), time.time()), time.time())
    assert opens(sessions, sessions.issue(token(), time.time() + 2), time.time())


def test_a_full_disk_ends_the_session_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """Until the next start, and the log reports it."""
    ended = Ended(Path("/nowhere/ended"))
    session = Session("t_1", "s", 0, 100)
    ended.add(session, 1.0)
    assert ended.holds(session)
    assert "only until the next start" in caplog.text


@contextmanager
def logged_in(server: Any) -> Iterator[httpx.Client]:
    """A browser with a session."""
    with httpx.Client(base_url=server.base, headers={"origin": server.base}) as browser:
        assert browser.get("/login", params={"token": server.token}).status_code == 303
        yield browser


def cookie_of(browser: httpx.Client) -> dict[str, str]:
    """Return the header that a copy of its cookie would send."""
    return {"cookie": f"{COOKIE}={browser.cookies[COOKIE]}"}


def read_to_the_end(page: ClientConnection) -> int | None:
    """Read a live socket until the server closes it; return the close code."""
    with suppress(ConnectionClosed):
        while True:
            page.recv(timeout=60)
    return page.close_code


def test_logging_out_ends_copies_of_the_cookie(server: Any) -> None:
    """On the real server, a copied cookie is invalid and the session's live socket closes; others stay."""
    with logged_in(server) as browser, logged_in(server) as other:
        copy = cookie_of(browser)
        with connect(server.base.replace("http", "ws", 1) + "/api/v1/live", additional_headers=copy) as page:
            page.recv(timeout=60)
            browser.post("/logout")
            assert read_to_the_end(page) == 4401
        assert httpx.get(f"{server.base}/api/v1/session", headers=copy).status_code == 401
        assert other.get("/api/v1/session").status_code == 200


def test_logging_out_holds_over_a_restart(run_server: Callable[..., Any]) -> None:
    """The signing key stays, and so do the ended sessions."""
    server = run_server()
    with logged_in(server) as browser:
        copy = cookie_of(browser)
        assert browser.post("/logout").status_code == 303
    server.stop()
    again = run_server()
    assert httpx.get(f"{again.base}/api/v1/session", headers=copy).status_code == 401


def test_logging_out_without_a_session_is_harmless(server: Any) -> None:
    """Logging out twice, with a forged cookie or with none has no effect."""
    with httpx.Client(base_url=server.base, headers={"origin": server.base}) as browser:
        for cookie in ("", f"{COOKIE}=forged"):
            assert browser.post("/logout", headers={"cookie": cookie}).status_code == 303
