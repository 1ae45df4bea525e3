"""What a log format is: a name, a look at a file's beginning, and a reader of its bytes."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Protocol

from .clock import rank_of, stamp_ns
from .digits import is_coarse
from .items import Parsed, Row
from .lines import Lines, encoding_of
from .phrases import said

ENOUGH = 50
"""Of a format's lines so many are counted at most."""


class Reader(Protocol):
    """Takes the bytes of one file in pieces of any size."""

    def feed(self, chunk: bytes) -> Iterator[Parsed]:
        """What the bytes so far say that was not yielded before."""

    def end(self) -> Iterator[Parsed]:
        """What is left at the end of the file."""


class Parser(Protocol):
    """Takes the lines of one text file."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """What ``line`` says."""


class Head:
    """A stretch of a file as the formats look at it, usually its first."""

    def __init__(self, data: bytes, name: str = "", *, first: bool = True) -> None:
        self.data = data
        self.name = name
        self.first = first
        """Whether this is the beginning of the file."""

    @cached_property
    def text(self) -> str:
        """Its characters, in the encoding that its byte order mark tells."""
        return codecs.getincrementaldecoder(encoding_of(self.data))("replace").decode(self.data)

    @cached_property
    def lines(self) -> list[str]:
        """Its lines; the last may be cut."""
        lines = Lines()
        return [line for _, line in (*lines.feed(self.data), *lines.end())]


@dataclass(frozen=True)
class Format:
    """One log format. Each module of this package that defines ``FORMAT`` adds one.

    ``order``: of several formats that recognise a file the one with the lowest has it; among equals
    the one that recognises most. ``sniff`` gives the number of things recognised, 0 for none.
    """

    name: str
    order: int
    sniff: Callable[[Head], int]
    reader: Callable[[], Reader]
    grows: bool = True
    """Whether its files grow at the end, so that ``tocsin tail`` can follow them."""
    planned: Callable[[bytes], int | None] = field(default=lambda tail: None)
    """The planned steps, from a file's last bytes, where the format says so only there."""


class TextReader:
    """Lines to a parser; adds times and ranks in front of lines, and the sentences that scalers print."""

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
            for row in said(line, number):
                yield _dated(row, line)


def _dated(item: Parsed, line: str) -> Parsed:
    if not isinstance(item, Row):
        return item
    if item.time_ns is None:
        item.time_ns = stamp_ns(line)
    if item.rank is None:
        item.rank = rank_of(line)
    item.coarse = is_coarse(line)
    return item


def line_format(name: str, order: int, parser: Callable[[], Parser]) -> Format:
    """A text format that is known by its lines."""

    def sniff(head: Head) -> int:
        judge = parser()
        found = (judge.parse(line, number) for number, line in enumerate(head.lines, 1))
        rows = (item for items in found for item in items if isinstance(item, Row))
        return sum(1 for _ in islice(rows, ENOUGH))

    return Format(name, order, sniff, lambda: TextReader(parser()))
