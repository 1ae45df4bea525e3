"""Convert the bytes of a text file to lines: encodings, carriage returns, colors, missing line breaks.

A line longer than ``LINE_LIMIT`` bytes is truncated.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

LINE_LIMIT = 1 << 20
_COLORS = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ENDS = re.compile(r"\r\n|\n|\r|\x08+")
MARK_BYTES = 4
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Characters:
    """Decode chunks of bytes, in the encoding of the byte order mark."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._first = b""

    def feed(self, chunk: bytes) -> str:
        """Return the characters that are complete. The first bytes are buffered until there may be a byte
        order mark.
        """
        if self._decoder is not None:
            return self._decoder.decode(chunk)
        self._first += chunk
        return self._begin() if len(self._first) >= MARK_BYTES else ""

    def end(self) -> str:
        """Return the rest at the end of the file."""
        rest = self._begin() if self._decoder is None else ""
        return rest + (self._decoder.decode(b"", True) if self._decoder else "")

    def _begin(self) -> str:
        self._decoder = codecs.getincrementaldecoder(encoding_of(self._first))("replace")
        first, self._first = self._first, b""
        return self._decoder.decode(first)


class Lines:
    """Split text into (number, line). An incomplete line is buffered.

    A carriage return alone, or backspaces, also end a line (progress bars), but do not count as one.
    """

    def __init__(self) -> None:
        self._characters = Characters()
        self._rest = ""
        self._overlong = False
        self.number = 1

    def feed(self, chunk: bytes) -> Iterator[tuple[int, str]]:
        """Yield the lines that are complete."""
        yield from self._split(self._characters.feed(chunk))

    def end(self) -> Iterator[tuple[int, str]]:
        """Yield the last line if it has no line break."""
        yield from self._split(self._characters.end())
        rest, self._rest = self._rest, ""
        if rest.rstrip("\r"):
            yield self.number, plain(rest)

    def _split(self, text: str) -> Iterator[tuple[int, str]]:
        text = self._rest + text
        start = 0
        for end in _ENDS.finditer(text):
            if end[0] == "\r" and end.end() == len(text):
                break  # may be the first half of \r\n
            if end.start() > start and not self._overlong:
                yield self.number, plain(text[start : end.start()])
            self._overlong = False
            self.number += end[0].endswith("\n")
            start = end.end()
        self._rest = text[start:]
        if len(self._rest) > LINE_LIMIT:
            if not self._overlong:
                yield self.number, plain(self._rest[:LINE_LIMIT])
            self._rest, self._overlong = "", True


def encoding_of(head: bytes) -> str:
    """Return the encoding of the byte order mark, or UTF-8."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def plain(line: str) -> str:
    """Return ``line`` without terminal colors and NULs."""
    if "\x1b" in line:
        line = _COLORS.sub("", line)
    return line.replace("\0", "") if "\0" in line else line
