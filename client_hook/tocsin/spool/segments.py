"""Blocks of the log on local disk, in one file per block; one directory for each writer.

    <spool dir>/<writer>/lock          held with flock while the owner lives
    <spool dir>/<writer>/header        server URL and handshake, without the token
    <spool dir>/<writer>/00000007.seg  block 7, in pieces: length, CRC-32, entries (entries.py)
    <spool dir>/<writer>/log           the blocks in shared memory, or a link to them (log_file.py)

Pieces are written with ``write(2)`` and without fsync, so they survive the death of the process but not a
power failure. A torn tail is read up to its last complete piece. The directory is deleted when everything is
acknowledged.

If the disk is full or not writable, or ``limit_bytes`` are used, nothing is discarded: ``append`` returns
False and tries again after ``RETRY_S`` seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from ..protocol import Hello
from . import log_file

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    HAS_FLOCK = True
except ImportError:  # pragma: no cover - Windows: spools are written but not recovered
    HAS_FLOCK = False

LIMIT_BYTES = 1 << 30
RETRY_S = 5.0
FORMAT = 2
_PIECE = struct.Struct("<II")


class Header(msgspec.Struct):
    """What another process needs to deliver this spool: the server and the identity of the writer."""

    format: int
    url: str
    hello: Hello


_headers = msgspec.msgpack.Decoder(Header)
"""Made on import: msgspec crashes the process if two threads are the first to decode a type."""


def default_dir() -> Path:
    """Return ``TOCSIN_SPOOL_DIR``, or else a directory of this user on a local disk that survives a reboot.

    The home directory is not used: on clusters it is often on NFS, where flock and writes may hang.
    """
    named = os.environ.get("TOCSIN_SPOOL_DIR")
    if named:
        return Path(named)
    base = Path("/var/tmp") if os.access("/var/tmp", os.W_OK) else Path(tempfile.gettempdir())  # noqa: S108
    return base / f"tocsin-{os.getuid() if hasattr(os, 'getuid') else os.environ.get('USERNAME', 'user')}"


def writer_name(hello: Hello) -> str:
    """Return the name of a writer's directory: readable, and unique by boot, process, start and run."""
    writer = hello.writer
    key = zlib.crc32(repr((hello.project, hello.name, hello.run, writer)).encode())
    return f"rank{writer.rank}-pid{writer.pid}-{writer.started_ns:x}-{key:08x}"


class Spool:
    """The blocks of one writer. The owner appends; a process that recovers a spool only reads."""

    def __init__(
        self,
        root: Path,
        header: Callable[[], Header],
        *,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._header = header
        self._limit = limit_bytes
        self._clock = clock
        self._retry_at = float("-inf")
        self._sizes: dict[int, int] = {}
        self.size = 0
        """Bytes on disk."""
        self._lock_fd = self._write_fd = -1
        self._writing = -1
        self.path: Path | None = None
        self.error: str | None = None
        """Why nothing can be written now, or None."""
        self.torn_bytes = 0
        """Number of damaged bytes that were skipped while reading."""

    @classmethod
    def recover(cls, path: Path) -> Spool | None:
        """Lock and return the spool of a dead process; None if its owner lives or it is gone."""
        lock_fd = _locked(path / "lock")
        if lock_fd < 0:
            return None
        try:
            header = read_header(path)
        except (OSError, msgspec.MsgspecError, ValueError):
            os.close(lock_fd)
            return None
        spool = cls(path.parent, lambda: header)
        spool.path, spool._lock_fd = path, lock_fd
        spool._sizes = {int(file.stem): file.stat().st_size for file in path.glob("*.seg")}
        spool.size = sum(spool._sizes.values())
        return spool

    @property
    def header(self) -> Header:
        """The server and the identity of the writer."""
        return self._header()

    @property
    def numbers(self) -> Collection[int]:
        """Numbers of the blocks on disk."""
        return self._sizes.keys()

    def open(self) -> Path | None:
        """Create the directory; return None, and set ``error``, if that fails."""
        try:
            if self.path is None:
                self._create()
        except Exception as error:
            self._refuse(error)
        return self.path

    @property
    def is_deleted(self) -> bool:
        """Whether its directory was deleted while this process uses it."""
        try:
            if self.path is not None:
                os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # it cannot be reached at the moment, such as on a network's file system
            pass
        return False

    def reopen(self) -> Path | None:
        """Create the directory again, empty, after it was deleted; see :meth:`open`."""
        self.close()
        self._sizes.clear()
        self.size = 0
        self.path = None
        return self.open()

    def append(self, block: int, piece: memoryview) -> bool:
        """Append to the file of ``block``; return False, and set ``error``, if it cannot be written now."""
        if self._clock() < self._retry_at:
            return False
        try:
            self._write(block, piece)
        except Exception as error:
            self._refuse(error)
            return False
        self.error = None
        return True

    def _refuse(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or error
        self.error = f"offline buffer {self.path or self._root}: {reason}"
        self._retry_at = self._clock() + RETRY_S

    def load(self, block: int) -> bytes:
        """Return what is on disk of ``block``, up to the first damaged piece."""
        try:
            data = (self._directory / _name(block)).read_bytes() if block in self._sizes else b""
        except OSError:
            data = b""
        pieces, at = [], 0
        while at + _PIECE.size <= len(data):
            length, crc = _PIECE.unpack_from(data, at)
            piece = data[at + _PIECE.size : at + _PIECE.size + length]
            if len(piece) < length or zlib.crc32(piece) != crc:
                break
            pieces.append(piece)
            at += _PIECE.size + length
        self.torn_bytes += len(data) - at
        return b"".join(pieces)

    def drop(self, block: int) -> None:
        """Delete the file of ``block``, if there is one."""
        if block in self._sizes:
            self.size -= self._sizes.pop(block)
            if self._writing == block:
                self._stop_writing()
            (self._directory / _name(block)).unlink(missing_ok=True)

    def delete(self) -> None:
        """Delete the directory, because everything is delivered, and release the lock."""
        if self.path is not None:
            log_file.delete(self.path)
            shutil.rmtree(self.path, ignore_errors=True)
        self._sizes.clear()
        self.size = 0
        self.close()

    def close(self) -> None:
        """Close the descriptors. What is on disk stays for the next process."""
        self._stop_writing()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
        self._lock_fd = -1

    @property
    def _directory(self) -> Path:
        assert self.path is not None
        return self.path

    def _stop_writing(self) -> None:
        if self._write_fd >= 0:
            os.close(self._write_fd)
        self._write_fd = self._writing = -1

    def _write(self, block: int, piece: memoryview) -> None:
        if self.path is None:
            self._create()
        data = _PIECE.pack(len(piece), zlib.crc32(piece)) + piece
        if self.size + len(data) > self._limit:
            raise OSError(0, f"its limit of {self._limit} bytes is used up")
        if self._writing != block:
            self._stop_writing()
            self._write_fd = os.open(self._directory / _name(block), os.O_WRONLY | os.O_CREAT, 0o600)
            self._writing = block
        size, written = self._sizes.setdefault(block, 0), 0
        os.lseek(self._write_fd, size, os.SEEK_SET)
        try:
            while written < len(data):
                written += os.write(self._write_fd, data[written:])
        except OSError:
            with contextlib.suppress(OSError):  # otherwise the next piece overwrites the torn one
                os.ftruncate(self._write_fd, size)
            raise
        self._sizes[block] = size + len(data)
        self.size += len(data)

    def _create(self) -> None:
        """Create the directory under a hidden name, and rename it once it is locked and has its header."""
        header = self._header()
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _must_be_ours(self._root)
        path = self._root / writer_name(header.hello)
        hidden = path.with_name("." + path.name)
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(mode=0o700)
        (hidden / "header").write_bytes(msgspec.msgpack.encode(without_token(header)))
        (hidden / "lock").touch(0o600)
        lock_fd = _locked(hidden / "lock")
        hidden.rename(path)
        self.path, self._lock_fd = path, lock_fd


def find_spools(root: Path) -> Iterator[Path]:
    """Yield the spools in ``root``, also those of living owners, ordered by name."""
    try:
        found = [path for path in root.iterdir() if (path / "header").is_file() and path.name[0] != "."]
    except OSError:
        return
    yield from sorted(found, key=lambda path: path.name)


def read_header(path: Path) -> Header:
    """Return the header of the spool at ``path``.

    Raises:
        OSError: It cannot be read.
        ValueError: It has another format.
        msgspec.MsgspecError: it is damaged.
    """
    header = _headers.decode((path / "header").read_bytes())
    if header.format != FORMAT:
        raise ValueError(f"offline buffer {path}: expected format {FORMAT}, got {header.format}")
    return header


def without_token(header: Header) -> Header:
    """Return the header without its token, to be stored on disk."""
    return Header(header.format, header.url, msgspec.structs.replace(header.hello, token=""))


def _must_be_ours(root: Path) -> None:
    """Raise OSError if a directory belongs to another user."""
    if hasattr(os, "getuid") and root.stat().st_uid != os.getuid():
        raise OSError(0, f"the directory belongs to user {root.stat().st_uid}, not to {os.getuid()}")


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock, or -1 if another process holds it."""
    if not HAS_FLOCK:  # pragma: no cover
        return -1
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return -1
    try:
        flock(fd, LOCK_EX | LOCK_NB)
    except OSError:
        os.close(fd)
        return -1
    return fd


def _name(block: int) -> str:
    return f"{block:08d}.seg"
