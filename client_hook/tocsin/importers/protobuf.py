"""Read protobuf messages without their definitions: field numbers and raw values."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and values of a protobuf message; fixed-size values as bytes.

    Raises:
        ValueError: The message is malformed.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"protobuf wire type: expected 0, 1, 2 or 5, got {kind}")
        if at + size > len(message):
            raise ValueError(f"protobuf field: expected {size} bytes, got {len(message) - at}")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("protobuf varint: expected at most 10 bytes")


def texts(message: bytes, number: int) -> list[str]:
    """Return the texts of a field of a message."""
    return [one.decode("utf-8", "replace") for one in parts(message, number)]


def parts(message: bytes, number: int) -> list[bytes]:
    """Return the length-delimited values of a field of a message: texts and nested messages."""
    return [value for field, value in fields(message) if field == number and isinstance(value, bytes)]


def whole(message: bytes, number: int) -> int:
    """Return the newest signed number of a field of a message; 0 if it is missing."""
    found = [value for field, value in fields(message) if field == number and isinstance(value, int)]
    return 0 if not found else found[-1] - (1 << 64) if found[-1] >> 63 else found[-1]


def double(message: bytes, number: int) -> float:
    """Return the newest double of a field of a message; 0 if it is missing."""
    found = [value for value in parts(message, number) if len(value) == 8]
    return float(struct.unpack("<d", found[-1])[0]) if found else 0.0


def time_ns(message: bytes) -> int:
    """Return a ``google.protobuf.Timestamp`` as Unix time, ns."""
    return whole(message, 1) * 1_000_000_000 + whole(message, 2)
