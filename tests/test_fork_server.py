"""A forked training is what ``python COMMAND`` would be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fork_server

SHOW = "import sys; print(__name__, sys.argv[1:], sys.orig_argv[1:], sys.path)"
FAIL = "def fail():\n    raise ValueError('no')\n\nfail()\n"


def forked(output: Path, *command: str) -> tuple[int, str]:
    """Return status and output of the forked command."""
    with (
        output.open("wb") as file,
        fork_server.train(*command, env=dict(os.environ), stdout=file.fileno(), stderr=file.fileno()) as it,
    ):
        status = it.wait(60)
    return status, output.read_text("utf-8")


def fresh(*command: str) -> tuple[int, str]:
    """Return status and output of the command in a fresh interpreter."""
    line = [sys.executable, *command]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("how", ["script", "code", "failing script", "sys.exit", "module"])
def test_it_is_what_python_would_run(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same name, arguments, path, status and traceback."""
    monkeypatch.setenv("PYTHONPATH", "/one::/two")
    script = tmp_path / "script.py"
    script.write_text(FAIL if how == "failing script" else SHOW, "utf-8")
    command = {
        "code": ["-c", SHOW, "one", "two"],
        "sys.exit": ["-c", "import sys; sys.exit(3)"],
        "module": ["-m", "json.tool", "--help"],
    }.get(how, [str(script), "one", "two"])
    assert forked(tmp_path / "output", *command) == fresh(*command)


def test_torch_is_imported(tmp_path: Path) -> None:
    """With what the first optimizer needs, which takes longer than torch itself."""
    code = "import sys; print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    assert forked(tmp_path / "output", "-c", code) == (0, "True True\n")
