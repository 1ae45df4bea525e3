"""Commands start fast: they import heavy packages only for work that needs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("alembic", "fastapi", "numpy", "plotly", "sqlalchemy", "starlette", "torch", "uvicorn",
         "websockets")  # fmt: skip
SERVER = """
import sys
from typer.main import get_command
from typer.testing import CliRunner
from tocsin_server.cli.main import app

def commands(command, path=()):
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))

called = [[*path, "--help"] for path in commands(get_command(app))] + [["--version"], ["token", "create"]]
assert len(called) > 20, called
for arguments in called:
    assert CliRunner().invoke(app, arguments).stdout or arguments == ["token", "create"], arguments
"""
HOOK = """
import contextlib, sys
from tocsin.cli.commands import main

for arguments in ([], ["--version"], *([name, "--help"] for name in ("doctor", "sync", "tail", "import"))):
    sys.argv = ["tocsin", *arguments]
    with contextlib.suppress(SystemExit):
        main()
"""


@pytest.mark.parametrize("program", [SERVER, HOOK], ids=["tocsin-server", "tocsin"])
def test_help_needs_no_heavy_package(program: str) -> None:
    """The help of every command, the version, and a missing argument."""
    said = f"print('heavy:', [name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{said}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"
