"""What is recorded about code, packages and hardware, and what is not."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.hook.captured import KeptOutbox, KeptSender
from tests.hook.ingest_server import IngestServer
from tests.hook.trainers import run_script
from tocsin.api.reporter import RunReporter
from tocsin.core.environment_options import PARTS
from tocsin.core.handshake import RunInfo
from tocsin.core.identity import identify
from tocsin.system import environment, system_metrics
from tocsin.system.environment import EnvironmentRecorder, command_line, packages, variables
from tocsin.system.system_metrics import installed_gpus


def recorded(server: IngestServer) -> dict[str, Any]:
    """Return what the events of the only writer say."""
    found: dict[str, Any] = {}
    for event in server.only.events:
        if event.kind == "environment":
            found |= event.data
    return found


def test_a_real_run_reports_its_environment(server: IngestServer, spool: Path, tmp_path: Path) -> None:
    """Also if it is over before anything was recorded; the secrets in the changes are redacted."""
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm1"],
    ):
        (tmp_path / "settings.py").write_text("lr = 1\n")
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "settings.py").write_text('lr = 2\ndb_password = "hunter2-hunter2"\n')
    body = (
        f"os.chdir({str(tmp_path)!r})\nsys.argv = ['a.py', '--api-key', 'k3y-0123456789', '--lr', '2']\n"
        "os.environ['TOCSIN_ENVIRONMENT'] = 'diff'\nos.environ['OMP_NUM_THREADS'] = '3'\n"
        "run = watch(config={'lr': 2})\nrun.data(train='c4@1')\nrun.data({'val': {'rows': 5}})\n"
        "train(run, 3)\n"
    )
    status, script = run_script(body, server.url, spool)
    assert status == 0, script.complaints
    found = recorded(server)
    assert found["command"] == ["a.py", "--api-key", "[redacted]", "--lr", "2"]
    assert (found["config"], found["variables"]["OMP_NUM_THREADS"]) == ({"lr": 2}, "3")
    assert found["git"]["dirty"] is True
    assert "+lr = 2" in found["git"]["diff"]
    assert "hunter2" not in found["git"]["diff"]
    assert found["packages"]["msgspec"]
    data = [event.data["data"] for event in server.only.events if "data" in event.data]
    assert data == [{"train": "c4@1"}, {"val": {"rows": 5}}]


def test_nothing_is_recorded_if_it_is_switched_off(server: IngestServer, spool: Path) -> None:
    body = "os.environ['TOCSIN_ENVIRONMENT'] = '0'\nrun = watch()\ntrain(run, 3)\n"
    status, _ = run_script(body, server.url, spool)
    assert status == 0
    assert recorded(server) == {}


@pytest.mark.parametrize("part", [*PARTS, ""])
def test_each_part_is_recorded_alone(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here in the repository of this test; the versions and the configuration are always part of it."""
    monkeypatch.setattr(environment, "installed_gpus", lambda environ: {"gpus": [], "driver": "1"})
    outbox = KeptOutbox()
    reporter = RunReporter(outbox, KeptSender())
    recorder = EnvironmentRecorder(reporter, RunInfo("p", "n", identify("p", "n", 0)), {part} - {""})
    for _ in range(3):
        recorder.sample()
    reporter.put_later_events()
    found = {name for event in outbox.events("environment") for name in event} - {"step"}
    names = {"gpu": {"gpus", "driver"}, "diff": {"git"}}
    assert found - {"git"} == (names.get(part, {part}) | {"versions"} if part else set()) - {"git"}


def test_other_ranks_record_nothing() -> None:
    outbox = KeptOutbox()
    reporter = RunReporter(outbox, KeptSender())
    who = identify("p", "n", 0, environ={"RANK": "1", "WORLD_SIZE": "2"})
    EnvironmentRecorder(reporter, RunInfo("p", "n", who), set(PARTS)).sample()
    reporter.put_later_events()
    assert outbox.events("environment") == []


def test_the_end_of_a_run_does_not_wait_for_a_disk_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FINISH_S", 0.05)
    hangs = threading.Event()
    monkeypatch.setattr("tocsin.system.git.read", lambda *given, **more: hangs.wait(30) and None)
    reporter = RunReporter(KeptOutbox(), KeptSender())
    recorder = EnvironmentRecorder(reporter, RunInfo("p", "n", identify("p", "n", 0)), {"git"})
    recorder.finish()  # nothing was sent yet, so nothing is recorded
    reporter.start()
    recorder.finish()
    assert not recorder._done.is_set()
    hangs.set()
    recorder.finish()
    assert recorder._done.wait(30)


def test_packages_are_read_from_the_names_of_their_folders(tmp_path: Path) -> None:
    """The first folder on the path wins; a folder that does not exist is skipped."""
    first, second = tmp_path / "a", tmp_path / "b"
    for folder, name in (
        (first, "Torch-2.6.0+cu124.dist-info"), (first, "flash_attn-2.7.dist-info"), (first, "own.egg-info"),
        (second, "torch-1.0.dist-info"), (second, "old-1.5-py3.11.egg-info"), (second, "torch"),
    ):  # fmt: skip
        (folder / name).mkdir(parents=True)
    found = packages([str(first), str(tmp_path / "none"), str(second)])
    assert found == {"flash-attn": "2.7", "old": "1.5", "torch": "2.6.0+cu124"}


def test_only_allowed_variables_are_recorded() -> None:
    environ = {"NCCL_ALGO": "Ring", "HOME": "/home/a", "MY_A": "1", "AWS_SECRET_ACCESS_KEY": "x"}
    assert variables(environ) == {"NCCL_ALGO": "Ring"}
    more = environ | {"TOCSIN_ENVIRONMENT_VARIABLES": "MY_*, OTHER"}
    assert variables(more) == {"NCCL_ALGO": "Ring", "MY_A": "1"}


def test_a_module_is_named_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/pkg/train.py", "-m", "3"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-u", "-m", "pkg.train", "-m", "3"])
    assert command_line() == ["-m pkg.train", "-m", "3"]
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py", "-m", "3"])
    assert command_line() == ["/x/pkg/train.py", "-m", "3"]


def test_gpus_are_found_without_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that the process uses."""
    for number in range(2):
        folder = tmp_path / "gpus" / f"0000:0{number}"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA H{number}\nIRQ: 3\n")
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat\n")
    monkeypatch.setattr(system_metrics, "PROC", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert installed_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == {
        "gpus": [{"name": "NVIDIA H1", "count": 1}],
        "driver": "535.104.05",
    }
