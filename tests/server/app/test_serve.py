"""Running the server: port, data directory, startup message, and who may connect."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin_server.app.serve import address, listening, missing_tokens, prepare, sole_server, startup_message
from tocsin_server.core.errors import StartError
from tocsin_server.core.permissions import Scope, Token, digest_of
from tocsin_server.core.settings import Settings
from tocsin_server.http.auth.authentication import ADMIN


def token(scope: Scope, *, revoked_ns: int | None = None) -> Token:
    return Token("t", "n", scope, "", digest_of("s"), 0, revoked_ns)


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    """The error names the port and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = Settings(data_dir=tmp_path, port=other.getsockname()[1])
        with (
            pytest.raises(StartError, match=rf"Cannot listen on 127.0.0.1:{settings.port}: .*--port"),
            listening(settings),
        ):
            pass


def test_a_foreign_address_is_reported(tmp_path: Path) -> None:
    """If a host name does not resolve, the error names the host, not the port."""
    with (
        pytest.raises(StartError, match="host"),
        listening(Settings(data_dir=tmp_path, host="no.such.host.invalid")),
    ):
        pass


def test_two_servers_never_share_a_sqlite_file(tmp_path: Path) -> None:
    """The error of the second server names the file, which is free again once the first server has ended."""
    settings = Settings(data_dir=tmp_path)
    with (
        sole_server(settings),
        pytest.raises(StartError, match=r"tocsin\.db is in use by another tocsin-server \(process \d+ on "),
        sole_server(settings),
    ):
        pass
    with sole_server(settings):
        pass


@pytest.mark.parametrize("url", ["nonsense", "mysql://h/d", "sqlite://", "postgresql://127.0.0.1:1/none"])
def test_an_unusable_database_is_reported(tmp_path: Path, url: str) -> None:
    """A bad URL, or a database that is down, is reported without a traceback."""
    with pytest.raises(StartError, match="database"):
        prepare(Settings(data_dir=tmp_path, database_url=url))


def test_an_open_address_needs_two_tokens() -> None:
    """One for training processes and one for users; revoked tokens do not count."""
    assert len(missing_tokens([])) == 2
    assert missing_tokens([token(Scope.INGEST)]) == ["tocsin-server token create me --scope admin"]
    assert len(missing_tokens([token(Scope.INGEST, revoked_ns=1), token(Scope.READ)])) == 1
    assert missing_tokens([token(Scope.INGEST), token(Scope.READ)]) == []


def test_it_refuses_to_listen_to_others_without_tokens(tmp_path: Path) -> None:
    """The message contains the commands that create them."""
    with pytest.raises(StartError, match="token create trainers --scope ingest"):
        prepare(Settings(data_dir=tmp_path, host="0.0.0.0"))
    prepare(Settings(data_dir=tmp_path, host="0.0.0.0", allow_admin_link=True))


def test_an_open_server_prints_no_secret(tmp_path: Path) -> None:
    """The startup message may end up in a log that others read."""
    settings = Settings(data_dir=tmp_path, host="0.0.0.0")
    assert "tcn_" not in startup_message(settings, "http://node:1")
    assert ADMIN.secret(tmp_path) in startup_message(Settings(data_dir=tmp_path), "http://127.0.0.1:1")


def test_a_greeting_hides_the_databases_password(tmp_path: Path) -> None:
    """The URL is shown without it."""
    settings = Settings(data_dir=tmp_path, database_url="postgresql://me:hidden@db/tocsin")
    assert "hidden" not in startup_message(settings, "http://h:1")


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        ({"host": "127.0.0.1"}, "http://127.0.0.1:5"),
        ({"host": "::1"}, "http://[::1]:5"),
        ({"host": "0.0.0.0"}, f"http://{socket.gethostname()}:5"),
        ({"public_url": "https://tocsin.lab/"}, "https://tocsin.lab"),
    ],
)
def test_the_address_can_be_typed(tmp_path: Path, settings: dict[str, Any], base: str) -> None:
    """The address is printed as a user or a training process can reach it."""
    assert address(Settings(data_dir=tmp_path, **settings), 5) == base


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_in_order(start_server: Callable[..., Any], number: signal.Signals, tmp_path: Path) -> None:
    """Exit status 0, no errors in the output, and the database in one file."""
    server = start_server()
    assert httpx.get(f"{server.base}/api/v1/runs", headers=server.headers).status_code == 200
    assert server.stop(number) == 0
    assert "Traceback" not in server.text
    assert {file.name for file in tmp_path.glob("tocsin.db*")} == {"tocsin.db", "tocsin.db.lock"}


def test_the_link_works_over_restarts(start_server: Callable[..., Any]) -> None:
    """The same token and the same session work after a restart."""
    first = start_server()
    with httpx.Client() as browser:
        browser.get(f"{first.base}/login", params={"token": first.token})
        first.stop(signal.SIGKILL)
        again = start_server()
        assert (again.token, again.client_token) == (first.token, first.client_token)
        assert browser.get(f"{again.base}/api/v1/session").status_code == 200


def test_no_secret_reaches_the_log(start_server: Callable[..., Any], eventually: Callable[..., Any]) -> None:
    """The log contains neither the token of the login link nor that of a WebSocket's address."""
    server = start_server()
    httpx.get(f"{server.base}/login?token={server.token}&next=/x")
    httpx.get(f"{server.base}/api/v1/live?token={server.token}")
    eventually(lambda: server.text.count("tocsin.requests") == 2, "two lines")
    assert server.text.count(server.token) == 1


def test_what_it_writes_is_private(start_server: Callable[..., Any], tmp_path: Path) -> None:
    """Other users cannot read the configurations of trainings."""
    start_server()
    assert {
        path.name: path.stat().st_mode & 0o077 for path in tmp_path.iterdir() if path.stat().st_mode & 0o077
    } == {}
