"""Tokens, sessions and the secrets in the data directory."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection

from tocsin_server.core.permissions import ADMIN_ID, Scope, Token, digest_of
from tocsin_server.core.settings import Settings
from tocsin_server.http.auth.authentication import ADMIN, TRAINER, Auth, bearer, secret_file
from tocsin_server.http.auth.sessions import COOKIE

HOUR_S = 3600


def token(secret: str = "s3cret", *, scope: Scope = Scope.READ, revoked_ns: int | None = None) -> Token:
    return Token("t_1", "me", scope, "", digest_of(secret), 0, revoked_ns)


def auth_with(tmp_path: Path, *tokens: Token, host: str = "127.0.0.1", now_s: float = 0.0) -> Auth:
    return Auth(Settings(data_dir=tmp_path, host=host), lambda: tokens, clock=lambda: now_s)


def request(**headers: str) -> HTTPConnection:
    raw = [(name.encode(), text.encode("latin-1")) for name, text in headers.items()]
    return HTTPConnection(
        {"type": "http", "headers": raw, "scheme": "http", "path": "/", "query_string": b""}
    )


def test_a_token_names_its_bearer(tmp_path: Path) -> None:
    """A known secret gives its identity, an unknown one gives none."""
    auth = auth_with(tmp_path, token())
    found = auth.check_token("s3cret")
    assert found is not None
    assert (found.token_id, found.scope) == ("t_1", Scope.READ)
    assert auth.check_token("s3cret ") is None
    assert auth.check_token("") is None


def test_a_revoked_token_opens_nothing(tmp_path: Path) -> None:
    """Revoking ends the token and its sessions, and closes open sockets."""
    stored = [token()]
    auth = Auth(Settings(data_dir=tmp_path), lambda: stored)
    identity, cookie = auth.check_token("s3cret"), auth.issue_cookie(stored[0])
    assert identity is not None
    stored[0] = token(revoked_ns=1)
    auth.refresh()
    assert auth.check_token("s3cret") is None
    assert not auth.still_valid(identity)
    assert auth.session_of(request(cookie=f"{COOKIE}={cookie}")) is None


def test_unknown_tokens_cause_few_queries(tmp_path: Path) -> None:
    """A flood of them reads the tokens 20 times and then twice a second; a new token works meanwhile."""
    now, reads, stored = [0.0], [0], [token()]

    def load() -> list[Token]:
        reads[0] += 1
        return stored

    auth = Auth(Settings(data_dir=tmp_path), load, steady=lambda: now[0])
    before = reads[0]
    for no in range(1000):
        now[0] = no / 100
        assert auth.check_token(f"guess{no}") is None
    assert 38 <= reads[0] - before <= 40
    now[0], stored[0] = 11.0, token("new")
    assert auth.check_token("new") is not None


def test_a_renewed_token_ends_what_the_old_one_opened(tmp_path: Path) -> None:
    """Open sockets of the old secret are closed after the login link is renewed."""
    settings = Settings(data_dir=tmp_path)
    auth = Auth(settings, list)
    identity = auth.check_token(ADMIN.secret(tmp_path))
    assert identity is not None
    ADMIN.renew(tmp_path)
    auth.refresh()
    assert not auth.still_valid(identity)


def test_a_token_made_by_another_process_counts_at_once(tmp_path: Path) -> None:
    """For an unknown token, the database is read again before it is rejected."""
    stored: list[Token] = []
    auth = Auth(Settings(data_dir=tmp_path), lambda: stored)
    stored.append(token("fresh"))
    assert auth.check_token("fresh") is not None


def test_known_tokens_work_during_a_database_outage(tmp_path: Path) -> None:
    """If the database fails, known users stay logged in."""
    auth = auth_with(tmp_path, token())

    def away() -> list[Token]:
        raise OSError("database is away")

    auth._load = away
    auth.refresh()
    assert auth.check_token("s3cret") is not None


def test_a_bearer_token_precedes_the_cookie(tmp_path: Path) -> None:
    """A session does not replace a wrong bearer token."""
    auth = auth_with(tmp_path, token())
    cookie = f"{COOKIE}={auth.issue_cookie(token())}"
    assert auth.session_of(request(cookie=cookie)) is not None
    assert auth.session_of(request(cookie=cookie, authorization="Bearer wrong")) is None
    assert auth.session_of(request(authorization="bearer s3cret")) is not None


def test_only_bearer_headers_carry_tokens() -> None:
    """Credentials of another scheme are ignored."""
    assert bearer("Bearer  abc") == "abc"
    assert bearer("Basic abc") == ""


def test_the_admin_secret_is_kept_and_private(tmp_path: Path) -> None:
    """The login link stays the same after a restart, and only the owner can read it."""
    made = ADMIN.secret(tmp_path / "data")
    assert ADMIN.secret(tmp_path / "data") == made
    assert stat.S_IMODE((tmp_path / "data" / "admin-token").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["admin-token"]


def test_renewing_the_admin_secret_ends_the_old_link(tmp_path: Path) -> None:
    """The old login link grants no access."""
    old, auth = ADMIN.secret(tmp_path), auth_with(tmp_path)
    assert auth.check_token(old) is not None
    new = ADMIN.renew(tmp_path)
    auth.refresh()
    assert auth.check_token(old) is None
    assert auth.check_token(new) is not None


def test_an_empty_secret_file_is_filled(tmp_path: Path) -> None:
    """A file that is empty because of a full disk never gives an empty secret."""
    (tmp_path / "key").touch()
    assert secret_file(tmp_path / "key", lambda: "made") == "made"
    assert secret_file(tmp_path / "key", lambda: "other") == "made"


@pytest.mark.parametrize(("host", "counts"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)])
def test_file_tokens_count_on_loopback_only(tmp_path: Path, host: str, counts: bool) -> None:
    """On other addresses, only tokens that a user created are accepted."""
    auth = auth_with(tmp_path, host=host)
    assert (auth.check_token(ADMIN.secret(tmp_path)) is not None) is counts
    assert (auth.check_token(TRAINER.secret(tmp_path)) is not None) is counts


def test_the_admin_link_can_be_allowed_beyond_loopback(tmp_path: Path) -> None:
    """With allow_admin_link, the printed link is accepted from everywhere."""
    auth = Auth(Settings(data_dir=tmp_path, host="0.0.0.0", allow_admin_link=True), list)
    found = auth.check_token(ADMIN.secret(tmp_path))
    assert found is not None
    assert found.token_id == ADMIN_ID
