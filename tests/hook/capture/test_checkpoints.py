"""Checkpoints that a script saves through torch, found without code."""

from __future__ import annotations

import importlib
import inspect
import io
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.hook.captured import KeptOutbox, watch, watched
from tocsin.capture.checkpoints import kept_state
from tocsin.system.checkpoints import SAVED


def trained(steps: int = 3) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Train a small net."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(steps):
        net(torch.randn(8, 4)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return net, optimizer


def paths(outbox: KeptOutbox) -> list[str]:
    """Return the names of the reported files."""
    return [Path(event["path"]).name for event in outbox.events(SAVED)]


@pytest.mark.parametrize(
    ("make", "holds"),
    [
        (lambda net, optimizer: net, {"model"}),
        (lambda net, optimizer: net.state_dict(), {"model"}),
        (lambda net, optimizer: dict(net.state_dict()), {"model"}),
        (lambda net, optimizer: {"epoch": 3, "state": {"net": net.state_dict()}}, {"model"}),
        (lambda net, optimizer: optimizer.state_dict(), {"optimizer"}),
        (
            lambda net, optimizer: {"sd": net.state_dict(), "optimizers": [optimizer.state_dict()]},
            {"model", "optimizer"},
        ),
        (lambda net, optimizer: {"prompt": torch.nn.Parameter(torch.zeros(3))}, {"model"}),
        (lambda net, optimizer: torch.zeros(3), set()),
        (lambda net, optimizer: {"features": torch.zeros(3), "labels": torch.zeros(3)}, set()),
        (lambda net, optimizer: {"img.jpg": torch.zeros(3)}, set()),
        (lambda net, optimizer: [torch.zeros(3)], set()),
        (lambda net, optimizer: {"epoch": 3, "history": [1.0, 2.0]}, set()),
        (lambda net, optimizer: {}, set()),
        (lambda net, optimizer: None, set()),
    ],
)
def test_only_the_state_of_a_model_or_optimizer_counts(make: Any, holds: set[str]) -> None:
    """Other tensors, such as features or a batch, are no checkpoint."""
    assert kept_state(make(*trained(1))) == holds


def test_torch_save_is_reported_with_its_step(tmp_path: Path) -> None:
    """Also under names that were imported before, and for open files; buffers and tensors are not."""
    from torch import save

    with watched() as (_, outbox):
        net, optimizer = trained(3)
        save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pt")
        with (tmp_path / "b.pt").open("wb") as file:
            torch.save(net.state_dict(), f=file)
        torch.save(net.state_dict(), io.BytesIO())
        torch.save(torch.zeros(3), tmp_path / "c.pt")
    assert paths(outbox) == ["a.pt", "b.pt"]
    first = outbox.events(SAVED)[0]
    assert (first["step"], first["complete"], first["holds"]) == (2, True, ["model", "optimizer"])
    assert first["size"] == (tmp_path / "a.pt").stat().st_size


def test_files_and_results_are_unchanged(tmp_path: Path) -> None:
    """The bytes are those that torch writes without the hook, and the result is torch's."""
    net, _ = trained(1)
    torch.save(net.state_dict(), tmp_path / "a.pt")
    before = (tmp_path / "a.pt").read_bytes()
    with watched():
        save: Any = torch.save
        result = save(net.state_dict(), tmp_path / "a.pt")
    assert result is None
    assert (tmp_path / "a.pt").read_bytes() == before


def test_a_failed_save_is_incomplete(tmp_path: Path) -> None:
    """The script gets its own exception."""
    net, _ = trained(1)
    with watched() as (_, outbox), pytest.raises(RuntimeError, match="Parent directory"):
        torch.save(net.state_dict(), tmp_path / "missing" / "a.pt")
    assert [event["complete"] for event in outbox.events(SAVED)] == [False]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled", "ignore:.*async_checkpoint")
def test_distributed_checkpoints_are_directories(tmp_path: Path) -> None:
    """``save`` and ``async_save``, whose step is that of the call; not the files inside."""
    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    if not hasattr(dcp, "async_save"):
        pytest.skip("torch before 2.2")
    with watched() as (_, outbox):
        net, optimizer = trained(2)
        dcp.save({"model": net.state_dict()}, checkpoint_id=tmp_path / "plain")
        dcp.save({"model": net.state_dict()}, storage_writer=dcp.FileSystemWriter(tmp_path / "writer"))
        future: Any = dcp.async_save({"model": net.state_dict()}, checkpoint_id=str(tmp_path / "async"))
        reported = threading.Event()
        future.add_done_callback(lambda _: reported.set())  # called after the hook's own
        net(torch.randn(8, 4)).mean().backward()
        optimizer.step()
        assert reported.wait(20)
    found = {Path(event["path"]).name: event["step"] for event in outbox.events(SAVED)}
    assert found == {"plain": 1, "writer": 1, "async": 1}
    assert {event["complete"] for event in outbox.events(SAVED)} == {True}


def test_patches_are_removed_and_imports_not_forced() -> None:
    """After ``finish`` torch is as before, nothing waits for an import, and nothing was imported."""
    code, finders = torch.serialization.save.__code__, list(sys.meta_path)
    signature = inspect.signature(torch.save)
    run = watch(KeptOutbox())
    assert torch.serialization.save.__code__ is not code
    assert inspect.signature(torch.save) == signature
    run.finish()
    assert torch.serialization.save.__code__ is code
    assert sys.meta_path == finders
    assert vars(torch.serialization.save) == {}
    script = (
        "import sys, torch; before = set(sys.modules); from tests.hook.captured import watched\n"
        "with watched(): pass\n"
        "print([name for name in sys.modules if name not in before and name.startswith(\n"
        "    ('safetensors', 'transformers', 'accelerate', 'lightning', 'torch.distributed.checkpoint'))])"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_library_imported_later_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one process wait for the same module; each reports."""
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").touch()
    stand_in = (
        "import pathlib\n"
        "def save_file(tensors, filename, metadata=None):\n"
        "    pathlib.Path(filename).write_bytes(b'x')\n"
    )
    (tmp_path / "safetensors" / "torch.py").write_text(stand_in)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("safetensors", "safetensors.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with watched() as (_, one), watched() as (_, other):
        net, _ = trained(1)
        save_file: Any = importlib.import_module("safetensors.torch").save_file

        save_file(net.state_dict(), tmp_path / "a.safetensors")
        save_file({"activations": torch.zeros(1)}, filename=tmp_path / "b.safetensors")
    assert paths(one) == paths(other) == ["a.safetensors"]
    for name in ("safetensors", "safetensors.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_save_on_another_thread(tmp_path: Path) -> None:
    """It is reported with the next record or at the end."""
    with watched() as (_, outbox):
        net, _ = trained(2)
        thread = threading.Thread(target=torch.save, args=(net.state_dict(), tmp_path / "a.pt"))
        thread.start()
        thread.join()
    assert [(event["step"], event["complete"]) for event in outbox.events(SAVED)] == [(1, True)]


def test_an_error_of_the_hook_does_not_reach_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is written, and the error is counted."""
    net, _ = trained(1)
    run = watch(outbox := KeptOutbox())

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(run._reporter.checkpoints, "saved", broken)
    monkeypatch.setattr(run._reporter.checkpoints, "began", broken)
    torch.save(net.state_dict(), tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt").keys() == net.state_dict().keys()
    assert run._reporter.errors
    run.finish()
    assert not outbox.events(SAVED)
