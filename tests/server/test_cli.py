"""The command line, run as a person runs it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tocsin_server.cli import app

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def tocsin(tmp_path: Path) -> Run:
    """``tocsin("token", "list")``: the command on a data directory of its own."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tocsin_server", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"TOCSIN_DATA_DIR": str(tmp_path), "COLUMNS": "200"} | environ,
        )

    return run


def said(done: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that could not do its work: one, and no traceback."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "command",
    ["serve", "demo", "migrate", "export", "token", "token create", "token list", "token revoke", ""],
)
def test_every_command_has_help(command: str) -> None:
    """A sentence, and an explanation of every option."""
    done = CliRunner().invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) > 5


def test_the_version(tocsin: Run) -> None:
    """As the distribution has it."""
    assert tocsin("--version").stdout.strip() == version("tocsin-server")


def test_a_made_token_is_printed_alone(tocsin: Run) -> None:
    """So that a script can take it; the words about it go to standard error."""
    done = tocsin("token", "create", "ci", "--scope", "ingest", "--project", "deblur")
    assert done.stdout.startswith("tcn_")
    assert len(done.stdout.splitlines()) == 1
    assert "not shown again" in done.stderr


def test_tokens_are_listed_without_secrets(tocsin: Run) -> None:
    """With their state and project."""
    secret = tocsin("token", "create", "ci", "--scope", "ingest", "--project", "deblur").stdout.strip()
    listed = tocsin("token", "list").stdout
    line = next(line for line in listed.splitlines() if line.endswith("ci"))
    assert [line.split()[n] for n in (1, 3, 4, 5)] == ["ingest", "in", "force", "deblur"]
    assert secret not in listed


def test_a_running_server_knows_new_and_revoked_tokens(
    tocsin: Run, start_server: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    """At once the one, within two seconds the other."""
    server = start_server()
    secret = tocsin("token", "create", "me", "--scope", "read").stdout.strip()
    ask = {"url": f"{server.base}/api/v1/session", "headers": {"authorization": f"Bearer {secret}"}}
    assert httpx.get(**ask).json()["name"] == "me"
    token_id = next(
        line for line in tocsin("token", "list").stdout.splitlines() if line.endswith("me")
    ).split()[0]
    assert tocsin("token", "revoke", token_id).returncode == 0
    eventually(lambda: httpx.get(**ask).status_code == 401, "the token to be refused")


def test_the_login_link_can_be_renewed(
    tocsin: Run, start_server: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    """The old link ends while the server runs."""
    server = start_server()
    assert tocsin("token", "revoke", "admin").returncode == 0
    ask = {"url": f"{server.base}/api/v1/session", "headers": server.headers}
    eventually(lambda: httpx.get(**ask).status_code == 401, "the old link to end")


def test_what_cannot_be_done_is_said(tocsin: Run) -> None:
    """Unknown names, unfit projects, settings and databases: one sentence each, exit status 2."""
    assert "token list" in said(tocsin("token", "revoke", "t_none"))
    assert "none for a token of scope read" in said(tocsin("token", "create", "x", "--project", "p"))
    assert "expected the id or the name of one run" in said(tocsin("export", "nothing"))
    assert "setting port" in said(tocsin("serve", TOCSIN_PORT="http"))
    assert "sqlite:///FILE" in said(tocsin("serve", "--port", "0", "--database-url", "nonsense"))
    assert "sqlite" in said(tocsin("migrate", "--database-url", "mysql://x/y"))


def test_a_taken_port_is_said(tocsin: Run) -> None:
    """Not a traceback of uvicorn."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert "expected a free port" in said(tocsin("serve", "--port", str(other.getsockname()[1])))


def test_other_machines_are_let_in_only_with_tokens(tocsin: Run) -> None:
    """--host 0.0.0.0 without tokens prints the commands that make them, and with one of them the other."""
    refused = said(tocsin("serve", "--host", "0.0.0.0", "--port", "0"))
    assert "token create trainers --scope ingest" in refused
    assert "token create me --scope admin" in refused
    tocsin("token", "create", "trainers", "--scope", "ingest")
    refused = said(tocsin("serve", "--host", "0.0.0.0", "--port", "0"))
    assert "trainers" not in refused
    assert "token create me" in refused


def test_a_second_server_on_the_same_data_is_refused(tocsin: Run, start_server: Callable[..., Any]) -> None:
    """It would number the other one's records."""
    start_server()
    assert "no other server" in said(tocsin("serve", "--port", "0"))


def test_a_read_only_directory_is_said(tocsin: Run, tmp_path: Path) -> None:
    """The path that cannot be written, not a traceback."""
    (tmp_path / "file").touch()
    assert "file" in said(tocsin("serve", "--port", "0", "--data-dir", str(tmp_path / "file" / "data")))


def test_migrate_is_quiet_and_repeatable(tocsin: Run) -> None:
    """Twice the same."""
    for _ in range(2):
        assert "newest schema" in tocsin("migrate").stdout
