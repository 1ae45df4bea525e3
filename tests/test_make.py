"""The commands of the Makefile."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_a_failing_bench_neither_hides_the_others_nor_is_hidden(tmp_path: Path) -> None:
    """All benchmarks run, the one that failed is named last, and the exit status is nonzero."""
    if not shutil.which("make") or not (ROOT / "build" / "stamps" / "python").exists():
        pytest.skip("make, and an environment that it has set up, are expected")
    good, bad, last = (tmp_path / f"bench_{name}.py" for name in ("good", "bad", "last"))
    good.write_text("print('good ran')")
    bad.write_text("raise SystemExit(3)")
    last.write_text("print('last ran')")
    command = [
        "make",
        "--old-file=build/stamps/python",
        "--old-file=browser",
        "bench",
        f"BENCHES={good} {bad} {last}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "good ran" in done.stdout
    assert "last ran" in done.stdout
    assert f"failed: {bad}" in done.stderr
    assert done.returncode != 0
