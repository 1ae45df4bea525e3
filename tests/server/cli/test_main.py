"""The command line, as a user runs it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pty
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from typer.testing import CliRunner
from websockets.sync.client import connect

from tests import fork_server
from tests.server.conftest import error_text
from tocsin.protocol import PATH, Ack, Hello, Records, WriterId, decode_server, encode, little_endian
from tocsin_server.cli.main import app
from tocsin_server.store.audit import listed
from tocsin_server.store.database import open_database

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def serving(tmp_path: Path) -> Run:
    """``serving("--host", "0.0.0.0")``: a server that is expected not to start, as a process."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        command = ["serve", "--port", "0", *arguments]
        env = os.environ | {"TOCSIN_DATA_DIR": str(tmp_path)} | environ
        with tempfile.TemporaryFile() as errors:
            with fork_server.start(*command, stderr=errors.fileno(), env=env, cwd=tmp_path) as process:
                assert process.stdout is not None
                printed, status = process.stdout.read(), process.wait(120)
            errors.seek(0)
            return subprocess.CompletedProcess(command, status, printed.decode(), errors.read().decode())

    return run


@pytest.mark.parametrize(
    "command",
    ["serve", "demo", "migrate", "export", "token", "token create", "token list", "token revoke", ""],
)
def test_every_command_has_help(command: str) -> None:
    """One line, and an explanation of every option."""
    done = CliRunner().invoke(app, [*command.split(), "--help"])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) > 5


def test_the_version(tocsin: Run) -> None:
    """That of the distribution."""
    assert tocsin("--version").stdout.strip() == version("tocsin-server")


@pytest.mark.parametrize("command", ["--version", "--help", "token list", "rules export"])
def test_a_reader_that_has_read_enough_ends_it_silently(command: str, tmp_path: Path) -> None:
    """As ``| head`` does: exit status 0, as of ``tocsin``."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "tocsin_server", *command.split()]
    done = subprocess.run(
        line,
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environ | {"TOCSIN_DATA_DIR": str(tmp_path)},
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_made_token_is_printed_alone(tocsin: Run) -> None:
    """For use in scripts; explanations go to standard error."""
    done = tocsin("token", "create", "ci", "--scope", "ingest", "--project", "deblur")
    assert done.stdout.startswith("tcn_")
    assert len(done.stdout.splitlines()) == 1
    assert "not shown again" in done.stderr


def test_creating_and_revoking_tokens_is_audited(tocsin: Run, tmp_path: Path) -> None:
    """The audit log has the user of the command line and the token's name, never its secret."""
    secret = tocsin("token", "create", "ci", "--scope", "read").stdout.strip()
    token_id = tocsin("token", "list").stdout.splitlines()[-1].split()[0]
    tocsin("token", "revoke", token_id)
    database = open_database(f"sqlite:///{tmp_path / 'tocsin.db'}")
    with database.reader.connect() as connection:
        acts = listed(connection)
    database.close()
    assert [(act.action, act.subject) for act in acts] == [
        ("token.revoke", token_id),
        ("token.create", token_id),
    ]
    assert all(act.actor.endswith("(command line)") for act in acts)
    assert secret not in str(acts)


def test_tokens_are_listed_without_secrets(tocsin: Run) -> None:
    """The list has their state and project."""
    secret = tocsin("token", "create", "ci", "--scope", "ingest", "--project", "deblur").stdout.strip()
    listed = tocsin("token", "list").stdout
    line = next(line for line in listed.splitlines() if line.endswith("ci"))
    assert [line.split()[n] for n in (1, 3, 4, 5)] == ["ingest", "in", "force", "deblur"]
    assert secret not in listed


def test_tokens_are_json_for_scripts(tocsin: Run) -> None:
    """The secret is only in the answer that creates one. Tokens in files have no time."""
    made = json.loads(
        tocsin("token", "create", "ci", "--scope", "ingest", "--project", "deblur", "--json").stdout
    )
    assert made.pop("token").startswith("tcn_")
    listed = json.loads(tocsin("token", "list", "--json").stdout)
    assert listed[-1] == made
    assert (made["scope"], made["project"], made["revoked_ms"]) == ("ingest", "deblur", None)
    assert [(one["id"], one["created_ms"]) for one in listed[:-1]] == [("admin", None), ("trainer", None)]


def test_a_running_server_knows_new_and_revoked_tokens(
    tocsin: Run, start_server: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    """A running server accepts a new token immediately, and rejects a revoked one within two seconds."""
    server = start_server()
    secret = tocsin("token", "create", "me", "--scope", "read").stdout.strip()
    ask: dict[str, Any] = {
        "url": f"{server.base}/api/v1/session",
        "headers": {"authorization": f"Bearer {secret}"},
    }
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
    ask: dict[str, Any] = {"url": f"{server.base}/api/v1/session", "headers": server.headers}
    eventually(lambda: httpx.get(**ask).status_code == 401, "the old link to end")


def test_impossible_requests_are_reported(tocsin: Run) -> None:
    """Each invalid name, project or database gives one message and exit status 2."""
    assert "token list" in error_text(tocsin("token", "revoke", "t_none"))
    assert "no project for a token of scope read" in error_text(
        tocsin("token", "create", "x", "--scope", "read", "--project", "p")
    )
    assert "token create x --scope ingest" in error_text(tocsin("token", "create", "x"))
    assert "There is no run" in error_text(tocsin("export", "nothing"))
    assert "expected sqlite:///" in error_text(tocsin("migrate", "--database-url", "mysql://x/y"))
    assert "Use sqlite:///" in error_text(tocsin("migrate", "--database-url", "postgresql://host:port/y"))
    assert "tocsin.toml" in error_text(tocsin("token", "list", "--config", "tocsin.toml"))


def test_a_failed_start_has_a_reason(serving: Run, tmp_path: Path) -> None:
    """Settings, database, directory, port: no traceback of uvicorn or SQLAlchemy."""
    (tmp_path / "file").touch()
    assert "setting login_attempts" in error_text(serving(TOCSIN_LOGIN_ATTEMPTS="many"))
    for url in ("hidden@host/nonsense", "postgresql://me:hidden@host:port/name"):
        reported = error_text(serving("--database-url", url))
        assert "sqlite:///FILE" in reported
        assert "hidden" not in reported
    assert "file" in error_text(serving("--data-dir", str(tmp_path / "file" / "data")))
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert "Cannot listen on" in error_text(serving("--port", str(other.getsockname()[1])))


def test_other_machines_are_let_in_only_with_tokens(tocsin: Run, serving: Run) -> None:
    """--host 0.0.0.0 without tokens prints the commands that make them, and with one of them the other."""
    refused = error_text(serving("--host", "0.0.0.0"))
    assert "token create trainers --scope ingest" in refused
    assert "token create me --scope admin" in refused
    tocsin("token", "create", "training_processes", "--scope", "ingest")
    refused = error_text(serving("--host", "0.0.0.0"))
    assert "training_processes" not in refused
    assert "token create me" in refused


def test_a_second_server_on_the_same_data_is_rejected(serving: Run, start_server: Callable[..., Any]) -> None:
    """A second server would use the first one's record numbers."""
    start_server()
    assert "is in use by another tocsin-server" in error_text(serving())


def test_an_export_holds_every_record(tocsin: Run, start_server: Callable[..., Any], tmp_path: Path) -> None:
    """A run is exported by its name, to a file or to standard output, while the server runs."""
    server = start_server()
    report(server, [math.nan, math.inf, -0.0])
    tocsin("export", "exported", "--output", "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["values"]["loss"] for line in lines] == ["NaN", "Infinity", -0.0]
    done = tocsin("export", "r_exported", "--format", "csv")
    assert [line.split(",")[-1] for line in done.stdout.splitlines()] == ["loss", "nan", "inf", "-0.0"]
    assert done.stderr == "3 records\n"


def report(server: Any, losses: list[float]) -> None:
    """Report these losses as a client, and wait until they are durable."""
    now_ns = time.time_ns()
    who = WriterId("a", 0, "boot", 1, now_ns)
    token = server.client_token
    hello = Hello(1, token, "p", "exported", "r_exported", who, 1, "node", now_ns)
    n = len(losses)
    times = little_endian("q", [now_ns] * n)
    records = Records(0, n, little_endian("q", range(n)), times, {"loss": little_endian("d", losses)})
    with connect(server.base.replace("http", "ws", 1) + PATH) as socket:
        for message in (hello, records):
            socket.send(encode(message))
        durable = -1
        while durable < n - 1:
            answer = decode_server(cast(bytes, socket.recv(30)))
            durable = answer.seq if isinstance(answer, Ack) else durable


def test_migrate_is_quiet_and_repeatable(tocsin: Run) -> None:
    """A second migration prints the same and changes nothing."""
    for _ in range(2):
        assert "newest schema" in tocsin("migrate").stdout


OPENING = [
    ["serve", "--port", "0"],
    ["migrate"],
    ["migrate", "--rehearse"],
    ["token", "list"],
    ["token", "create", "me", "--scope", "read"],
    ["export", "r1"],
    ["snapshot", "r1.a.1", "out.json"],
    ["delete", "r1", "--yes"],
    ["prune"],
    ["backup", "copy.db"],
    ["report", "r1", "out.html"],
    ["rules", "export"],
    ["backtest", "loss-spike", "--run", "r1"],
]


@pytest.fixture
def newer(tocsin: Run, tmp_path: Path) -> Path:
    """A database that was upgraded by a newer version."""
    assert tocsin("migrate").returncode == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "tocsin.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    return tmp_path / "tocsin.db"


@pytest.mark.parametrize("command", OPENING, ids=" ".join)
def test_a_newer_schema_is_reported(tocsin: Run, newer: Path, command: list[str]) -> None:
    """For every command that opens the database: revision, reason and remedy; no traceback."""
    assert "9999" in error_text(tocsin(*command))


def test_a_wrong_choice_is_named_with_the_possible_ones(tocsin: Run) -> None:
    done = tocsin("token", "create", "ci", "--scope", "wrong")
    *_, line = done.stderr.splitlines()
    assert line.endswith("'--scope': 'wrong' is not one of 'ingest', 'read', 'write', 'admin'.")


def test_token_create_asks_for_the_scope_on_a_terminal(tmp_path: Path) -> None:
    """A wrong answer is asked again."""
    ours, theirs = pty.openpty()
    os.write(ours, b"reed\nread\n")
    command = [sys.executable, "-m", "tocsin_server", "token", "create", "me", "--data-dir", str(tmp_path)]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60, check=False)
    os.close(ours)
    os.close(theirs)
    assert (done.returncode, done.stdout.startswith("tcn_")) == (0, True), done.stderr
    assert "There is no scope 'reed'." in done.stderr
    assert "(read) created" in done.stderr
