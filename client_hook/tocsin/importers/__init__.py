"""Read logs of other tools as a stream: detect the format of a file, and convert its records to tocsin's
names.

Used by ``tocsin import``, ``tocsin tail`` and ``tocsin-server diagnose``. To add a format, add a module that
defines ``FORMAT`` to ``formats``. Only the standard library is needed. At most one line or one JSON object is
held in memory, whatever the size of the file.
"""

from __future__ import annotations

import gzip
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BufferedReader
from pathlib import Path

from . import formats
from .format import Format, Head, Reader
from .items import About, Fact, Item, LogRecord, Parsed, Unread
from .source import BROKEN, Counts, Source, TrackedRun, UnreadableLogError, UnreadableSource, reason

__all__ = [
    "BROKEN",
    "Fact",
    "Format",
    "Head",
    "Item",
    "Log",
    "LogRecord",
    "Source",
    "Stream",
    "TrackedRun",
    "Unread",
    "UnreadableLogError",
    "UnreadableSource",
    "detect",
    "known_formats",
    "open_log",
]

WINDOW = 1 << 20
"""Number of bytes that are read, and examined by the formats, at a time."""
SEARCHED = 64 << 20
"""Number of bytes at the beginning of a file that are searched for a known format."""
TAIL = 64 << 10


@lru_cache(maxsize=1)
def known_formats() -> tuple[Format, ...]:
    """Return all formats, in the order in which they are tried."""
    names = sorted(module.name for module in pkgutil.iter_modules(formats.__path__))
    modules = [importlib.import_module(f"{formats.__name__}.{name}") for name in names]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Format)]
    return tuple(sorted({item.name: item for item in found}.values(), key=lambda item: item.order))


def detect(head: Head) -> Format | None:
    """Return the format of the lowest order that recognizes ``head``; of several, the one that recognizes
    most.
    """
    best: tuple[int, int] | None = None
    chosen = None
    for candidate in known_formats():
        if best is not None and candidate.order > best[0]:
            break
        count = candidate.sniff(head)
        if count and (best is None or count > best[1]):
            best, chosen = (candidate.order, count), candidate
    return chosen


class Stream(Counts):
    """Convert the bytes of one log of a known format to records, and count what could not be read."""

    def __init__(self, form: Format) -> None:
        super().__init__()
        self.format = form
        self._reader: Reader = form.reader()

    def feed(self, chunk: bytes) -> Iterator[Item]:
        """Yield what is complete after these bytes."""
        return self.take(self._reader.feed(chunk))

    def end(self) -> Iterator[Item]:
        """Yield the rest at the end of the file."""
        return self.take(self._reader.end())


@dataclass
class Log:
    """One file of a known format. ``items`` reads it from the beginning, once."""

    path: Path
    format: Format
    planned_steps: int | None = None
    stream: Stream = field(init=False)
    broken: str = ""
    """Why the file could not be read to its end; empty if it could."""

    def __post_init__(self) -> None:
        self.stream = Stream(self.format)

    @property
    def kind(self) -> str:
        """The name of the format."""
        return self.format.name

    @property
    def counts(self) -> Counts:
        """What was read so far."""
        return self.stream

    @cached_property
    def about(self) -> About:
        """What the file says about its run."""
        return self.format.about(self.path) or About()

    def rows(self) -> Iterator[Parsed]:
        """Yield what the parser finds, from the beginning.

        Raises:
            OSError, EOFError, zlib.error: The file is damaged here.
        """
        reader = self.format.reader()
        with opened(self.path) as file:
            while chunk := file.read1(WINDOW):
                yield from reader.feed(chunk)
        yield from reader.end()

    def content(self) -> Iterator[bytes]:
        """Yield the bytes of the file as stored."""
        with self.path.open("rb") as file:
            while chunk := file.read(WINDOW):
                yield chunk

    def items(self) -> Iterator[Item]:
        """Yield records, facts and unread lines in the order of the file, up to its end or to where it is
        damaged.

        Raises:
            UnreadableLogError: It is damaged before the first record.
        """
        for chunk in self._chunks():
            yield from self.stream.feed(chunk)
        yield from self.stream.end()
        if self.broken and not self.stream.records:
            raise UnreadableLogError(f"{self.path}: {self.broken}")

    def _chunks(self) -> Iterator[bytes]:
        try:
            with opened(self.path) as file:
                while chunk := file.read1(WINDOW):
                    yield chunk
        except BROKEN as error:
            self.broken = reason(error)


def open_log(path: Path) -> Log:
    """Return the log at ``path`` with its format.

    Raises:
        UnreadableLogError: The file cannot be opened, or has no known format.
    """
    try:
        with opened(path) as file:
            found = _search(file, path)
        planned = found.planned(_tail(path)) if found else None
    except BROKEN as error:
        raise UnreadableLogError(f"{path}: {reason(error)}") from error
    if found is None and not path.stat().st_size:
        raise UnreadableLogError(f"{path}: the file is empty")
    if found is None:
        known = ", ".join(item.name for item in known_formats())
        why = "no record has a step or a loss"
        raise UnreadableLogError(f"{path}: not a known training log, because {why}. Known formats: {known}")
    return Log(path, found, planned)


def opened(path: Path) -> BufferedReader | gzip.GzipFile:
    """Open a file, and decompress it if it is gzipped."""
    file = path.open("rb")
    if file.read(2) == b"\x1f\x8b":
        file.close()
        return gzip.open(path, "rb")
    file.seek(0)
    return file


def _window(file: BufferedReader | gzip.GzipFile) -> bytes:
    """Return up to ``WINDOW`` bytes; of a truncated file, those before the truncation."""
    found = bytearray()
    try:
        while len(found) < WINDOW and (chunk := file.read1(WINDOW - len(found))):
            found += chunk
    except BROKEN:
        if not found:
            raise
    return bytes(found)


def _search(file: BufferedReader | gzip.GzipFile, path: Path) -> Format | None:
    """Return the format of the first part that has a known format; some logs begin with pages of settings."""
    searched = 0
    name = path.name.removesuffix(".gz")
    while searched < SEARCHED and (data := _window(file)):
        found = detect(Head(data, name, first=searched == 0))
        if found is not None:
            return found
        searched += len(data)
    return None


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read()
