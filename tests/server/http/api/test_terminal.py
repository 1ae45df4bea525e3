"""``tocsin runs``, ``alerts``, ``incidents`` and ``report`` with a real server."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_mcp import token
from tocsin.cli.commands import main

NAN = {"loss": [2.0] * 30 + [math.nan] * 10, "grad_norm": [1.0] * 40}
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(server: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``command("runs", "list")``: exit status, output and errors."""
    monkeypatch.setenv("TOCSIN_URL", server.base)
    monkeypatch.setenv("TOCSIN_TOKEN", token(server, "read"))

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def diverged(trainer: Callable[..., Trainer]) -> Trainer:
    """A run with an open incident."""
    run = trainer(name="diverged in terminal", config={"lr": 0.5})
    run.records(NAN)
    return run


def test_runs_are_listed_by_filter(diverged: Trainer, command: Command) -> None:
    status, out, _ = command("runs", "list", f"id:{diverged.run}")
    head, row = out.splitlines()
    assert (status, head.split()[:3]) == (0, ["ID", "NAME", "PROJECT"])
    assert row.split("  ")[0] == diverged.run
    assert "nonfinite-loss since step 30" in row


def test_json_keeps_what_is_not_finite(diverged: Trainer, command: Command) -> None:
    _, out, _ = command("runs", "list", f"id:{diverged.run}", "--json")
    (run,) = json.loads(out)
    assert (run["id"], run["last"]["loss"], run["reason"]["onset_step"]) == (diverged.run, "NaN", 30)


def test_a_run_is_shown_with_its_incident(diverged: Trainer, command: Command) -> None:
    _, out, _ = command("runs", "show", diverged.run)
    for part in ("loss NaN", "lr = 0.5", "critical, open since step 30", "Likely cause: ", "First action: "):
        assert part in out


def test_the_address_of_a_run_is_printed(server: Any, diverged: Trainer, command: Command) -> None:
    address = f"{server.base}/runs/{diverged.run}"
    assert command("runs", "open", diverged.run, "--print")[1] == f"{address}\n"
    assert json.loads(command("runs", "open", diverged.run, "--json")[1]) == {"url": address}


def test_an_unknown_run_is_one_line_with_similar_names(diverged: Trainer, command: Command) -> None:
    status, out, err = command("runs", "show", "divreged in terminal")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "Did you mean" in err


def test_a_writer_acknowledges_an_incident(server: Any, diverged: Trainer, command: Command) -> None:
    (incident,) = json.loads(command("incidents", "--run", diverged.run, "--json")[1])
    refused = command("alerts", "ack", incident["id"])
    assert (refused[0], "--scope write" in refused[2]) == (2, True)
    status, out, _ = command(
        "alerts", "ack", incident["id"], "--note", "mine", "--token", token(server, "write")
    )
    assert (status, out) == (0, f"Acknowledged incident {incident['id']}.\n")
    assert server.get(f"/incidents/{incident['id']}")["ack"]["note"] == "mine"
    assert "  yes  " in command("incidents", "--run", diverged.run)[1]


def test_an_unknown_incident_gets_similar_ids(server: Any, diverged: Trainer, command: Command) -> None:
    status, _, err = command("alerts", "ack", diverged.run, "--token", token(server, "write"))
    assert (status, f"Did you mean {diverged.run}." in err) == (2, True)


def test_alerts_are_listed_by_severity(diverged: Trainer, command: Command) -> None:
    listed = json.loads(
        command("alerts", "list", "--run", diverged.run, "--severity", "critical", "--json")[1]
    )
    assert [one["rule"] for one in listed] == ["nonfinite-loss"]
    assert command("alerts", "list", "--run", diverged.run, "--severity", "info")[1] == "No alerts.\n"


def test_a_report_is_written(diverged: Trainer, command: Command, tmp_path: Path) -> None:
    place = tmp_path / "report.html"
    assert command("report", diverged.run, "-o", str(place)) == (0, f"{place}\n", "")
    assert "diverged in terminal" in place.read_text("utf-8")


def test_an_export_names_its_files(diverged: Trainer, command: Command, tmp_path: Path) -> None:
    diverged.finish()
    arguments = ("export", str(tmp_path), "--filter", f"id:{diverged.run}", "--json")
    found = json.loads(command(*arguments)[1])
    (run,) = found["runs"]
    assert (Path(run["path"]).exists(), Path(found["views"]).exists(), run["written"]) == (True, True, True)
    assert (run["id"], run["name"]) == (diverged.run, "diverged in terminal")


def test_names_cannot_steer_the_terminal(trainer: Callable[..., Trainer], command: Command) -> None:
    run = trainer(config={"x": "\x1b[31mred\nline"})
    run.records({"loss": [1.0]})
    out = command("runs", "show", run.run)[1]
    assert "\x1b" not in out
    assert "x = \\x1b[31mred\\nline" in out


def test_a_login_is_checked_and_stored_for_that_server_only(
    server: Any, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TOCSIN_TOKEN")
    place = tmp_path / "tocsin" / "login.json"
    wrong = command("login", server.base, "--token", "tcn_wrong")
    assert (wrong[0], "401" in wrong[2], place.exists()) == (2, True, False)
    status, out, _ = command("login", server.base, "--token", token(server, "read"))
    assert (status, "with scope read" in out, place.stat().st_mode & 0o777) == (0, True, 0o600)
    monkeypatch.delenv("TOCSIN_URL")
    assert command("runs", "list", "--limit", "1")[0] == 0
    elsewhere = server.base.replace("127.0.0.1", "localhost")
    assert command("runs", "list", "--url", elsewhere)[0] == 2
    logged_in = json.loads(command("login", server.base, "--token", token(server, "read"), "--json")[1])
    assert logged_in == {"url": server.base, "scope": "read", "path": str(place)}
    assert command("logout")[1] == f"Deleted {place}.\n"
    assert not place.exists()


def test_a_login_takes_the_server_as_the_other_commands_do(
    server: Any, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TOCSIN_URL")
    known = ("--token", token(server, "read"))
    assert command("login", "--url", server.base, *known)[0] == 0
    assert command("login", server.base, "--url", server.base, *known)[0] == 0
    assert "given twice" in command("login", "http://127.0.0.1:9", "--url", server.base, *known)[2]
