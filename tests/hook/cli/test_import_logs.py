"""``tocsin import``: past runs arrive completely, once, marked as imported, over a real WebSocket."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_for
from tests.hook.ingest_server import IngestServer, closed_port
from tocsin.cli.commands import main
from tocsin.cli.import_logs import Outcome, import_runs, summary
from tocsin.cli.log_run import Destination
from tocsin.protocol import Alert

TEXT = "step,loss\n" + "".join(f"{step},{step}.5\n" for step in range(3000)) + "3000,nan\n"


@pytest.fixture
def server() -> Iterator[IngestServer]:
    """A server on loopback."""
    server = IngestServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A past run of 3001 records."""
    path = tmp_path / "train.csv"
    path.write_text(TEXT)
    return path


def test_a_past_run_arrives_whole(server: IngestServer, log: Path) -> None:
    """Every record in order, NaN included, and the run is finished."""
    (outcome,) = import_runs(log, Destination(server.url, "tk"))
    assert outcome.delivered, outcome
    kept = server.only
    assert kept.steps == list(range(3001))
    assert math.isnan(kept.columns["loss"][-1])
    assert kept.finish is not None
    assert kept.finish.state == "finished"


def test_an_imported_run_says_so(server: IngestServer, log: Path) -> None:
    """In its hello and as its first event, so that no notifications are sent."""
    list(import_runs(log, Destination(server.url, "tk"), "old"))
    hello, event = server.only.hellos[0], server.only.events[0]
    assert (hello.project, hello.name) == ("old", "train")
    assert hello.config["imported"] is True
    assert (event.kind, event.data["imported"]) == ("imported", True)


def test_importing_twice_adds_nothing(server: IngestServer, log: Path) -> None:
    """The writer and its numbers are the same, so the server knows them."""
    for _ in range(2):
        (outcome,) = import_runs(log, Destination(server.url, "tk"))
        assert outcome.delivered
    assert server.only.steps == list(range(3001))


def test_a_log_that_has_grown_is_the_same_run(server: IngestServer, log: Path) -> None:
    """Only what is new is counted and sent; then nothing is."""
    texts = []
    for more in ("", "3001,0.5\n3002,0.5\n", ""):
        with log.open("a") as file:
            file.write(more)
        (outcome,) = import_runs(log, Destination(server.url, "tk"))
        texts.append(outcome.text.split(", ")[1])
    assert outcome.url == f"{server.url}/runs/{outcome.run}"
    assert texts == ["3,001 records", "2 new records", "already imported"]
    assert server.only.steps == list(range(3003))


def test_equal_logs_in_two_folders_are_two_runs(
    server: IngestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the second time; a folder that was moved is the same run."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("a", "b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "train.csv").write_text(TEXT)
    first, again = (list(import_runs(tmp_path / "runs", Destination(server.url, "tk"))) for _ in range(2))
    assert [one.new for one in first] == [3001, 3001]
    assert [(one.run, one.new) for one in again] == [(one.run, 0) for one in first]
    (tmp_path / "runs" / "a").rename(tmp_path / "moved")
    (moved,) = import_runs(tmp_path / "moved", Destination(server.url, "tk"))
    assert (moved.run, moved.new) == (first[0].run, 0)


def test_an_interrupted_import_of_a_growing_log_is_continued(server: IngestServer, log: Path) -> None:
    """The server had records of it before the log grew: they stay the same run."""
    server.withhold_acks = True
    (failed,) = import_runs(log, Destination(server.url, "tk", exit_timeout_s=0.5, patience_s=0.5))
    assert (failed.delivered, bool(server.writers)) == (False, True)
    server.withhold_acks = False
    with log.open("a") as file:
        file.write("3001,0.5\n")
    (outcome,) = import_runs(log, Destination(server.url, "tk"))
    assert outcome.delivered, outcome
    assert {kept.hellos[0].run for kept in server.writers.values()} == {outcome.run}


def test_runs_are_sent_while_another_is_being_stored(server: IngestServer, tmp_path: Path) -> None:
    """After the first, which shows that the server accepts runs. They fail one by one, in order."""
    paths = [tmp_path / f"{name}.csv" for name in "abc"]
    for path in paths:
        path.write_text(f"step,loss\n1,0.5\n2,0.{ord(path.stem)}\n")
    outcomes = import_runs(tmp_path, Destination(server.url, "tk", exit_timeout_s=1.0))
    found = [next(outcomes)]
    server.withhold_acks = True
    found.append(next(outcomes))
    wait_for(lambda: len(server.writers) == 3, "the third run")
    found += outcomes
    assert [(one.path, one.delivered) for one in found] == list(zip(paths, (True, False, False), strict=True))


def test_two_copies_of_a_trackers_run_are_one(server: IngestServer, tmp_path: Path) -> None:
    """The second is sent after the first, adds nothing, and its line names the first."""
    for name, run in (("a", "r1"), ("b", "r2"), ("c", "r2")):
        (tmp_path / name / "metrics").mkdir(parents=True)
        (tmp_path / name / "meta.yaml").write_text(f"run_id: {run}\n")
        (tmp_path / name / "metrics" / "loss").write_text("1000 0.5 1\n1001 0.4 2\n")
    _, first, copy = import_runs(tmp_path, Destination(server.url, "tk"))
    assert (first.new, copy.new, copy.run, len(server.writers)) == (2, 0, first.run, 2)
    assert copy.text == f"{copy.path}: the same run as {first.path}, already imported"


def test_the_summary_names_runs_with_problems(tmp_path: Path) -> None:
    """The most severe first; runs without new records were judged before."""
    spike = Alert("a", "loss-spike", "warning", "resolved", "Loss rose", onset_step=7)
    diverged = Alert("b", "loss-diverged", "critical", "firing", "Loss diverged", onset_step=9)
    note = Alert("c", "clip-ineffective", "info", "firing", "Clipping has no effect")
    outcomes = [
        Outcome(tmp_path, True, "", "r1", "http://h/runs/r1", "one", 5, alerts=(spike,)),
        Outcome(tmp_path, True, "", "r2", "http://h/runs/r2", "two", 5, alerts=(diverged, note)),
        Outcome(tmp_path, True, "", "r3", "", "three", 5, alerts=(note,)),
        Outcome(tmp_path, True, "", "r4", "", "four"),
        Outcome(tmp_path, None, ""),
    ]
    assert summary(outcomes) == [
        "4 runs, 1 already imported, 2 with problems:",
        "  two: Loss diverged (step 9), and 1 other alert: http://h/runs/r2",
        "  one: Loss rose (step 7): http://h/runs/r1",
    ]
    assert summary(outcomes[2:3]) == ["1 run, no problems found"]
    assert summary(outcomes[2:4]) == ["2 runs, 1 already imported, no new problems found"]


def test_each_run_of_a_file_is_an_attempt(server: IngestServer, tmp_path: Path) -> None:
    """A repeated header: two writers of one run."""
    path = tmp_path / "train.csv"
    path.write_text("step,loss\n0,1.0\n1,0.5\nstep,loss\n0,2.0\n")
    list(import_runs(path, Destination(server.url, "tk")))
    assert [kept.steps for kept in server.writers.values()] == [[0, 1], [0]]
    assert len({kept.hellos[0].run for kept in server.writers.values()}) == 1


def test_a_folder_is_searched(server: IngestServer, tmp_path: Path) -> None:
    """Logs are imported under their path; settings and prose are skipped."""
    for name in ("a/train.jsonl", "b/train.jsonl"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(f'{{"step": 1, "loss": 0.5, "run": "{name}"}}\n')
    (tmp_path / "settings.yaml").write_text("step: 1 loss: 0.5\n")
    outcomes = list(import_runs(tmp_path, Destination(server.url, "tk")))
    assert [outcome.delivered for outcome in outcomes] == [True, True]
    names = {kept.hellos[0].name for kept in server.writers.values()}
    assert names == {"a/train", "b/train"}


def test_a_folder_without_a_log_is_an_error(
    server: IngestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what was searched, and what is known."""
    (tmp_path / "notes.md").write_text("no log")
    assert main(["import", "--url", server.url, str(tmp_path)]) == 1
    line = capsys.readouterr().out
    assert line.startswith(
        f"FAIL  {tmp_path}: no training log in this folder or its subfolders. Known folders: Aim,"
    )
    assert main(["import", "--json", "--url", server.url, str(tmp_path)]) == 1
    assert json.loads(capsys.readouterr().out)[0]["ok"] is False


def test_several_paths_are_imported_as_a_shell_lists_them(
    server: IngestServer, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one summary; a path that is listed twice adds nothing."""
    (log.parent / "other.csv").write_text(TEXT)
    paths = [str(log.parent / name) for name in ("train.csv", "other.csv", "train.csv")]
    assert main(["import", "--url", server.url, *paths]) == 0
    assert len(server.writers) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 runs, 1 already imported")


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_import_says_how_to_continue(
    server: IngestServer, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the summary of what was imported."""

    def interrupt() -> None:
        wait_for(lambda: server.writers, "the first run")
        os.kill(os.getpid(), signal.SIGINT)

    server.withhold_acks = True
    threading.Thread(target=interrupt).start()
    assert main(["import", "--url", server.url, str(log)]) == 130
    assert "Run the same command again" in capsys.readouterr().err


def test_an_interrupted_import_reports_the_runs_that_were_sent(server: IngestServer, tmp_path: Path) -> None:
    """The third was not read to its end."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"step,loss\n1,0.5\n2,0.{ord(name)}\n")
    (tmp_path / "c.csv").write_text(TEXT)
    read, found = iter(range(100)), list[str]()

    def advance(_records: int) -> None:
        if next(read, None) is None:
            raise KeyboardInterrupt

    def import_all() -> None:
        for outcome in import_runs(tmp_path, Destination(server.url, "tk"), advance=advance):
            found.append(outcome.path.name)

    with pytest.raises(KeyboardInterrupt):
        import_all()
    assert found == ["a.csv", "b.csv"]


def test_an_unreachable_server_is_reported(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The import fails with the reason, also for a file of an unknown format."""
    destination = Destination(f"http://127.0.0.1:{closed_port()}", "tk", exit_timeout_s=0.5, patience_s=0.5)
    (log.parent / "second.csv").write_text(TEXT)
    (outcome,) = import_runs(log.parent, destination)  # the second is not tried
    assert outcome.delivered is False
    assert "second.csv" in outcome.text
    assert main(["import", str(log.parent / "missing.csv")]) == 2
    assert "There is no file" in capsys.readouterr().err
