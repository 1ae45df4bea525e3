"""TensorBoard event files: TFRecords of ``Event`` messages, read without TensorBoard.

Only scalars are read: ``simple_value`` of TensorFlow 1 and PyTorch, and scalar tensors of TensorFlow 2. The
masked CRC-32C of lengths is always checked, that of contents up to ``CHECKED`` bytes; larger records are
images or graphs and are skipped. Field numbers: tensorflow/core/util/event.proto,
tensorflow/core/framework/summary.proto and tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from ..format import Format, Head
from ..items import About, Parsed, Row, Unread
from ..protobuf import fields
from ..values import nanoseconds

CHECKED = 64 << 10
"""Maximum size of a record whose checksum is verified. Scalars are much smaller."""
TAG_LIMIT = 256
_MASK = 0xA282EAD8


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of ``data``, rotated and offset as in TFRecord."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


class EventReader:
    """Yield one row per step: consecutive tags of the same step belong together."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._skip = 0
        self._number = 0
        self._row: Row | None = None
        self._broken = False

    def feed(self, chunk: bytes) -> Iterator[Parsed]:
        """Yield the complete rows. ``line`` counts the records of the file."""
        passed = min(self._skip, len(chunk))
        self._skip -= passed
        self._data += chunk[passed:]
        while self._is_ready():
            yield from self._record()

    def end(self) -> Iterator[Parsed]:
        """Yield the last row, and report a truncated record."""
        if self._row is not None:
            yield self._row
            self._row = None
        if (self._data or self._skip) and not self._broken:
            yield Unread(self._number + 1, "the file ends within a record")

    def _is_ready(self) -> bool:
        """Return whether the next record is complete, or the length of one that will be skipped."""
        if self._broken or self._skip or len(self._data) < 12:
            return False
        (length,) = struct.unpack_from("<Q", self._data)
        return bool(length > CHECKED or len(self._data) >= length + 16)

    def _record(self) -> Iterator[Parsed]:
        length, check = struct.unpack_from("<QI", self._data)
        if masked_crc(bytes(self._data[:8])) != check:
            self._broken = True
            self._data.clear()
            yield Unread(self._number + 1, "its length has a wrong checksum: nothing after it can be read")
            return
        if length > CHECKED:
            self._number += 1
            self._pass(length + 16)
            return
        body = bytes(self._data[12 : 12 + length])
        (check,) = struct.unpack_from("<I", self._data, 12 + length)
        del self._data[: length + 16]
        self._number += 1
        if masked_crc(body) != check:
            yield Unread(self._number, "its checksum is wrong")
        else:
            yield from self._event(body)

    def _pass(self, count: int) -> None:
        have = min(count, len(self._data))
        del self._data[:have]
        self._skip = count - have

    def _event(self, body: bytes) -> Iterator[Parsed]:
        try:
            wall, step, values = event_of(body)
        except (IndexError, struct.error, ValueError):
            yield Unread(self._number, "no Event message")
            return
        if not values:
            return
        row = self._row
        if row is not None and (row.step != step or row.values.keys() & values.keys()):
            yield row
            row = None
        if row is None:
            row = self._row = Row(self._number, {}, step=step, time_ns=nanoseconds(wall), binary=True)
        row.values.update(values)


def event_of(body: bytes) -> tuple[float, float, dict[str, float]]:
    """Return wall time (s), step and scalars by tag of one ``Event``."""
    wall, step, values = 0.0, 0, {}
    for field, value in fields(body):
        if field == 1 and isinstance(value, bytes):
            (wall,) = struct.unpack("<d", value)
        elif field == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >> 63 else value
        elif field == 5 and isinstance(value, bytes):
            values.update(_scalars(value))
    return wall, float(step), values


def _scalars(summary: bytes) -> dict[str, float]:
    found = {}
    for field, value in fields(summary):
        if field == 1 and isinstance(value, bytes):
            tag, number = _scalar(value)
            if number is not None:
                found[tag] = number
    return found


def _scalar(message: bytes) -> tuple[str, float | None]:
    tag, number = "", None
    for field, value in fields(message):
        if field == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")[:TAG_LIMIT]
        elif field == 2 and isinstance(value, bytes) and len(value) == 4:
            (number,) = struct.unpack("<f", value)
        elif field == 8 and isinstance(value, bytes):
            number = _tensor(value)
    return tag, number


_CONTENT = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}
_PACKED = {5: "<f", 6: "<d"}


def _tensor(message: bytes) -> float | None:
    """Return the number of a tensor with exactly one element, else None."""
    kind, number = 0, None
    for field, value in fields(message):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 4 and isinstance(value, bytes) and kind in _CONTENT:
            number = _only(_CONTENT[kind], value)
        elif field in _PACKED and isinstance(value, bytes):
            number = _only(_PACKED[field], value)
    return number


def _only(form: str, data: bytes) -> float | None:
    return float(struct.unpack(form, data)[0]) if len(data) == struct.calcsize(form) else None


def _sniff(head: Head) -> int:
    if not head.first or len(head.data) < 12:
        return 0
    length, check = struct.unpack_from("<QI", head.data)
    return int(length < (1 << 40) and masked_crc(head.data[:8]) == check)


def _about(path: Path) -> About:
    """Return a key of the name (time, host and process) and the first event (its time)."""
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))[0]
        first = file.read(4 + min(length, CHECKED))
    return About(key=f"{path.name}:{first.hex()}")


FORMAT = Format("TensorBoard events", 0, _sniff, EventReader, about=_about)
