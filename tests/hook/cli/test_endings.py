"""How commands end if their output is not read, if it cannot be written, and at Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = ("--version", "--help", "runs list --help", "sync .", "enable --json --help")
TOCSIN = (sys.executable, "-m", "tocsin.cli")


def ended(command: str, stdout: int, folder: Path) -> tuple[int, str]:
    """Return the exit status and the errors of a command that buffers its output, as outside of tests."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [*TOCSIN, *command.split()],
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environ,
        check=False,
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_read_enough_ends_it_silently(command: str, tmp_path: Path) -> None:
    """As ``tocsin ... | head`` does."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert ended(command, writing, tmp_path) == (0, "")
    finally:
        os.close(writing)


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_cannot_be_written_is_one_line(command: str, tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        assert ended(command, full.fileno(), tmp_path) == (2, "tocsin: [Errno 28] No space left on device\n")


def test_without_a_standard_output_it_works() -> None:
    """As ``tocsin ... >&-`` in a job of cron."""
    line = f"exec {sys.executable} -m tocsin.cli doctor --url http://127.0.0.1:9 >&-"
    done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("command", ["runs list", "runs logs run -f", "doctor", "export lake"])
def test_ctrl_c_ends_it_silently(command: str, tmp_path: Path) -> None:
    """While it waits for a server: exit status 130, as a shell has it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        line = [*TOCSIN, *command.split(), "--url", url]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
        with process, server.accept()[0]:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")


@pytest.mark.parametrize(
    ("module", "imported"), [("tocsin.cli", "tocsin.cli.commands"), ("tocsin_server.__main__", "typer")]
)
def test_an_interrupt_during_the_imports_has_no_traceback(module: str, imported: str) -> None:
    """Ctrl-C in the first second of a command."""
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {imported!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        f"from {module} import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")
