"""A token of one project cannot write to another project's runs, however they are named."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from tocsin.protocol import Event, Finish, Refused
from tocsin_server.core.permissions import Scope, Token, digest_of
from tocsin_server.http import ingest
from tocsin_server.store import tables
from tocsin_server.store.tokens import add_token, revoke_token

Start = Callable[..., Any]
Dial = Callable[..., Any]
on_both = pytest.mark.usefixtures("url")

THEIRS = {"project": "theirs", "name": "secret", "world_size": 2, "rendezvous": "node:1", "config": {"lr": 1}}
MINE = {"project": "mine", "name": "secret", "world_size": 2, "rendezvous": "node:1", "config": {"lr": 2}}
WAYS: dict[str, dict[str, Any]] = {
    "the same writer again": {},
    "another rank of its attempt": {"rank": 1},
    "a further attempt": {"attempt": "second"},
    "a launch": {"attempt": "second", "launch": "slurm.7", "restarts": 1},
    "an imported log": {"attempt": "import", "config": {"imported": True}, "world_size": 1},
}


def bind(server: Any, project: str) -> str:
    """Create an ingest token for one project; return its secret."""
    token = Token(f"t_{project}", project, Scope.INGEST, project, digest_of(f"secret-{project}"), 0)
    server.services.writer.call(lambda connection: add_token(connection, token)).result(10)
    return f"secret-{project}"


def everything(server: Any) -> list[Any]:
    """Return every row of the tables that a handshake writes."""
    with server.services.database.reader.connect() as connection:
        of = (tables.project, tables.run, tables.attempt, tables.writer)
        return [row for table in of for row in connection.execute(select(table)).all()]


def refusal(dial: Dial, server: Any, hello: Any) -> Refused:
    """Return the error with which a handshake is rejected (close code 4403)."""
    client = dial(server.base)
    client.send(hello)
    assert client.ended() == 4403
    (reported,) = client.received
    assert isinstance(reported, Refused)
    return reported


@on_both
@pytest.mark.parametrize("ended", [False, True], ids=["running", "finished"])
def test_a_run_of_another_project_cannot_be_resumed(
    run_server: Start, dial: Dial, make_hello: Any, ended: bool
) -> None:
    """No field of the handshake gives access; the error reveals nothing about the run."""
    server = run_server()
    theirs, mine = bind(server, "theirs"), bind(server, "mine")
    owner = dial(server.base, "r1", theirs, **THEIRS)
    owner.acked(owner.train([0], loss=[1.0]))
    if ended:
        owner.send(Finish(0, time.time_ns(), records=1))
        owner.acked(0, 0)
    before = everything(server)
    for way in WAYS.values():
        reported = refusal(dial, server, make_hello("r1", mine, **(MINE | way)))
        assert reported.code == "token-scope"
        assert not any(word in f"{reported.expected} {reported.got}" for word in ("theirs", "secret", "r1"))
    assert everything(server) == before


@on_both
def test_ranks_join_runs_of_their_own_project_only(run_server: Start, dial: Dial, make_hello: Any) -> None:
    """Equal name, master address and attempt key: two projects, two runs."""
    server = run_server()
    theirs, mine = bind(server, "theirs"), bind(server, "mine")
    first = dial(server.base, "", theirs, **THEIRS).welcome.run
    assert dial(server.base, "", theirs, **THEIRS, rank=1).welcome.run == first
    assert dial(server.base, "", theirs, **THEIRS).welcome.run == first
    other = [dial(server.base, "", mine, **MINE, rank=rank).welcome.run for rank in (0, 1)]
    assert first not in other
    assert len(set(other)) == 1


@on_both
@pytest.mark.parametrize("secret", ["admin", "unbound", "theirs"])
def test_resuming_needs_a_token_of_the_project(run_server: Start, dial: Dial, secret: str) -> None:
    """A token of its project, an unbound one and an admin's."""
    server = run_server()
    owner = dial(server.base, "r1", bind(server, "theirs"), **THEIRS)
    owner.acked(owner.train([0], loss=[1.0]))
    given = {"admin": server.token, "unbound": bind(server, ""), "theirs": "secret-theirs"}[secret]
    assert dial(server.base, "r1", given, **THEIRS).welcome.seq == 0


def test_a_response_to_another_projects_request_is_ignored(run_server: Start, dial: Dial) -> None:
    """A guessed request number of another project does not reach that project's run."""
    server = run_server()
    owner = dial(server.base, "r1", bind(server, "theirs"), project="theirs")
    other = dial(server.base, "r2", bind(server, "mine"), project="mine")
    other.send(Event(0, "action", time.time_ns(), data={"id": "q1", "run": "r1", "outcome": "dropped"}))
    other.acked(events=0)
    owner.acked(owner.train([0], loss=[1.0]))
    assert server.services.reader.events("r1").items == []


def test_a_bound_token_opens_nothing_else(run_server: Start) -> None:
    """No page, no query, no metrics, no live socket."""
    server = run_server()
    headers = {"authorization": f"Bearer {bind(server, 'mine')}"}
    with httpx.Client(base_url=server.base, headers=headers) as client:
        for path, verbs in client.get("/api/v1/openapi.json").json()["paths"].items():
            for verb in set(verbs) - {"parameters"}:
                status = client.request(verb, path).status_code
                assert status == 403 or path.endswith(("/health", "/ready")), (verb, path, status)
        assert client.get("/metrics").status_code == 403
        assert client.get("/login", params={"token": "secret-mine"}).status_code == 403


def test_a_revoked_token_ends_its_connections(
    run_server: Start, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client cannot continue to write with it."""
    monkeypatch.setattr(ingest, "LOOK_S", 0.05)
    server = run_server()
    client = dial(server.base, "r1", bind(server, "mine"), project="mine")
    server.services.writer.call(lambda connection: revoke_token(connection, "t_mine", 1)).result(10)
    assert client.ended() == 4401
    assert client.received[-1].code == "bad-token"


SPOOLS = """
import tocsin
run = tocsin.watch("mine", resume="sync", url="http://127.0.0.1:9", exit_timeout=0.1)
run.log({"loss": 9.0}, step=1)
run.finish()
"""
Command = Callable[..., str]


def cli(server: Any, project: str, folder: Path) -> Command:
    """Return a function that runs the hook's commands with an ingest token of ``project``; it returns the
    output."""
    body = {"name": project, "scope": "ingest", "project": project}
    made = httpx.post(f"{server.base}/api/v1/tokens", json=body, headers=server.headers)
    own = {"TOCSIN_SPOOL_DIR": str(folder), "TOCSIN_TOKEN": made.json()["token"], "TOCSIN_URL": server.base}

    def run(*line: str) -> str:
        whole = [sys.executable, *line]
        done = subprocess.run(whole, env=own, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("way", ["sync", "tail", "import"])
def test_no_command_adds_to_a_foreign_run(server: Any, dial: Dial, tmp_path: Path, way: str) -> None:
    """The real commands and a real server: the error has the reason, and the spool stays on disk."""
    project, spool, log = f"theirs-{way}", tmp_path / "spool", tmp_path / "log.csv"
    log.write_text("step,loss\n0,1.0\n1,2.0\n")
    theirs, mine = cli(server, project, spool), cli(server, "mine", spool)
    if way == "import":
        assert "2 records" in theirs("-m", "tocsin.cli", "import", str(log), "--project", project)
        printed = mine("-m", "tocsin.cli", "import", str(log), "--project", "mine")
    else:
        owner = dial(server.base, way, server.token, project=project)
        owner.acked(owner.train([1], loss=[2.0]))
    if way == "tail":
        place = ("--project", "mine", "--run", way, "--idle-exit", "0")
        printed = mine("-m", "tocsin.cli", "tail", str(log), *place)
    if way == "sync":
        mine("-c", SPOOLS)
        printed = mine("-m", "tocsin.cli", "sync", "--url", server.base)
        assert list(spool.rglob("*.seg"))
    assert "token-scope" in printed
    (run,) = server.get("/runs", project=project)["items"]
    assert (run["attempts"], run["last"]["loss"]) == (1, 2.0)
