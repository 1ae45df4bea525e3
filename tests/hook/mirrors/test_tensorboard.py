"""TensorBoard's own writer: its files are its own, its scalars arrive, and alerts are written to it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard.writer import SummaryWriter

import tocsin
from tests.conftest import Tower
from tests.hook.auto.test_start import RUN, address, execute, the_run
from tests.hook.captured import watched
from tests.matrix import LONG
from tocsin import mirrors
from tocsin.importers import LogRecord
from tocsin.importers.folder import runs_in
from tocsin.mirrors import options
from tocsin.mirrors.feed import feed
from tocsin.mirrors.write_back import AlertWriter
from tocsin.protocol import Alert


@pytest.fixture(autouse=True)
def mirrored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Mirror TensorBoard in this test only."""
    for name in ("add_scalar", "add_scalars"):
        monkeypatch.setattr(SummaryWriter, name, vars(SummaryWriter)[name])
    monkeypatch.setattr(mirrors, "_installed", set())
    tocsin.mirror("tensorboard")
    yield
    options.chosen.clear()
    feed.__init__()  # type: ignore[misc]


def log(folder: Path) -> None:
    """Log what scripts log."""
    with SummaryWriter(str(folder)) as writer:
        for step in range(3):
            writer.add_scalar("train/loss", torch.tensor(0.5**step), step * 10)
            writer.add_scalars("lr", {"a": 0.25, "b": math.inf}, step * 10)
        writer.add_text("note", "hello")
        writer.add_histogram("weights", torch.zeros(8), 0)


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the scalars of TensorBoard's files."""
    found = {}
    for file in sorted(folder.rglob("*tfevents*")):
        events = EventAccumulator(str(file)).Reload()
        for tag in events.Tags()["scalars"]:
            place = file.parent.name.removeprefix("lr_") if file.parent != folder else ""
            found[f"{tag}/{place}" if place else tag] = [(one.step, one.value) for one in events.Scalars(tag)]
    return found


def texts(folder: Path) -> list[tuple[int, str]]:
    """Return step and text of the alerts in TensorBoard's files."""
    (file,) = folder.glob("*tfevents*")
    events = EventAccumulator(str(file)).Reload()
    if "tocsin/alerts/text_summary" not in events.Tags()["tensors"]:
        return []
    found = events.Tensors("tocsin/alerts/text_summary")
    return [(one.step, one.tensor_proto.string_val[0].decode()) for one in found]


def alert(state: str = "firing") -> Alert:
    """Return an alert as the server sends it."""
    summary = "The loss is NaN at step 41."
    return Alert("r.1", "nonfinite-loss", "critical", state, summary, 41, 42, "Lower the rate.", "r.1.1")


def test_scalars_arrive_with_their_names_and_steps(tmp_path: Path) -> None:
    """All that the file has, and nothing else."""
    with watched() as (_, outbox):
        log(tmp_path)
    own = read(tmp_path)
    assert sorted(own) == ["lr/a", "lr/b", "train/loss"]
    for name, values in own.items():
        assert outbox.series(name) == values
    assert {name for record in outbox.records for name in record} == {"step", *own}


def test_the_files_are_those_without_tocsin(tmp_path: Path) -> None:
    """With and without a run."""
    log(tmp_path / "alone")
    with watched():
        log(tmp_path / "watched")
    assert read(tmp_path / "alone") == read(tmp_path / "watched")


def test_imported_files_have_the_names_of_the_mirror(tmp_path: Path) -> None:
    """Spaces, capitals and signs are kept."""
    tags = ("Tokens per Second", "val/Top 1 (%)", "opt state/é")
    with watched() as (_, outbox), SummaryWriter(str(tmp_path)) as writer:
        for tag in tags:
            writer.add_scalar(tag, 1.0, 0)
    found: list[Any] = list(runs_in(tmp_path))
    (run,) = found
    imported = [name for item in run.items() if isinstance(item, LogRecord) for name in item.values]
    assert sorted(imported) == sorted(name for record in outbox.records for name in record if name in tags)


def test_an_exception_is_tensorboards_own(tmp_path: Path) -> None:
    """Nothing arrives for that call."""
    with SummaryWriter(str(tmp_path)) as writer, watched() as (_, outbox):
        with pytest.raises(NotImplementedError, match="Got"):
            writer.add_scalar("loss", object())
        assert outbox.records == []


def test_an_alert_is_written_as_text(tmp_path: Path) -> None:
    """At the step at which it fired, with the incident's page; then its end."""
    writer = AlertWriter(lambda: "http://h/runs/r", lambda: "http://h")
    with SummaryWriter(str(tmp_path)) as board:
        board.add_scalar("loss", 1.0, 0)
        writer.take(alert())
        writer.take(alert("resolved"))
        writer.flush(30)
    (step, fired), (_, resolved) = texts(tmp_path)
    assert step == 42
    assert "nonfinite-loss (critical)" in fired
    assert "Lower the rate." in fired
    assert "http://h/incidents/r.1.1" in fired
    assert "resolved since step 41" not in fired
    assert "resolved" in resolved


def test_a_closed_writer_gets_no_alert(tmp_path: Path) -> None:
    """It would create another file."""
    writer = AlertWriter(lambda: "", lambda: "")
    with SummaryWriter(str(tmp_path)) as board:
        board.add_scalar("loss", 1.0, 0)
    writer.take(alert())
    writer.flush(30)
    assert texts(tmp_path) == []


def test_alerts_can_be_switched_off(tmp_path: Path) -> None:
    """``alerts=False`` asks the server for none and writes none."""
    tocsin.mirror("tensorboard", alerts=False)
    writer = AlertWriter(lambda: "", lambda: "")
    with SummaryWriter(str(tmp_path)) as board, watched() as (run, _):
        board.add_scalar("loss", 1.0, 0)
        writer.take(alert())
        writer.flush(30)
        assert run._run_info.wants == []
    assert texts(tmp_path) == []


SCRIPT = """
import sys, torch
from torch.utils.tensorboard import SummaryWriter
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with SummaryWriter(sys.argv[1]) as writer:
    writer.add_scalar("before", 1.0, 0)
    for step in range(5):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        writer.add_scalar("mirrored", step / 8, 100 + step)
"""


@LONG
def test_tocsin_run_mirrors_without_a_line(shared_tower: Tower, tmp_path: Path) -> None:
    """What is logged before the first step too."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = (sys.executable, str(tmp_path / "script.py"), str(tmp_path / "board"))
    done = execute(*RUN, "--name", "mirrored", *command, **address(shared_tower))
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = {}
    for record in shared_tower.records(the_run(shared_tower, "mirrored")["id"]):
        for name, value in record["values"].items():
            values.setdefault(name, []).append((record["step"], value))
    assert values["mirrored"] == [(100 + step, step / 8) for step in range(5)]
    assert values["before"] == [(0, 1.0)]
