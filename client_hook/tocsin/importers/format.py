"""Define a log format: its name, how to recognize it, and how to read it."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Protocol

from .clock import rank_of, stamp_ns
from .items import About, Parsed, Row
from .lines import Lines, encoding_of
from .phrases import rows_of

ENOUGH = 50
"""Maximum number of recognized lines that are counted."""


class Reader(Protocol):
    """Read the bytes of one file in chunks of any size."""

    def feed(self, chunk: bytes) -> Iterator[Parsed]:
        """Yield what is complete after these bytes."""

    def end(self) -> Iterator[Parsed]:
        """Yield the rest at the end of the file."""


class Parser(Protocol):
    """Read the lines of one text file."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""


class Head:
    """A part of a file, usually its beginning, that formats examine."""

    def __init__(self, data: bytes, name: str = "", *, first: bool = True) -> None:
        self.data = data
        self.name = name
        self.first = first
        """Whether this is the beginning of the file."""

    @cached_property
    def text(self) -> str:
        """Its text, decoded by its byte order mark."""
        return codecs.getincrementaldecoder(encoding_of(self.data))("replace").decode(self.data)

    @cached_property
    def lines(self) -> list[str]:
        """Its lines. The last one may be incomplete."""
        lines = Lines()
        return [line for _, line in (*lines.feed(self.data), *lines.end())]


@dataclass(frozen=True)
class Format:
    """One log format, defined as ``FORMAT`` in a module of ``formats``.

    Among several formats that recognize a file, the one with the lowest ``order`` is used; among equals, the
    one that recognizes most. ``sniff`` returns the number of recognized items, or 0.
    """

    name: str
    order: int
    sniff: Callable[[Head], int]
    reader: Callable[[], Reader]
    grows: bool = True
    """Whether files are appended to, so that ``tocsin tail`` can follow them."""
    planned: Callable[[bytes], int | None] = field(default=lambda tail: None)
    """Return the planned number of steps from the last bytes of a file, or None."""
    about: Callable[[Path], About | None] = field(default=lambda path: None)
    """Return what the file says about its run, or None."""


class TextReader:
    """Pass lines to a parser; add their times and ranks, and sentences about overflows."""

    def __init__(self, parser: Parser, *, phrases: bool = True) -> None:
        self._lines = Lines()
        self._parser = parser
        self._phrases = phrases

    def feed(self, chunk: bytes) -> Iterator[Parsed]:
        for number, line in self._lines.feed(chunk):
            yield from self._line(line, number)

    def end(self) -> Iterator[Parsed]:
        for number, line in self._lines.end():
            yield from self._line(line, number)

    def _line(self, line: str, number: int) -> Iterator[Parsed]:
        found = False
        for item in self._parser.parse(line, number):
            found = found or isinstance(item, Row)
            yield _dated(item, line)
        if self._phrases and not found:
            for row in rows_of(line, number):
                yield _dated(row, line)


def _dated(item: Parsed, line: str) -> Parsed:
    if not isinstance(item, Row):
        return item
    if item.time_ns is None:
        item.time_ns = stamp_ns(line)
    if item.rank is None:
        item.rank = rank_of(line)
    return item


def line_format(name: str, order: int, parser: Callable[[], Parser]) -> Format:
    """Return a text format that is recognized by its lines of training steps.

    Lines of evaluations do not count, because several programs print the same ones (``* Acc@1 71.2``).

    Args:
        name: Name of the format, shown to users.
        order: Formats with a lower order are preferred.
        parser: Makes a parser for one file.
    """

    def sniff(head: Head) -> int:
        reader = parser()
        found = (reader.parse(line, number) for number, line in enumerate(head.lines, 1))
        rows = (item for items in found for item in items if isinstance(item, Row) and not item.evaluation)
        return sum(1 for _ in islice(rows, ENOUGH))

    return Format(name, order, sniff, lambda: TextReader(parser()))
