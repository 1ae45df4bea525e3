"""A small file system that a test can fill completely."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SIZE_MB = 32


class NoSmallDiskError(Exception):
    """A small disk cannot be mounted: only root may do that, and not in every container."""


@contextlib.contextmanager
def small_disk(size_mb: int = SIZE_MB) -> Iterator[Path]:
    """Mount a file system of that size; yield its folder, which is accessible to Postgres's user too.

    Raises:
        NoSmallDiskError: this process may not mount one.
    """
    with tempfile.TemporaryDirectory(prefix="tocsin-disk-") as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "disk"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
            raise NoSmallDiskError("only root may mount a small disk")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Create a file that uses all remaining space; return its path."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast
