"""``tocsin sync``: spools of dead processes are delivered once, or stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer, closed_port
from tests.hook.spool.test_segments import WRITER
from tests.hook.trainers import TOKEN, leave_behind
from tocsin import protocol
from tocsin.cli.commands import main
from tocsin.spool.segments import FORMAT, Header, Spool
from tocsin.transport.backlog import Backlog
from tocsin.transport.outbox import Outbox


def test_sync_delivers_every_spool_under_its_own_identity(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks of a dead run: all their records, once, to their server."""
    writers = [leave_behind(spool, strict_server.url, rank) for rank in (0, 1)]
    assert main(["sync", "--token", TOKEN]) == 0
    assert [strict_server.writers[writer].steps for writer in writers] == [list(range(100))] * 2
    assert list(spool.iterdir()) == []
    assert f"deblur/night rank 1: 100 records delivered to {strict_server.url}" in capsys.readouterr().out


def test_sync_again_finds_nothing(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is left, and nothing arrives twice."""
    writer = leave_behind(spool, strict_server.url, 0)
    main(["sync", str(spool), "--token", TOKEN])
    assert main(["sync", str(spool), "--token", TOKEN]) == 0
    assert "There is nothing to upload" in capsys.readouterr().out
    assert strict_server.writers[writer].resent == 0


def test_sync_can_be_pointed_at_another_server(strict_server: IngestServer, spool: Path) -> None:
    """The old server is gone; on request, its data is sent to the new one."""
    leave_behind(spool, "http://gone.invalid:1", 0)
    assert main(["sync", "--url", strict_server.url, "--token", TOKEN]) == 0
    assert strict_server.only.steps == list(range(100))


def test_sync_keeps_what_it_cannot_deliver(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong token, or a server that is down: one message each, and the spools stay."""
    leave_behind(spool, strict_server.url, 0)
    leave_behind(spool, f"http://127.0.0.1:{closed_port()}", 1)
    assert main(["sync", "--token", "tk_bad", "--timeout", "0.3"]) == 1
    output = capsys.readouterr().out
    assert "bad-token" in output
    assert "Connection refused" in output
    assert len(list(spool.iterdir())) == 2


def test_sync_leaves_living_runs_alone(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A spool whose process is training is not touched."""
    hello = protocol.Hello(1, "", "deblur", "now", "r", WRITER, 1, "h", 0)
    alive = Spool(spool, lambda: Header(FORMAT, strict_server.url, hello))
    outbox = Outbox()
    outbox.put((0, 0, ("loss",), 1.0))
    assert Backlog(outbox, alive).save()
    assert main(["sync", "--token", TOKEN]) == 0
    assert "still being written" in capsys.readouterr().out
    assert strict_server.writers == {}
    alive.delete()


def test_sync_reads_past_a_damaged_header(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One unreadable spool is named and does not block the others."""
    leave_behind(spool, strict_server.url, 0)
    (spool / "a-broken-one").mkdir()
    (spool / "a-broken-one" / "header").write_bytes(b"\xff")
    assert main(["sync", "--token", TOKEN]) == 1
    assert "a-broken-one: its header cannot be read" in capsys.readouterr().out
    assert strict_server.only.steps == list(range(100))


def test_sync_does_not_count_records_that_are_missing_as_delivered(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The buffer was deleted while the run was recorded, so that only the last records are left."""
    leave_behind(spool, strict_server.url, 0, range(60, 100))
    assert main(["sync", "--token", TOKEN]) == 0
    assert "40 records delivered" in (output := capsys.readouterr().out)
    assert ", 60 missing from the buffer" in output


def test_sync_does_not_count_records_that_the_server_has_as_missing(
    strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of them were delivered before the process died, so that it deleted them."""
    for numbers in (range(60), range(60, 100)):
        leave_behind(spool, strict_server.url, 0, numbers)
        assert main(["sync", "--token", TOKEN]) == 0
    assert "100 records delivered" in (output := capsys.readouterr().out)
    assert "missing" not in output


def test_sync_of_a_missing_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was probably misspelled. Without DIR, there may be none, because nothing was buffered."""
    assert main(["sync", str(tmp_path / "spol")]) == 2
    assert "There is no folder" in capsys.readouterr().err
