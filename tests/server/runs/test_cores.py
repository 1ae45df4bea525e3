"""Cores of a container: the smallest of the CPU affinity and the limits of its cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin_server.runs.cores import cores


@pytest.fixture(autouse=True)
def _eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(8)), raising=False)


def counted(folder: Path, own: str, **files: str) -> int:
    """Return the cores if /proc/self/cgroup contains ``own``, and the cgroups these files."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "own").write_text(own)
    return cores(folder, folder / "own")


@pytest.mark.parametrize(("limit", "expected"), [("max", 8), ("350000", 3), ("50000", 1), ("9900000", 8)])
def test_version_2(tmp_path: Path, limit: str, expected: int) -> None:
    """A limit is rounded down, to at least one core; without one, the affinity counts."""
    assert counted(tmp_path, "0::/\n", **{"cpu.max": f"{limit} 100000\n"}) == expected


def test_a_limit_of_a_parent_counts(tmp_path: Path) -> None:
    """As of a pod around its container."""
    files = {"pod/one/cpu.max": "max 100000\n", "pod/cpu.max": "200000 100000\n"}
    assert counted(tmp_path, "0::/pod/one\n", **files) == 2


@pytest.mark.parametrize(("limit", "expected"), [("-1", 8), ("200000", 2)])
def test_version_1(tmp_path: Path, limit: str, expected: int) -> None:
    """The path is that of the host, while the container's cgroup is mounted as the root."""
    files = {"cpu,cpuacct/cpu.cfs_quota_us": limit, "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}
    assert counted(tmp_path, "3:cpu,cpuacct:/docker/a1\n2:memory:/docker/a1\n", **files) == expected


def test_without_cgroups(tmp_path: Path) -> None:
    """As on macOS, and with files that have other contents."""
    assert cores(tmp_path, tmp_path / "absent") == 8
    assert counted(tmp_path, "0::/\n", **{"cpu.max": "many\n"}) == 8
