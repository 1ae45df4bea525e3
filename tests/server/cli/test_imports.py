"""Commands start fast: they import heavy packages only for work that needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.conftest import put_migrated

HEAVY = ("alembic", "fastapi", "numpy", "sqlalchemy", "starlette", "torch", "uvicorn",
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
    report = f"print('heavy:', [name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{report}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_token_commands_import_only_what_a_small_query_needs(tmp_path: Path) -> None:
    """On a database with the newest schema, they import SQLAlchemy, but neither Alembic nor the rules."""
    put_migrated(tmp_path / "tocsin.db")
    program = f"""
import sys
from typer.testing import CliRunner
from tocsin_server.cli.main import app

where = ["--data-dir", {str(tmp_path)!r}]
for arguments in (["create", "me", "--scope", "read"], ["list"], ["revoke", "admin"]):
    done = CliRunner().invoke(app, ["token", *arguments, *where])
    assert done.exit_code == 0, done.output
made = CliRunner().invoke(app, ["token", "list", *where]).stdout
done = CliRunner().invoke(app, ["token", "revoke", made.splitlines()[-1].split()[0], *where])
assert "is revoked" in done.stdout, done.output
assert CliRunner().invoke(app, ["migrate", *where]).exit_code == 0
print(sorted(name for name in {HEAVY} if name in sys.modules))
ours = [name for name in sys.modules if name.startswith("tocsin_server.")]
assert len(ours) < 40, ours
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['sqlalchemy']"
