"""Commit, branch and uncommitted changes, read with the real git in bounded time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hook.ingest_server import wait_until
from tests.matrix import ALL, STALL_S
from tocsin.system.git import DIFF_BYTES, LIMIT_S, SENT_BYTES, read

PATIENT_S = 30.0
"""A limit for tests that are not about time, on a busy machine."""
Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """``git("commit", ...)``: run git in a new repository with one commit of ``train.py`` on ``main``."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@b")

    def run(*arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=tmp_path, input=given, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    run("init", "-q", "-b", "main")
    (tmp_path / "train.py").write_text("lr = 1\n")
    run("add", ".")
    run("commit", "-qm", "first")
    return run


def test_a_clean_repository(git: Git, tmp_path: Path) -> None:
    """From a folder below it. Files that git does not track are no changes."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "notes.txt").write_text("new")
    found = read([str(tmp_path / "sub")], diff=True, limit_s=PATIENT_S)
    assert found == {"commit": git("rev-parse", "HEAD"), "branch": "main", "dirty": False}


def test_uncommitted_changes_have_a_digest_and_are_sent_on_request(git: Git, tmp_path: Path) -> None:
    """Staged or not; other changes have another digest."""
    (tmp_path / "train.py").write_text("lr = 2\n")
    first = read([str(tmp_path)], limit_s=PATIENT_S)
    git("add", ".")
    staged = read([str(tmp_path)], diff=True, limit_s=PATIENT_S)
    (tmp_path / "train.py").write_text("lr = 3\n")
    other = read([str(tmp_path)], limit_s=PATIENT_S)
    assert first and staged and other  # noqa: PT018 - all or none
    assert "diff" not in first
    assert "-lr = 1\n+lr = 2\n" in staged["diff"]
    assert first["digest"] == staged["digest"] != other["digest"]


def test_a_detached_head_has_no_branch(git: Git, tmp_path: Path) -> None:
    git("checkout", "-q", "--detach")
    assert read([str(tmp_path)], limit_s=PATIENT_S) == {"commit": git("rev-parse", "HEAD"), "dirty": False}


def test_where_there_is_no_commit_there_is_nothing(git: Git, tmp_path: Path) -> None:
    """No repository, one without a commit, and a folder that does not exist; then the next folder counts."""
    git("checkout", "-q", "--orphan", "empty")
    missing = str(tmp_path / "missing")
    assert read([missing, str(tmp_path.parent), str(tmp_path)], limit_s=PATIENT_S) is None
    git("checkout", "-q", "-f", "main")
    assert read([missing, str(tmp_path.parent), str(tmp_path)], limit_s=PATIENT_S) is not None


def test_without_git_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read([str(tmp_path)]) is None


def test_a_git_that_hangs_is_killed_with_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "git"
    script.write_text(f"#!/bin/sh\nsleep 977 & echo $! > {tmp_path}/child; wait\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    began = time.monotonic()
    assert read([str(tmp_path), "/"]) is None
    assert time.monotonic() - began < LIMIT_S + 1.0 + STALL_S
    child = int((tmp_path / "child").read_text())
    status = Path(f"/proc/{child}/status")
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text())


def test_large_changes_are_cut_at_a_line(git: Git, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n" * SENT_BYTES)
    found = read([str(tmp_path)], diff=True, limit_s=PATIENT_S)
    assert found
    assert found["diff_cut"] is True
    assert SENT_BYTES - 100 < len(found["diff"]) <= SENT_BYTES
    assert found["diff"].endswith("x = 1\n")


def test_a_repository_of_100_000_files_takes_no_longer(git: Git, tmp_path: Path) -> None:
    """All of them are deleted, so the changes are larger than what is read. With ``make test-all``, they
    exist."""
    blob = git("hash-object", "-w", "train.py")
    names = [f"f{number // 1000:03}/{number:06}" for number in range(100_000)]
    git("update-index", "--index-info", given="".join(f"100644 {blob}\t{name}\n" for name in names))
    git("commit", "-qm", "many")
    if ALL:
        git("checkout-index", "-a")
    began = time.monotonic()
    found = read([str(tmp_path)])
    assert time.monotonic() - began < LIMIT_S + 1.0 + STALL_S
    assert found
    assert (found["commit"], found["branch"]) == (git("rev-parse", "HEAD"), "main")
    patient = read([str(tmp_path)], diff=True, limit_s=PATIENT_S)
    assert patient
    assert patient["dirty"] is (not ALL)
    assert len(patient.get("diff", "")) <= SENT_BYTES < DIFF_BYTES
