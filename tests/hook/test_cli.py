"""``tocsin doctor`` and ``tocsin sync`` as a person runs them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer, closed_port
from tests.hook.test_spool import WRITER
from tocsin import protocol
from tocsin.cli import main
from tocsin.frames import frame_of
from tocsin.outbox import Outbox
from tocsin.spool import FORMAT, Header, Spool

TOKEN = "tk_good"


@pytest.fixture
def server() -> Iterator[IngestServer]:
    """A server that takes one token."""
    server = IngestServer()
    server.token = TOKEN
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def spool_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without settings but for where spools lie."""
    for name in ("TOCSIN_URL", "TOCSIN_TOKEN", "TOCSIN_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOCSIN_SPOOL_DIR", str(tmp_path / "spool"))
    return tmp_path / "spool"


def leave_behind(spool_dir: Path, url: str, rank: int, records: int = 100) -> protocol.WriterId:
    """What a killed process with so many records leaves."""
    writer = protocol.WriterId("launch", rank, "boot", 1, 1)
    hello = protocol.Hello(1, TOKEN, "deblur", "night", "r_1", writer, 2, "h", 0)
    outbox = Outbox()
    for step in range(records):
        outbox.put((step, step, ("loss",), float(step)))
    spool = Spool(spool_dir, lambda: Header(FORMAT, url, hello))
    message = outbox.drain()
    assert message is not None
    assert spool.append(frame_of(message))
    spool.close()
    return writer


def lines_of(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What doctor printed, by check."""
    rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines() if line[:1] in "oFn"]
    return {row[1]: f"{row[0]} {row[2]}" for row in rows if len(row) == 3}


def test_doctor_finds_nothing_where_all_is_well(
    server: IngestServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check is ok, the exit status 0, and the server has no new run."""
    assert main(["doctor", "--url", server.url, "--token", TOKEN]) == 0
    said = lines_of(capsys)
    assert list(said) == [
        "hook",
        "address",
        "name",
        "connection",
        "server",
        "hello",
        "spool",
        "torch",
        "signals",
    ]
    assert all(line.startswith("ok") for line in said.values()), said
    assert server.writers == {}


def test_doctor_says_when_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    """The address is right, the port is dead."""
    assert main(["doctor", "--url", f"http://127.0.0.1:{closed_port()}"]) == 1
    said = lines_of(capsys)
    assert "nothing answers at 127.0.0.1" in said["connection"]
    assert "hello" not in said
    assert said["spool"].startswith("ok")


@pytest.mark.parametrize(
    ("url", "check", "words"),
    [
        ("lab:8321", "address", "expected something like http://host:8321, got 'lab:8321'"),
        ("http://no-such-host.invalid", "name", "the name no-such-host.invalid is not known here"),
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
    ("arguments", "words"), [([], "No token is set"), (["--token", "tk_bad"], "bad-token")]
)
def test_doctor_tells_a_bad_token_from_none(
    server: IngestServer, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server's own words, and how to make a token."""
    assert main(["doctor", "--url", server.url, *arguments]) == 1
    hello = lines_of(capsys)["hello"]
    assert words in hello
    assert "tocsin-server token create" in hello


def test_doctor_knows_another_service_on_the_port(
    server: IngestServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A web server that is not ours."""
    server.health = "<html>It works!</html>"
    assert main(["doctor", "--url", server.url]) == 1
    assert "is it another service?" in lines_of(capsys)["server"]


def test_doctor_says_that_the_hook_is_switched_off(
    server: IngestServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forgotten TOCSIN_DISABLE is the first thing to know."""
    monkeypatch.setenv("TOCSIN_DISABLE", "1")
    assert main(["doctor", "--url", server.url, "--token", TOKEN]) == 1
    assert "TOCSIN_DISABLE is set" in lines_of(capsys)["hook"]


def test_doctor_says_that_the_spool_cannot_be_written(
    server: IngestServer, spool_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file is where the directory should be."""
    spool_dir.write_text("")
    assert main(["doctor", "--url", server.url, "--token", TOKEN]) == 1
    assert "in memory only" in lines_of(capsys)["spool"]


def test_doctor_mentions_what_was_left_behind(
    server: IngestServer, spool_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a fault, but worth knowing."""
    leave_behind(spool_dir, server.url, 0)
    assert main(["doctor", "--url", server.url, "--token", TOKEN]) == 0
    assert "tocsin sync" in lines_of(capsys)["spool"]


def test_sync_delivers_every_spool_under_its_own_identity(
    server: IngestServer, spool_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks of a dead run: all their records, once, to the server they were meant for."""
    writers = [leave_behind(spool_dir, server.url, rank) for rank in (0, 1)]
    assert main(["sync", "--token", TOKEN]) == 0
    assert [server.writers[writer].steps for writer in writers] == [list(range(100))] * 2
    assert list(spool_dir.iterdir()) == []
    assert f"deblur/night rank 1: 100 records are on {server.url}" in capsys.readouterr().out


def test_sync_again_finds_nothing(
    server: IngestServer, spool_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is left, and nothing arrives twice."""
    writer = leave_behind(spool_dir, server.url, 0)
    main(["sync", str(spool_dir), "--token", TOKEN])
    assert main(["sync", str(spool_dir), "--token", TOKEN]) == 0
    assert "Nothing was left behind" in capsys.readouterr().out
    assert server.writers[writer].resent == 0


def test_sync_can_be_pointed_at_another_server(server: IngestServer, spool_dir: Path) -> None:
    """The old server is gone; what was meant for it goes to the new one when asked."""
    leave_behind(spool_dir, "http://gone.invalid:1", 0)
    assert main(["sync", "--url", server.url, "--token", TOKEN]) == 0
    assert server.only.steps == list(range(100))


def test_sync_keeps_what_it_cannot_deliver(
    server: IngestServer, spool_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong token, and a server that is away: a sentence each, and the spools stay."""
    leave_behind(spool_dir, server.url, 0)
    leave_behind(spool_dir, f"http://127.0.0.1:{closed_port()}", 1)
    assert main(["sync", "--token", "tk_bad", "--timeout", "0.3"]) == 1
    said = capsys.readouterr().out
    assert "bad-token" in said
    assert "Connection refused" in said
    assert len(list(spool_dir.iterdir())) == 2


def test_sync_leaves_living_runs_alone(
    server: IngestServer, spool_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A spool whose process is training is not touched."""
    hello = protocol.Hello(1, "", "deblur", "now", "r", WRITER, 1, "h", 0)
    spool = Spool(spool_dir, lambda: Header(FORMAT, server.url, hello))
    outbox = Outbox()
    outbox.put((0, 0, ("loss",), 1.0))
    message = outbox.drain()
    assert message is not None
    spool.append(frame_of(message))
    assert main(["sync", "--token", TOKEN]) == 0
    assert "still being written" in capsys.readouterr().out
    assert server.writers == {}
    spool.delete()


def test_sync_reads_past_a_damaged_header(
    server: IngestServer, spool_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One unreadable spool is named and does not keep the others from being delivered."""
    leave_behind(spool_dir, server.url, 0)
    (spool_dir / "a-broken-one").mkdir()
    (spool_dir / "a-broken-one" / "header").write_bytes(b"\xff")
    assert main(["sync", "--token", TOKEN]) == 1
    assert "not readable" in capsys.readouterr().out
    assert server.only.steps == list(range(100))


def test_the_command_explains_itself() -> None:
    """Without a command: usage, and exit status 2."""
    done = subprocess.run([sys.executable, "-m", "tocsin.cli"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: tocsin" in done.stderr
