"""``tocsin tail FILE``: follow a growing log and report it as a run."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from ..core.handshake import RunInfo
from ..core.identity import identify, named_host
from ..importers import Format, Head, Item, LogRecord, Stream, UnreadableLogError, detect
from .log_run import Destination, LogRun

CHUNK = 1 << 20
PAUSE_S = 0.5
ROWS = 3
"""Number of ``key=value`` lines that identify the format, more than in a page of settings."""
HEAD_LIMIT = 8 << 20
"""Bytes at the beginning of a file that are kept until a format is recognized."""


class FileFollower:
    """Read what is appended to a file. A file that was replaced or truncated is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._inode: tuple[int, int] | None = None

    def read(self) -> tuple[bytes, bool]:
        """Return new bytes, empty if there are none, and whether they start a new file."""
        if self._file is None:
            return self._open(), False
        data = self._file.read(CHUNK)
        if data:
            return data, False
        return self._look()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _look(self) -> tuple[bytes, bool]:
        """At the end of the file, continue reading if it was replaced or truncated."""
        assert self._file is not None
        try:
            now = self._path.stat()
        except OSError:
            return b"", False  # the file is being rotated
        if (now.st_dev, now.st_ino) != self._inode:
            rest = self._file.read(CHUNK)  # written after the last read, before the rotation
            if rest:
                return rest, False
            self.close()
            return self._open(), True
        if now.st_size < self._file.tell():
            self._file.seek(0)
            return self._file.read(CHUNK), True
        return b"", False

    def _open(self) -> bytes:
        try:
            self._file = self._path.open("rb", buffering=0)
        except OSError:
            return b""
        found = os.fstat(self._file.fileno())
        self._inode = (found.st_dev, found.st_ino)
        return self._file.read(CHUNK)


class GrowingLog:
    """Records of a growing file. Detects its format, and counts a file that starts again as a new attempt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.format: Format | None = None
        self._head = b""
        self._stream: Stream | None = None
        self._first_attempt = self._attempt = 0
        self._any = False

    def feed(self, data: bytes, rewritten: bool) -> list[Item]:
        """Return the records that are complete now.

        Raises:
            UnreadableLogError: The format rewrites its file instead of appending to it.
        """
        items = self.end() if rewritten else []
        if rewritten:
            self._stream, self._head = None, b""
            self._first_attempt = self._attempt + int(self._any)
        if self._stream is None:
            data = self._recognize(data)
        if self._stream is not None:
            items += [self._placed(item) for item in self._stream.feed(data)]
        return items

    def end(self) -> list[Item]:
        """Return the records of a last line without a line break."""
        if self._stream is None:
            return []
        return [self._placed(item) for item in self._stream.end()]

    def _recognize(self, data: bytes) -> bytes:
        """Buffer the beginning until a format is recognized; then return all of it."""
        self._head += data
        found = detect(Head(self._head, self.path.name)) if data else None
        if found is None or (found.order >= 90 and found.sniff(Head(self._head)) < ROWS):
            self._head = self._head[-HEAD_LIMIT:]
            return b""
        if not found.grows:
            raise UnreadableLogError(
                f"{self.path}: cannot be followed, because a {found.name} file is rewritten each "
                "time. Use `tocsin import` when the training has ended."
            )
        self.format, self._stream = found, Stream(found)
        head, self._head = self._head, b""
        return head

    def _placed(self, item: Item) -> Item:
        if not isinstance(item, LogRecord):
            return item
        self._any = True
        self._attempt = self._first_attempt + item.attempt
        return replace(item, attempt=self._attempt)


def follow(
    path: Path,
    run: LogRun,
    *,
    stop: Callable[[int], bool],
    pause: Callable[[], object] = lambda: time.sleep(PAUSE_S),
    on_format: Callable[[str], None] = lambda text: None,
) -> int:
    """Report ``path`` until ``stop(looks)`` is true.

    Args:
        path: The log file.
        run: The run to report it as.
        stop: Is called with the number of consecutive reads without new data.
        pause: Waits between two such reads.
        on_format: Is called with the name of the format.

    Returns:
        The number of records.

    Raises:
        UnreadableLogError: The file cannot be followed.
    """
    follower, growing = FileFollower(path), GrowingLog(path)
    known, looks = None, 0
    try:
        while True:
            data, rewritten = follower.read()
            run.take(growing.feed(data, rewritten), time.time_ns)
            if growing.format is not known:
                known = growing.format
                on_format(known.name if known else "unknown format")
            looks = 0 if data else looks + 1
            if looks:
                if stop(looks):
                    break
                pause()
    finally:
        follower.close()
    run.take(growing.end(), time.time_ns)
    return run.records


def run_of(
    path: Path, project: str, name: str, destination: Destination, resume: str | None = None
) -> LogRun:
    """Return the run to report a followed file as. ``resume``: continue an earlier run as a new attempt.

    Args:
        path: The log file.
        project: Project of the run.
        name: Name of the run.
        destination: The server, and time limits.
        resume: Id of an earlier run that this one continues as a new attempt.
    """
    launch = uuid.uuid4().hex

    def run_info(attempt: int) -> RunInfo:
        identity = named_host(identify(project, name, 0, resume=resume, launch=launch), None)
        writer = identity.writer
        key = writer.attempt if attempt == 0 else f"{writer.attempt}:{attempt}"
        own = type(writer)(key, writer.rank, writer.boot, writer.pid, writer.started_ns)
        return RunInfo(
            project=project,
            name=name,
            identity=replace(identity, writer=own),
            token=destination.token,
            config={"log": str(path)},
            tags=["tail"],
        )

    return LogRun(
        run_info, destination, {"kind": "attached", "data": {"signals": {}, "log": str(path)}}, wait=False
    )
