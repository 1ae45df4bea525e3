"""``tocsin tail``: a log that grows, is rotated or truncated, arrives as a run without loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer
from tocsin.cli.commands import main
from tocsin.cli.log_run import Destination
from tocsin.cli.tail import FileFollower, GrowingLog, follow, run_of
from tocsin.importers import LogRecord, UnreadableLogError


@pytest.fixture
def server() -> Iterator[IngestServer]:
    """A server on loopback."""
    server = IngestServer()
    server.start()
    yield server
    server.stop()


def append(path: Path, text: str) -> None:
    """Append to the log, as the training does."""
    with path.open("a") as file:
        file.write(text)


def acts(*actions: Callable[[], object]) -> tuple[Callable[[int], bool], Callable[[], object]]:
    """``stop`` and ``pause`` of a follower that make one action at each pause."""
    waiting = list(actions)
    return (lambda looks: not waiting), (lambda: waiting.pop(0)())


def tail(path: Path, server: IngestServer, *actions: Callable[[], object]) -> int:
    """Follow ``path`` during the actions; return the number of reported records."""
    run = run_of(path, "p", "n", Destination(server.url, "tk"))
    stop, pause = acts(*actions)
    count = follow(path, run, stop=stop, pause=pause)
    run.close()
    return count


def test_what_is_there_and_what_comes_is_reported(server: IngestServer, tmp_path: Path) -> None:
    """From the beginning; an incomplete line waits for its rest."""
    path = tmp_path / "train.log"
    path.write_text("".join(f"step={step} loss=0.5\n" for step in range(5)))
    more = [lambda: append(path, "step=5 lo"), lambda: append(path, "ss=0.25\nstep=6 loss=nan")]
    assert tail(path, server, *more) == 7
    assert server.only.steps == list(range(7))
    assert server.only.columns["loss"][5] == 0.25
    assert server.only.finish is not None


def test_the_precision_of_columns_is_reported(server: IngestServer, tmp_path: Path) -> None:
    """With every value: a norm of 0.00 is shown, and the server knows that it may be 0.004."""
    path = tmp_path / "train.log"
    path.write_text("".join(f"step={step} loss=0.{step}12345678 grad_norm=0.00\n" for step in range(1, 6)))
    assert tail(path, server) == 5
    reported = [event.data for event in server.only.events if event.kind == "precision"]
    assert reported == [{"name": "grad_norm", "quantum": 0.01}]
    assert server.only.columns["grad_norm"] == [0.0] * 5


def test_a_file_that_is_not_there_yet_is_waited_for(server: IngestServer, tmp_path: Path) -> None:
    """The tail may be started before the training."""
    path = tmp_path / "train.csv"
    more = [lambda: path.write_text("step,loss\n"), lambda: append(path, "0,1.0\n1,0.5\n")]
    assert tail(path, server, *more) == 2


def test_rotation_and_truncation_begin_a_new_attempt(server: IngestServer, tmp_path: Path) -> None:
    """The old file is read to its end."""
    path = tmp_path / "train.csv"
    path.write_text("step,loss\n0,1.0\n1,0.5\n2,0.4\n")

    def rotate() -> None:
        append(path, "3,0.3\n")
        path.rename(tmp_path / "train.csv.1")
        path.write_text("step,loss\n0,9.0\n1,8.0\n")

    assert tail(path, server, rotate, lambda: path.write_text("step,loss\n0,7.0\n")) == 7
    assert [kept.columns["loss"] for kept in server.writers.values()] == [
        [1.0, 0.5, 0.4, 0.3],
        [9.0, 8.0],
        [7.0],
    ]


def test_a_file_between_rotations_is_no_error(tmp_path: Path) -> None:
    """The file does not exist for a moment."""
    path = tmp_path / "a.log"
    path.write_text("x\n")
    follower = FileFollower(path)
    assert follower.read() == (b"x\n", False)
    path.unlink()
    assert follower.read() == (b"", False)
    path.write_text("y\n")
    assert follower.read() == (b"y\n", True)
    follower.close()


def test_a_page_of_settings_is_not_taken_for_the_log(tmp_path: Path) -> None:
    """The format is detected once there is output."""
    growing = GrowingLog(tmp_path / "log_rank0.txt")
    assert growing.feed(b"step 0 loss: 0.5\nCUTMIX: 1.0\n", False) == []
    line = b"INFO Train: [0/300][0/390]\teta 0:22 lr 0.000100\t loss 2.3 (2.3)\tgrad_norm 5.0 (5.0)\n"
    (record,) = [item for item in growing.feed(line, False) if isinstance(item, LogRecord)]
    assert growing.format is not None
    assert growing.format.name == "Swin-Transformer log"
    assert record.values["grad_norm"] == 5.0


def test_a_file_that_is_rewritten_cannot_be_followed(tmp_path: Path) -> None:
    """The error says what to use instead."""
    state = b'{"global_step": 1, "log_history": [{"loss": 1.0, "step": 1}]}'
    with pytest.raises(UnreadableLogError, match="tocsin import"):
        GrowingLog(tmp_path / "trainer_state.json").feed(state, False)


def test_the_command_says_that_it_waits_for_its_file(
    server: IngestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_SPOOL_DIR", str(tmp_path / "spool"))
    path = str(tmp_path / "later.log")
    assert main(["tail", path, "--url", server.url, "--token", "tk", "--idle-exit", "0"]) == 0
    assert f"{path} does not exist yet" in capsys.readouterr().err


def test_a_folder_cannot_be_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", str(tmp_path)]) == 2
    assert f"tocsin import {tmp_path}" in capsys.readouterr().err


def test_the_command_ends_when_nothing_comes(
    server: IngestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``--idle-exit``; it prints what it found."""
    monkeypatch.setenv("TOCSIN_SPOOL_DIR", str(tmp_path / "spool"))
    path = tmp_path / "main.log"
    path.write_text("s:0 trl:10.5 lr:0.001000 norm:15.37\n")
    assert main(["tail", str(path), "--url", server.url, "--token", "tk", "--idle-exit", "0"]) == 0
    assert "llm.c main.log" in capsys.readouterr().out
    assert server.only.columns["grad_norm"] == [15.37]
