"""Logs of other tools, read as a stream: which format a file has, and its records in tocsin's names.

Used by ``tocsin import``, ``tocsin tail`` and ``tocsin-server diagnose``. Adding a format is adding
a module to ``formats`` that defines ``FORMAT`` (see :mod:`tocsin.importers.format`). Needs the standard
library only; of a file of any size it holds one line, or one JSON object.
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
"""Bytes that formats look at, at a time, and that are read at a time."""
SEARCHED = 64 << 20
"""So far into a file its format is looked for."""
FIRST_UNREAD = 10
"""The numbers of so many unread lines are kept; all are counted."""
TAIL = 64 << 10
BROKEN = (OSError, EOFError, zlib.error)
"""What reading a file that is cut off or damaged raises; a gzipped one says so only in its middle."""


class UnreadableLogError(ValueError):
    """A file of no known format, or that cannot be opened: what was expected, what was found."""


@lru_cache(maxsize=1)
def known_formats() -> tuple[Format, ...]:
    """Every format there is, the one asked first in front."""
    names = sorted(module.name for module in pkgutil.iter_modules(formats.__path__))
    modules = [importlib.import_module(f"{formats.__name__}.{name}") for name in names]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Format)]
    return tuple(sorted({item.name: item for item in found}.values(), key=lambda item: item.order))


def detect(head: Head) -> Format | None:
    """The format that recognises ``head``: the lowest order, then the most things recognised."""
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
    """Bytes of one log of a known format into records; counts what it could not read."""

    def __init__(self, form: Format) -> None:
        self.format = form
        self.records = 0
        self.unread = 0
        self.first_unread: list[Unread] = []
        self._reader: Reader = form.reader()
        self._assembly = Assembly()

    @property
    def names_left_out(self) -> int:
        """Names beyond the limit of series of one file."""
        return len(self._assembly.names.left_out)

    @property
    def went_back(self) -> int:
        """How often a step was below the one before without a new run: rewinds, or several writers."""
        return self._assembly.steps.went_back

    def feed(self, chunk: bytes) -> Iterator[Item]:
        """What the bytes so far say that was not yielded before."""
        return self._take(self._reader.feed(chunk))

    def end(self) -> Iterator[Item]:
        """What is left at the end."""
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
    """One file that was recognised. ``items`` reads it from the beginning, once."""

    path: Path
    format: Format
    planned_steps: int | None = None
    stream: Stream = field(init=False)
    broken: str = ""
    """Why the file could not be read to its end, where it could not."""

    def __post_init__(self) -> None:
        self.stream = Stream(self.format)

    def items(self) -> Iterator[Item]:
        """Records, facts and unread lines in the order of the file; where it breaks off, up to there.

        Raises UnreadableLogError where it breaks off before the first record.
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
    """The log at ``path`` with its format. Raises UnreadableLogError with the reason."""
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
    """The file, unpacked where it is gzipped."""
    file = path.open("rb")
    if file.read(2) == b"\x1f\x8b":
        file.close()
        return gzip.open(path, "rb")
    file.seek(0)
    return file


def _window(file: BufferedReader | gzip.GzipFile) -> bytes:
    """The next bytes, at most ``WINDOW``; of a file that is cut off within them those before the cut."""
    found = bytearray()
    try:
        while len(found) < WINDOW and (chunk := file.read1(WINDOW - len(found))):
            found += chunk
    except BROKEN:
        if not found:
            raise
    return bytes(found)


def _search(file: BufferedReader | gzip.GzipFile, path: Path) -> Format | None:
    """The format of the first stretch that one recognises: some logs begin with pages of settings."""
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
