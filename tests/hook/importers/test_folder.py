"""Runs of trackers in a tree of folders: which files belong to one run, and what is not a run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from torch.utils.tensorboard import SummaryWriter

from tests.import_graph import ROOT
from tocsin.importers import known_formats
from tocsin.importers.folder import known_trackers, name_in, runs_in, skipped_text
from tocsin.importers.items import Fact, LogRecord
from tocsin.importers.settings_file import scalars
from tocsin.importers.source import TrackedRun


def found(root: Path) -> list[tuple[str, str, list[int]]]:
    """Return name, kind and steps of each run."""
    runs: list[Any] = list(runs_in(root))
    return [
        (
            name_in(root, run.path),
            run.kind,
            [item.step for item in run.items() if isinstance(item, LogRecord)],
        )
        for run in runs
    ]


def checkpoint(folder: Path, step: int) -> None:
    """Write what a Trainer of transformers saves with a checkpoint: the history up to its step."""
    history = [{"step": each, "epoch": each / 10, "loss": 1.0 / each} for each in range(1, step + 1)]
    state = {"global_step": step, "max_steps": 40, "log_history": history}
    place = folder / f"checkpoint-{step}"
    place.mkdir(parents=True)
    (place / "trainer_state.json").write_text(json.dumps(state, indent=2))


def test_checkpoints_of_a_hugging_face_trainer_are_one_run(tmp_path: Path) -> None:
    """Numbered, not sorted as text: the newest has the whole history. TensorBoard adds what came after it."""
    for step in (9, 10):
        checkpoint(tmp_path / "bert", step)
    with SummaryWriter(tmp_path / "bert" / "runs" / "now") as writer:
        for step in (9, 10, 11):
            writer.add_scalar("train/loss", 0.5, step)
    assert found(tmp_path) == [("bert", "HF trainer_state.json", list(range(1, 12)))]


def test_a_version_of_lightning_is_one_run_with_its_settings(tmp_path: Path) -> None:
    """The CSV file; TensorBoard files beside it repeat its values."""
    version = tmp_path / "lightning_logs" / "version_0"
    with SummaryWriter(version) as writer:
        writer.add_scalar("train_loss", 0.5, 4)
    (version / "metrics.csv").write_text("epoch,step,train_loss\n0,4,0.5\n0,9,0.25\n")
    (version / "hparams.yaml").write_text("lr: 0.001\nmodel:\n  width: 64\n")
    assert found(tmp_path) == [("lightning_logs/version_0", "Lightning metrics.csv", [4, 9])]
    (run,) = runs_in(tmp_path)
    assert getattr(run, "about").config == {"lr": 0.001, "model/width": 64}  # noqa: B009 - of a union


def test_a_training_that_crashed_before_its_first_log_has_no_records(tmp_path: Path) -> None:
    """Lightning leaves an empty file. It is no error, so that an import of its neighbors succeeds."""
    for name in ("hparams.yaml", "metrics.csv"):
        (tmp_path / name).touch()
    assert [steps for _, _, steps in found(tmp_path)] == [[]]


def test_each_folder_of_a_tensorboard_tree_is_a_run(tmp_path: Path) -> None:
    """Several files in a folder, as after a restart, are one run; a damaged one does not hide the others."""
    for name, steps in (("a", (0, 1)), ("a", (2, 3)), ("b/inner", (0,))):
        with SummaryWriter(tmp_path / name, filename_suffix=str(steps[0])) as writer:
            for step in steps:
                writer.add_scalar("loss", 1.0, step)
    (tmp_path / "a" / "events.out.tfevents.1.damaged").write_bytes(b"\0" * 40)
    kinds = {(name, tuple(steps)) for name, _, steps in found(tmp_path)}
    assert kinds == {("a", (0, 1, 2, 3)), ("b/inner", (0,))}


def test_a_folder_of_add_hparams_belongs_to_its_run(tmp_path: Path) -> None:
    """Its settings are the run's, and its metrics the summary."""
    settings = {"lr": 0.25, "batch": 32, "optimizer": "adam", "amp": True}
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.add_hparams(settings, {"best": 0.75})
    (run,) = runs_in(tmp_path)
    assert isinstance(run, TrackedRun)
    assert run.about.config == settings
    facts = [item for item in run.items() if isinstance(item, Fact)]
    assert [fact.data for fact in facts] == [{"summary": {"best": 0.75}}]


def test_a_run_with_its_own_settings_below_another_run_is_a_run(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1.0, 0)
    with SummaryWriter(tmp_path / "trial") as writer:
        writer.add_hparams({"lr": 0.25}, {}, run_name=".")
        writer.add_scalar("loss", 1.0, 0)
    assert [str(run.path) for run in runs_in(tmp_path)] == [str(tmp_path), str(tmp_path / "trial")]


def test_hidden_folders_are_not_searched(tmp_path: Path) -> None:
    """Such as ``.git`` and ``.ipynb_checkpoints``."""
    (tmp_path / ".old").mkdir()
    (tmp_path / ".old" / "log.csv").write_text("step,loss\n0,1.0\n")
    assert found(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a: 1\nb: 1e-3\nc: .nan\n", {"a": 1, "b": 1e-3}),
        ("a: 'it''s'\nb: \"x\\ty\"  \nc: yes # text\n", {"a": "it's", "b": "x\ty", "c": "yes"}),
        ("a: [1, 2]\nb: !!python/object:os.system x\nc: &x 1\n", {}),
        ("outer:\n  inner:\n    x: true\ny: null\n", {"outer/inner/x": True, "y": None}),
    ],
)
def test_scalars_of_a_settings_file_are_read(tmp_path: Path, text: str, settings: dict[str, Any]) -> None:
    """Everything else in it is left out, and nothing of it is executed."""
    (tmp_path / "hparams.yaml").write_text(text)
    read = scalars(tmp_path / "hparams.yaml")
    assert {name: value for name, value in read.items() if value == value} == settings


def test_a_damaged_event_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(bytes(range(256)))
    skipped: list[Path] = []
    assert list(runs_in(tmp_path, skipped)) == []
    assert [one.name for one in skipped] == ["events.out.tfevents.1.host"]


def test_a_damaged_file_of_wandb_is_named(tmp_path: Path) -> None:
    (tmp_path / "run-abcd.wandb").write_bytes(b"garbage")
    skipped: list[Path] = []
    assert list(runs_in(tmp_path, skipped)) == []
    assert [one.name for one in skipped] == ["run-abcd.wandb"]


@contextmanager
def without_root() -> Iterator[None]:
    """Run as an ordinary user, whom permissions of files stop."""
    known_trackers()
    known_formats()
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_what_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log and a folder without permission; the others are read."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    Path("private").mkdir(0)
    for name, mode in (("denied.csv", 0), ("open.csv", 0o644)):
        Path(name).write_text("step,loss\n0,1.0\n")
        Path(name).chmod(mode)
    with without_root():
        seen = {str(one.path): getattr(one, "why", "") for one in runs_in(Path("."))}
    assert seen == {"open.csv": "", "denied.csv": "Permission denied", "private": "Permission denied"}


def test_files_that_are_no_training_logs_are_named(tmp_path: Path) -> None:
    """The Grafana dashboard among them is JSON with lists of numbers."""
    dashboard = ROOT / "examples" / "grafana" / "dashboards" / "tocsin.json"
    (tmp_path / "dashboard.json").write_text(dashboard.read_text("utf-8"), "utf-8")
    for name in ("a.json", "b.json", "c.json", "notes.md"):
        (tmp_path / name).write_text("{}")
    skipped: list[Path] = []
    assert not list(runs_in(tmp_path, skipped))
    text = "4 files skipped, not recognized as training logs: a.json, b.json, c.json and 1 more"
    assert skipped_text(tmp_path, skipped) == f"{tmp_path}: {text}"
