"""The number of cores that this process may use: its CPU affinity, and the CPU limit of its container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cores(root: Path = ROOT, own: Path = OWN) -> int:
    """Return the number of whole cores, at least 1.

    Args:
        root: Where the cgroup file systems are mounted.
        own: The file that names the cgroups of this process.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min([affinity, *_quotas(root, own)])))


def _quotas(root: Path, own: Path) -> Iterator[float]:
    """Yield the limits of all cgroups of this process in cores, versions 2 and 1."""
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            path = PurePosixPath("/", name.lstrip("/"))
            for each in (path, *path.parents):  # in a container, its own may be mounted as the root
                folder = str(each).lstrip("/")
                if not controllers:
                    yield from _quota(root / folder / "cpu.max")
                elif "cpu" in controllers.split(","):
                    v1 = root / controllers / folder
                    yield from _quota(v1 / "cpu.cfs_quota_us", v1 / "cpu.cfs_period_us")


def _quota(*files: Path) -> Iterator[float]:
    """Yield quota / period as written in ``files``, unless there is no limit."""
    with suppress(OSError, ValueError):
        quota, period = map(float, " ".join(file.read_text() for file in files).split())
        if quota > 0 < period:
            yield quota / period
