"""Read files in the format of LevelDB's log, in which W&B and SwanLab keep their records.

A header of 7 bytes, then blocks of 32 KiB. A record that does not fit into its block continues in the next
one. Checksums are not verified: a record is a protobuf message, which a damaged one rarely is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from .format import Head
from .items import Parsed, Unread
from .protobuf import parts

HEADER = 7
BLOCK = 32 << 10
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
LIMIT = 4 << 20
"""Longer records, of media and console output, are skipped."""

Parse = Callable[[bytes, int], Iterator[Parsed]]
"""Called with a record and its number."""


class RecordFileReader:
    """Pass the records of one file to ``parse``."""

    def __init__(self, parse: Parse, end: Callable[[], Iterator[Parsed]] = lambda: iter(())) -> None:
        self._parse = parse
        self._end = end
        self._data = bytearray()
        self._at = 0
        """Place in the file of the first byte of ``_data``."""
        self._begun: bytearray | None = None
        self._number = 0

    def feed(self, chunk: bytes) -> Iterator[Parsed]:
        """Yield what is complete after these bytes."""
        self._data += chunk
        if self._at == 0:
            if len(self._data) < HEADER:
                return
            self._drop(HEADER)
        while (size := self._part()) is not None:
            yield from self._take(bytes(self._data[:size]))
            self._drop(size)

    def end(self) -> Iterator[Parsed]:
        """Yield the rest, and report a record that is not complete: the run is active, or was killed."""
        yield from self._end()
        if self._data or self._begun is not None:
            yield Unread(self._number + 1, "the file ends within a record")

    def _drop(self, size: int) -> None:
        del self._data[:size]
        self._at += size

    def _part(self) -> int | None:
        """Return the size of the next part with its header, or None if it is not complete."""
        left = BLOCK - self._at % BLOCK
        if left < HEADER:
            if len(self._data) < left:
                return None
            self._drop(left)
        if len(self._data) < HEADER:
            return None
        size = HEADER + int(struct.unpack_from("<H", self._data, 4)[0])
        return size if len(self._data) >= size else None

    def _take(self, part: bytes) -> Iterator[Parsed]:
        kind, body = part[6], part[HEADER:]
        if kind in (FULL, FIRST):
            self._begun = bytearray()
        if kind not in (FULL, FIRST, MIDDLE, LAST) or self._begun is None:
            return
        if len(self._begun) <= LIMIT:
            self._begun += body
        if kind in (FULL, LAST):
            record, self._begun = bytes(self._begun), None
            self._number += 1
            if len(record) <= LIMIT:
                yield from self._parsed(record)

    def _parsed(self, record: bytes) -> Iterator[Parsed]:
        try:
            yield from self._parse(record, self._number)
        except (IndexError, ValueError, struct.error):
            yield Unread(self._number, "no message of a known form")


def beginning_with(mark: bytes) -> Callable[[Head], int]:
    """Return the test of a format whose files begin with ``mark``."""
    return lambda head: int(head.first and head.data.startswith(mark) and len(head.data) >= HEADER)


def first_messages(path: Path, field: int, most: int) -> list[bytes]:
    """Return the messages in this field of the records in the first ``most`` bytes of a file."""
    found: list[bytes] = []

    def parse(record: bytes, number: int) -> Iterator[Parsed]:
        found.extend(parts(record, field))
        return iter(())

    with path.open("rb") as file:
        list(RecordFileReader(parse).feed(file.read(most)))
    return found
