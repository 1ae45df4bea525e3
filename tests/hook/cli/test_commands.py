"""The ``tocsin`` command itself. The tests of its subcommands are in separate files."""

from __future__ import annotations

import subprocess
import sys


def test_the_command_explains_itself() -> None:
    """Without a command: usage, and exit status 2."""
    done = subprocess.run([sys.executable, "-m", "tocsin.cli"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage: tocsin" in done.stderr
