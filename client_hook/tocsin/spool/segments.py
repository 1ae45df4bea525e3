"""Unacknowledged frames on local disk, in append-only segment files; one directory for each writer.

    <spool dir>/<writer>/lock          held with flock while the owner lives
    <spool dir>/<writer>/header        server URL and handshake, without the token
    <spool dir>/<writer>/00000000.seg  entries: length, CRC-32, first number, count, kind, body
    <spool dir>/<writer>/ring          buffer of records that are in no segment yet, or a link to it

Frames are written with ``write(2)`` and without fsync, so they survive the death of the process but not a
power failure. A torn tail is read up to its last complete entry. A segment is deleted when everything in it
is acknowledged, the directory when everything is.

If the disk is full or not writable, or ``limit_bytes`` are used, nothing is discarded: ``append`` returns
False and tries again after ``RETRY_S`` seconds.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..core.frames import RECORDS, Frame
from ..protocol import Hello
from . import buffer_file

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    HAS_FLOCK = True
except ImportError:  # pragma: no cover - Windows: spools are written but not recovered
    HAS_FLOCK = False

SEGMENT_BYTES = 4 << 20
LIMIT_BYTES = 1 << 30
RETRY_S = 5.0
FORMAT = 1
_ENTRY = struct.Struct("<IIqIB")
Cursor = tuple[int, int]
"""Segment number and byte offset in it."""


class Header(msgspec.Struct):
    """What another process needs to deliver this spool: the server and the identity of the writer."""

    format: int
    url: str
    hello: Hello


@dataclass
class Segment:
    """One file: its size, and the highest numbers in it."""

    path: Path
    size: int
    last_record: int = -1
    last_event: int = -1


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
    """The segments of one writer. The owner appends; a process that recovers a spool only reads."""

    def __init__(
        self,
        root: Path,
        header: Callable[[], Header],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._header = header
        self._segment_bytes = segment_bytes
        self._limit = limit_bytes
        self._clock = clock
        self._retry_at = float("-inf")
        self._segments: dict[int, Segment] = {}
        self._next = 0
        self.bytes = 0
        """Bytes on disk."""
        self._lock_fd = self._write_fd = self._read_fd = -1
        self._reading = -1
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
        for file in sorted(path.glob("*.seg")):
            spool._segments[int(file.stem)] = Segment(file, file.stat().st_size)
        spool.bytes = sum(segment.size for segment in spool._segments.values())
        spool._next = max(spool._segments, default=-1) + 1
        return spool

    @property
    def header(self) -> Header:
        """The server and the identity of the writer."""
        return self._header()

    @property
    def start(self) -> Cursor:
        """Cursor of the oldest entry."""
        return (min(self._segments), 0) if self._segments else self.end

    @property
    def end(self) -> Cursor:
        """Cursor after the newest entry."""
        last = self._next - 1
        return (last, self._segments[last].size) if last in self._segments else (self._next, 0)

    def open(self) -> Path | None:
        """Create the directory; return None, and set ``error``, if that fails."""
        try:
            if self.path is None:
                self._create()
        except Exception as error:
            self._refuse(error)
        return self.path

    @property
    def is_writable(self) -> bool:
        """Whether ``append`` would try to write. False for ``RETRY_S`` after a failure."""
        return self._clock() >= self._retry_at

    def append(self, frame: Frame) -> bool:
        """Append ``frame``; return False, and set ``error``, if it cannot be written now."""
        if self._clock() < self._retry_at:
            return False
        try:
            self._write(frame)
        except Exception as error:
            self._refuse(error)
            return False
        self.error = None
        return True

    def _refuse(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or error
        self.error = f"spool {self.path or self._root}: {reason}"
        self._retry_at = self._clock() + RETRY_S

    def read(self, cursor: Cursor) -> tuple[Frame, Cursor] | None:
        """Return the first complete entry at or after ``cursor`` and the next cursor, or None at the end."""
        number, offset = cursor
        while number < self._next:
            segment = self._segments.get(number)
            if segment is not None and offset < segment.size:
                frame = self._read_entry(number, segment, offset)
                if frame is not None:
                    return frame, (number, offset + _ENTRY.size + len(frame.body))
                self.torn_bytes += segment.size - offset
            number, offset = number + 1, 0
        return None

    def release(self, seq: int, events: int) -> None:
        """Delete the closed segments in which everything is acknowledged."""
        for number in list(self._segments):
            segment = self._segments[number]
            known = segment.last_record >= 0 or segment.last_event >= 0
            done = segment.last_record <= seq and segment.last_event <= events
            if number == self._next - 1 or not (known and done):
                return
            self._drop(number)

    def delete(self) -> None:
        """Delete the directory, because everything is delivered, and release the lock."""
        if self.path is not None:
            buffer_file.delete(self.path)
            shutil.rmtree(self.path, ignore_errors=True)
        self._segments.clear()
        self.bytes = 0
        self.close()

    def close(self) -> None:
        """Close the descriptors. What is on disk stays for the next process."""
        for fd in (self._write_fd, self._read_fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._lock_fd = self._write_fd = self._read_fd = self._reading = -1

    def _write(self, frame: Frame) -> None:
        if self.path is None:
            self._create()
        entry = _entry(frame)
        if self.bytes + len(entry) > self._limit:
            raise OSError(0, f"its limit of {self._limit} bytes is used up")
        segment = self._segment_for(len(entry))
        written = 0
        try:
            while written < len(entry):
                written += os.write(self._write_fd, entry[written:])
        except OSError:
            self._cut_back(segment)
            raise
        segment.size += len(entry)
        self.bytes += len(entry)
        _note(segment, frame)

    def _cut_back(self, segment: Segment) -> None:
        """Remove a torn entry. If that fails, no more is written to the segment."""
        try:
            os.ftruncate(self._write_fd, segment.size)
        except OSError:
            os.close(self._write_fd)
            self._write_fd = -1

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

    def _segment_for(self, size: int) -> Segment:
        current = self._segments.get(self._next - 1)
        if current is not None and self._write_fd >= 0 and current.size + size <= self._segment_bytes:
            return current
        assert self.path is not None
        path = self.path / f"{self._next:08d}.seg"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if self._write_fd >= 0:
            os.close(self._write_fd)
        self._write_fd = fd
        segment = self._segments[self._next] = Segment(path, 0)
        self._next += 1
        return segment

    def _read_entry(self, number: int, segment: Segment, offset: int) -> Frame | None:
        if self._reading != number:
            if self._read_fd >= 0:
                os.close(self._read_fd)
            self._reading, self._read_fd = number, os.open(segment.path, os.O_RDONLY)
        head = os.pread(self._read_fd, _ENTRY.size, offset)
        length = _body_length(head)
        if length is None or offset + _ENTRY.size + length > segment.size:
            return None
        frame = _frame(head, os.pread(self._read_fd, length, offset + _ENTRY.size))
        if frame is not None:
            _note(segment, frame)
        return frame

    def _drop(self, number: int) -> None:
        segment = self._segments.pop(number)
        self.bytes -= segment.size
        if self._reading == number:
            os.close(self._read_fd)
            self._read_fd = self._reading = -1
        segment.path.unlink(missing_ok=True)


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
    header = msgspec.msgpack.decode((path / "header").read_bytes(), type=Header)
    if header.format != FORMAT:
        raise ValueError(f"spool {path}: expected format {FORMAT}, got {header.format}")
    return header


def without_token(header: Header) -> Header:
    """Return the header without its token, to be stored on disk."""
    return Header(header.format, header.url, msgspec.structs.replace(header.hello, token=""))


def _must_be_ours(root: Path) -> None:
    """Raise OSError if a directory belongs to another user."""
    if hasattr(os, "getuid") and root.stat().st_uid != os.getuid():
        raise OSError(0, f"expected a directory of user {os.getuid()}, got one of {root.stat().st_uid}")


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


def _entry(frame: Frame) -> bytes:
    tail = struct.pack("<qIB", frame.first, frame.count, frame.kind) + frame.body
    return struct.pack("<II", len(frame.body), zlib.crc32(tail)) + tail


def _body_length(head: bytes) -> int | None:
    return int.from_bytes(head[:4], "little") if len(head) == _ENTRY.size else None


def _frame(head: bytes, body: bytes) -> Frame | None:
    """Return the frame of a complete entry, or None if its checksum is wrong."""
    _, crc, first, count, kind = _ENTRY.unpack(head)
    if zlib.crc32(body, zlib.crc32(head[8:])) != crc:
        return None
    return Frame(kind, first, count, body)


def _note(segment: Segment, frame: Frame) -> None:
    if frame.kind == RECORDS:
        segment.last_record = max(segment.last_record, frame.last)
    else:
        segment.last_event = max(segment.last_event, frame.last)
