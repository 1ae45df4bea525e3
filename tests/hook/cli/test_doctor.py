"""``tocsin doctor``: one message for each problem between this machine and the server."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer, closed_port
from tests.hook.trainers import TOKEN, leave_behind
from tocsin.cli.commands import main


def lines_of(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return doctor's output, by check."""
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines() if line[:1] in "oFn"]
    return {row[1]: f"{row[0]} {row[2]}" for row in rows if len(row) == 3}


def test_doctor_finds_nothing_where_all_is_well(
    strict_server: IngestServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check is ok, the exit status 0, and the server has no new run."""
    assert main(["doctor", "--url", strict_server.url, "--token", TOKEN]) == 0
    lines = lines_of(capsys)
    assert list(lines) == [
        "hook",
        "address",
        "name",
        "connection",
        "server",
        "handshake",
        "spool",
        "torch",
        "signals",
    ]
    assert all(line.startswith("ok") for line in lines.values()), lines
    assert strict_server.writers == {}


def test_doctor_asks_for_the_project_of_the_environment(
    strict_server: IngestServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that is bound to this project is valid for no other."""
    monkeypatch.setenv("TOCSIN_PROJECT", "mine")
    main(["doctor", "--url", strict_server.url, "--token", TOKEN])
    assert "project 'mine'" in lines_of(capsys)["handshake"]


@pytest.mark.usefixtures("strict_server")
def test_doctor_says_when_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    """The address is valid, but nothing listens on the port."""
    assert main(["doctor", "--url", f"http://127.0.0.1:{closed_port()}"]) == 1
    lines = lines_of(capsys)
    assert "cannot connect to 127.0.0.1" in lines["connection"]
    assert "`tocsin-server serve --port " in lines["connection"]
    assert "handshake" not in lines
    assert lines["spool"].startswith("ok")


@pytest.mark.parametrize(
    ("url", "check", "words"),
    [
        ("lab", "address", "expected something like http://host:8321, got 'lab'"),
        ("http://no-such-host.invalid", "name", "the name no-such-host.invalid cannot be resolved"),
    ],
)
def test_doctor_says_what_is_wrong_with_the_address(
    url: str, check: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from the environment as the hook does."""
    monkeypatch.setenv("TOCSIN_URL", url)
    assert main(["doctor"]) == 1
    assert words in lines_of(capsys)[check]


@pytest.mark.parametrize(
    ("arguments", "words"), [([], "Set TOCSIN_TOKEN"), (["--token", "tk_bad"], "bad-token")]
)
def test_doctor_distinguishes_a_bad_token_from_none(
    strict_server: IngestServer, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the server's words, with how to create a token."""
    assert main(["doctor", "--url", strict_server.url, *arguments]) == 1
    handshake = lines_of(capsys)["handshake"]
    assert words in handshake
    assert "`tocsin-server token create trainers --scope ingest`" in handshake


def test_doctor_knows_another_service_on_the_port(
    strict_server: IngestServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another web server."""
    strict_server.health = "<html>It works!</html>"
    assert main(["doctor", "--url", strict_server.url]) == 1
    assert "Is it another service?" in lines_of(capsys)["server"]


def test_doctor_says_that_the_hook_is_switched_off(
    strict_server: IngestServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forgotten TOCSIN_DISABLE is reported first."""
    monkeypatch.setenv("TOCSIN_DISABLE", "1")
    assert main(["doctor", "--url", strict_server.url, "--token", TOKEN]) == 1
    assert "`unset TOCSIN_DISABLE`" in lines_of(capsys)["hook"]


def test_doctor_says_that_the_spool_cannot_be_written(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is a file instead of the directory."""
    spool.write_text("")
    assert main(["doctor", "--url", strict_server.url, "--token", TOKEN]) == 1
    assert "in memory only" in lines_of(capsys)["spool"]


def test_doctor_mentions_what_was_left_behind(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not an error, but reported."""
    leave_behind(spool, strict_server.url, 0)
    assert main(["doctor", "--url", strict_server.url, "--token", TOKEN]) == 0
    assert "`tocsin sync` delivers" in lines_of(capsys)["spool"]


def test_doctor_names_a_command_that_delivers_what_it_found(
    strict_server: IngestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in a directory that is not the default, and has a space in its name."""
    place = tmp_path / "other spool"
    leave_behind(place, strict_server.url, 0)
    main(["doctor", "--url", strict_server.url, "--token", TOKEN, "--spool-dir", str(place)])
    words = shlex.split(lines_of(capsys)["spool"].split("`")[1])
    assert main([*words[1:], "--token", TOKEN]) == 0
    assert len(strict_server.only.steps) == 100
