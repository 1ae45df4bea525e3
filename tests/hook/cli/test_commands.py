"""The ``tocsin`` command itself. The tests of its subcommands are in separate files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_the_command_explains_itself() -> None:
    """Without a command: usage, and exit status 2."""
    done = subprocess.run([sys.executable, "-m", "tocsin.cli"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: tocsin" in done.stderr


def test_a_log_is_diagnosed_by_the_rules_of_the_server(tmp_path: Path) -> None:
    """In a folder, with the options and the exit status of ``tocsin-server diagnose``."""
    lines = [json.dumps({"step": step, "loss": 1.0 if step < 30 else float("nan")}) for step in range(60)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    command = [
        sys.executable,
        "-m",
        "tocsin.cli",
        "diagnose",
        str(tmp_path),
        "--json",
        "--fail-on",
        "critical",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "nonfinite-loss" in done.stdout
