"""The demo as a command: it starts, prints where to look, and ends cleanly."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tocsin_server.core.errors import StartError
from tocsin_server.demo.launch import MARKER, clear, require_torch, training_command
from tocsin_server.store.ownership import sole_on_file

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """``tocsin-server demo`` in an empty directory; killed with its children if the test did not end it."""
    command = [
        sys.executable,
        "-m",
        "tocsin_server",
        "demo",
        "--port",
        "0",
        "--data-dir",
        str(tmp_path / "d"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                family = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                for child in family:
                    child.kill()


def read_until(process: subprocess.Popen[str], *words: str) -> str:
    """Return the output up to the line with the last of ``words`` to appear."""
    assert process.stdout is not None
    printed, missing = "", set(words)
    for line in process.stdout:
        printed += line
        missing -= {word for word in missing if word in line}
        if not missing:
            return printed
    raise AssertionError(f"expected {missing} in:\n{printed}")


def test_it_starts_and_ends_on_ctrl_c(demo: subprocess.Popen[str]) -> None:
    """It prints the login link, all trainings report, and Ctrl-C ends everything with status 0."""
    printed = read_until(
        demo, "/login?token=", "transformer  step 0", "deblur       step 0", "wgan         step 0"
    )
    assert "Ctrl-C ends it" in printed
    children = psutil.Process(demo.pid).children(recursive=True)
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=120)
    assert demo.returncode == 0
    assert not [child for child in children if child.is_running() and child.status() != "zombie"]


def run_demo_in(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tocsin_server", "demo", "--data-dir", str(directory), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ, check=False)


def test_it_never_clears_a_directory_it_did_not_create(tmp_path: Path) -> None:
    """A directory with files that no demo created is rejected, and the files stay."""
    (tmp_path / "thesis.txt").touch()
    ended = run_demo_in(tmp_path, "--port", "0")
    assert ended.returncode == 2
    assert "expected an empty directory" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    """If another server uses the port, the demo says so and does not send its trainings there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run_demo_in(tmp_path, "--port", str(taken.getsockname()[1]))
    assert ended.returncode == 2
    assert "Cannot listen on" in ended.stderr


@pytest.mark.parametrize(("keep", "left"), [(False, {MARKER}), (True, {MARKER, "tocsin.db"})])
def test_an_earlier_demo_is_cleared_unless_kept(tmp_path: Path, keep: bool, left: set[str]) -> None:
    """The next demo starts with an empty database, or with ``keep`` continues with the previous one."""
    clear(tmp_path, keep=False)
    (tmp_path / "tocsin.db").touch()
    clear(tmp_path, keep=keep)
    assert {path.name for path in tmp_path.iterdir()} == left | {"tocsin.db.lock"}


def test_a_demo_that_runs_is_not_cleared(tmp_path: Path) -> None:
    """The next demo on the same directory fails with an error, also on another port."""
    clear(tmp_path, keep=False)
    (tmp_path / "tocsin.db").touch()
    with sole_on_file(tmp_path / "tocsin.db"), pytest.raises(StartError, match="in use"):
        clear(tmp_path, keep=False)
    assert (tmp_path / "tocsin.db").exists()


def test_a_missing_torch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PyTorch, the demo says what to install before it starts anything."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StartError, match="pip install torch"):
        require_torch()


def test_trainings_are_bounded(tmp_path: Path) -> None:
    """A training is limited by steps if given, otherwise by time."""
    assert training_command("deblur", 100, tmp_path)[-2:] == ["--steps", "100"]
    assert training_command("deblur", None, tmp_path)[-2] == "--seconds"
