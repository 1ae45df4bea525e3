"""Create the file of the log's memory: its pages survive the process and are allocated before mapping.

The file is in /dev/shm if possible: its pages are never written back, so packing a record never waits for a
disk. Otherwise it is in the spool's directory, if that is on a file system of LOCAL. It is never on NFS,
where a page fault may hang, nor on a copy-on-write file system, where the allocated blocks are not those that
are written: a store without room raises SIGBUS, which would end the training.

Each run has one file of SIZE bytes (4.3 MiB), which is deleted with its spool. The next run deletes files
whose spool is gone after SWEEP_S.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from ..core.identity import boot_id
from .log import OWNER_AT, OWNER_BYTES, SIZE, is_of_boot, prepare

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    CAN_SHARE = hasattr(os, "posix_fallocate") and os.path.exists("/proc/self/mountinfo")
except ImportError:  # pragma: no cover - Windows
    CAN_SHARE = False

SHM = Path("/dev/shm")  # noqa: S108 - a directory of this user's own is made in it
LOCAL = {"tmpfs", "ext2", "ext3", "ext4", "xfs"}
"""File systems on which a store into the mapping uses the blocks that posix_fallocate has allocated."""
NAME = "log"
"""Name in the spool's directory of the memory's file, or of a link to it."""
SWEEP_S = 3600.0


class LogFile:
    """Mapped memory for a log and its file, locked while its owner lives."""

    def __init__(self, path: Path, fd: int, memory: mmap.mmap) -> None:
        self.path = path
        self.memory = memory
        self._fd = fd

    def close(self) -> None:
        """Unmap the memory. The file stays."""
        with contextlib.suppress(BufferError):  # a thread still uses it
            self.memory.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def create(spool: Path) -> LogFile:
    """Create memory for the spool directory ``spool``.

    Raises:
        OSError: No place is suitable; the message names each place and why.
    """
    spool = spool.absolute()
    if not CAN_SHARE:
        raise OSError(0, "this system cannot allocate memory that outlives a process")
    reasons = []
    for place in (_own_directory(), spool):
        try:
            kind = filesystem_of(place)
            if kind not in LOCAL:
                raise OSError(0, f"expected one of {', '.join(sorted(LOCAL))}, got {kind}")
            return _create(place, spool)
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
    raise OSError(0, "; ".join(reasons))


def memory_of(spool: Path) -> mmap.mmap | None:
    """Map the log that a dead process left in ``spool``; return None if there is none of this boot."""
    try:
        fd = os.open(spool / NAME, os.O_RDWR)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if status.st_size != SIZE or status.st_uid != os.getuid():
            return None
        memory = mmap.mmap(fd, SIZE)
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    if is_of_boot(memory, boot_id()):
        return memory
    memory.close()
    return None


def link(log: Path, spool: Path) -> None:
    """Let the spool directory ``spool`` refer to the log, so that another process finds it."""
    os.symlink(log, spool / NAME)


def delete(spool: Path) -> None:
    """Delete the memory of ``spool``."""
    path = spool / NAME
    try:
        if path.is_symlink():
            os.unlink(os.readlink(path))
        path.unlink()
    except OSError:
        pass


def sweep(now: float) -> None:
    """Delete the logs of this user whose owner is dead and whose spool is gone or uses another one."""
    for path in _logs(now):
        fd = -1
        try:
            fd = os.open(path, os.O_RDWR)
            flock(fd, LOCK_EX | LOCK_NB)
            if not _is_wanted(fd, path):
                path.unlink()
        except OSError:
            pass
        finally:
            if fd >= 0:
                os.close(fd)


def filesystem_of(path: Path, mounts: str = "/proc/self/mountinfo") -> str:
    """Return the type of the file system of ``path``, found by the longest mount point above it."""
    real = os.path.realpath(path)
    best, kind = "", "none"
    with open(mounts, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields, _, rest = line.partition(" - ")
            point = fields.split(" ")[4].replace("\\040", " ")
            above = real == point or real.startswith(point.rstrip("/") + "/")
            if above and len(point) >= len(best):
                best, kind = point, rest.split(" ")[0]
    return kind


def _own_directory() -> Path:
    return SHM / f"tocsin-{os.getuid()}"


def _create(place: Path, spool: Path) -> LogFile:
    if place == spool:
        path = place / NAME
    else:
        place.mkdir(mode=0o700, exist_ok=True)
        if place.lstat().st_uid != os.getuid():
            raise OSError(0, "it belongs to another user")
        path = place / f"{spool.name}-{secrets.token_hex(4)}.log"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(fd, 0, SIZE)
        flock(fd, LOCK_EX | LOCK_NB)
        memory = mmap.mmap(fd, SIZE, flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        prepare(memory, boot_id(), os.fsencode(spool)[:OWNER_BYTES])
        if path.parent != spool:
            link(path, spool)
    except BaseException:
        os.close(fd)
        path.unlink(missing_ok=True)
        raise
    return LogFile(path, fd, memory)


def _logs(now: float) -> Iterator[Path]:
    try:
        found = list(_own_directory().glob("*.log"))
    except OSError:
        return
    for path in found:
        try:
            if now - path.stat().st_mtime > SWEEP_S:
                yield path
        except OSError:
            continue


def _is_wanted(fd: int, path: Path) -> bool:
    """Return whether its spool still refers to it."""
    head = os.pread(fd, 2 + OWNER_BYTES, OWNER_AT)
    spool = os.fsdecode(head[2 : 2 + int.from_bytes(head[:2], "little")])
    try:
        return bool(spool) and os.readlink(os.path.join(spool, NAME)) == str(path)
    except OSError:
        return False
