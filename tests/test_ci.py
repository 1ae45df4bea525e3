"""What ``.ci/run`` does with tests that pass only at their second run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent.parent / ".ci" / "run"
MAKE = """#!/bin/sh
[ "$1" = check ] && exit 0
echo "$*" >> runs
[ "$(wc -l < runs)" = 1 ] || exit {again}
[ -z '{failed}' ] || {{ mkdir -p .pytest_cache/v/cache; echo '{failed}' > .pytest_cache/v/cache/lastfailed; }}
exit {first}
"""


def ci(folder: Path, *failed: str, first: int = 1, again: int = 0) -> subprocess.CompletedProcess[str]:
    """Run ``.ci/run`` in ``folder`` with a ``make test`` of these results."""
    (folder / ".ci").mkdir()
    shutil.copy(RUN, folder / ".ci" / "run")
    make = folder / "bin" / "make"
    make.parent.mkdir()
    names = json.dumps(dict.fromkeys(failed, True)) if failed else ""
    make.write_text(MAKE.format(first=first, again=again, failed=names))
    make.chmod(0o755)
    env = os.environ | {"PATH": f"{make.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        [folder / ".ci" / "run"], capture_output=True, text=True, check=False, cwd=folder, env=env
    )


def test_a_suite_that_passes_runs_once(tmp_path: Path) -> None:
    """Nothing is reported."""
    done = ci(tmp_path, first=0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "runs").read_text() == "test\n"


def test_what_fails_twice_is_a_failure(tmp_path: Path) -> None:
    """The second run is of what failed."""
    assert ci(tmp_path, "tests/a.py::test_a", again=2).returncode == 2
    assert "--last-failed" in (tmp_path / "runs").read_text().splitlines()[1]


@pytest.mark.parametrize(("count", "status"), [(2, 0), (3, 1)])
def test_flaky_tests_are_named_and_few(tmp_path: Path, count: int, status: int) -> None:
    """Two pass, three do not."""
    names = [f"tests/a.py::test_a[{number} %d]" for number in range(count)]
    done = ci(tmp_path, *names)
    assert done.returncode == status
    assert f"{count} passed only at the second run:\n" + "\n".join(names) in done.stderr


def test_a_failure_of_no_test_is_a_failure(tmp_path: Path) -> None:
    """For example of the tests of the pages, which pytest does not run."""
    assert ci(tmp_path).returncode != 0
    assert (tmp_path / "runs").read_text() == "test\n"
