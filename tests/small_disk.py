"""A file system of its own that a test can fill to the last byte."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SIZE_MB = 32


class NoSmallDiskError(Exception):
    """Only root may mount one, and not in every container."""


@contextlib.contextmanager
def small_disk(size_mb: int = SIZE_MB) -> Iterator[Path]:
    """A folder with so much room, where Postgres can get too: run by root, it is another user.

    Raises NoSmallDiskError where this process may not mount one.
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
    """A file that takes all the room that is left."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast
