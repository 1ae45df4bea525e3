"""What the tests of all trainers share."""

from __future__ import annotations

import os
from pathlib import Path

from tests.real_trainers.comparison import LONGEST_S, delete_locks


def test_the_lock_of_a_killed_build_is_deleted(tmp_path: Path) -> None:
    """No build takes longer than a training may; a newer lock may belong to one that runs."""
    for name, age in (("killed", LONGEST_S + 60), ("running", 0)):
        lock = tmp_path / name / "lock"
        lock.parent.mkdir()
        lock.touch()
        os.utime(lock, (lock.stat().st_atime, lock.stat().st_mtime - age))
    delete_locks(tmp_path)
    assert [path.parent.name for path in tmp_path.glob("*/lock")] == ["running"]
