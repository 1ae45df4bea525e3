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
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from io import BufferedReader
from pathlib import Path

from . import formats
from .assembly import Assembly
from .format import Format, Head, Reader
from .items import Fact, Item, LogRecord, Parsed, Unread

__all__ = [
    "Fact",
    "Format",
    "Head",
    "Item",
    "Log",
    "LogRecord",
    "Stream",
    "Unread",
    "UnreadableLogError",
    "detect",
    "known_formats",
    "open_log",
]

WINDOW = 1 << 20
"""Number of bytes that are read, and examined by the formats, at a time."""
SEARCHED = 64 << 20
"""Number of bytes at the beginning of a file that are searched for a known format."""
FIRST_UNREAD = 10
"""Number of unread lines whose numbers are kept. All of them are counted."""
TAIL = 64 << 10
BROKEN = (OSError, EOFError, zlib.error)
"""Errors of reading a truncated or damaged file. A gzip file raises them only in its middle."""


class UnreadableLogError(ValueError):
    """The file cannot be opened, or has no known format."""


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


class Stream:
    """Convert the bytes of one log of a known format to records, and count what could not be read."""

    def __init__(self, form: Format) -> None:
        self.format = form
        self.records = 0
        self.unread = 0
        self.first_unread: list[Unread] = []
        self._reader: Reader = form.reader()
        self._assembly = Assembly()

    @property
    def names_left_out(self) -> int:
        """Number of names beyond the limit of series per file."""
        return len(self._assembly.names.left_out)

    @property
    def went_back(self) -> int:
        """Number of steps below the previous one without a new run: rewinds, or several writers."""
        return self._assembly.steps.went_back

    def feed(self, chunk: bytes) -> Iterator[Item]:
        """Yield what is complete after these bytes."""
        return self._take(self._reader.feed(chunk))

    def end(self) -> Iterator[Item]:
        """Yield the rest at the end of the file."""
        return self._take(self._reader.end())

    def _take(self, parsed: Iterator[Parsed]) -> Iterator[Item]:
        for item in self._assembly.take(parsed):
            if isinstance(item, LogRecord):
                self.records += 1
            elif isinstance(item, Unread):
                self.unread += 1
                if len(self.first_unread) < FIRST_UNREAD:
                    self.first_unread.append(item)
            yield item


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
            self.broken = _reason(error)


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
        raise UnreadableLogError(f"{path}: {_reason(error)}") from error
    if found is None:
        known = ", ".join(item.name for item in known_formats())
        got = "no line with a step and a number in it" if path.stat().st_size else "an empty file"
        raise UnreadableLogError(f"{path}: expected one of {known}; found {got}")
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


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).rstrip(".") or type(error).__name__
