"""Read the storage of Aim: a RocksDB database for each run, in which each value has a path as its key.

The key is the path's names and numbers, each ended by the byte FE, which is in no UTF-8 text. A number is
FE, 8 bytes, FE. The first byte of a value is its type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

END = 0xFE
_FORMS = {2: "<q", 3: "<d"}
BOOLEAN, TEXT = 1, 4

KeyPath = tuple["str | int", ...]


def key_of(*parts: str) -> bytes:
    """Return the key of a path of names, which is the beginning of the keys below it."""
    return b"".join(part.encode() + bytes([END]) for part in parts)


def path_of(key: bytes) -> KeyPath:
    """Return the path that a key stands for.

    Raises:
        ValueError: It is no key of Aim.
    """
    parts: list[str | int] = []
    at = 0
    while at < len(key):
        if key[at] == END:
            parts.append(int.from_bytes(key[at + 1 : at + 9], "big", signed=True))
            at += 10
        else:
            end = key.index(END, at)
            parts.append(key[at:end].decode("utf-8", "replace"))
            at = end + 1
    return tuple(parts)


def value_of(data: bytes) -> bool | int | float | str | None:
    """Return the number or text of a value; None for everything else, such as an image."""
    if not data:
        return None
    kind, body = data[0], data[1:]
    if kind in _FORMS:
        found: int | float = struct.unpack(_FORMS[kind], body)[0]
        return found
    if kind == BOOLEAN:
        return body != b"\0"
    return body.decode("utf-8", "replace") if kind == TEXT else None


def items(database: Path, prefix: bytes) -> Iterator[tuple[KeyPath, Any]]:
    """Yield what is below a key, by the path relative to it. The database is opened read-only.

    Raises:
        ModuleNotFoundError: The package aimrocks is missing.
        OSError: The database is damaged, or cannot be read.
    """
    import aimrocks  # type: ignore[import-not-found, unused-ignore]

    try:
        opened = aimrocks.DB(str(database), aimrocks.Options(create_if_missing=False), read_only=True)
        found = opened.iteritems()
        found.seek(prefix)
        for key, data in found:
            if not key.startswith(prefix):
                return
            yield path_of(key[len(prefix) :]), value_of(data)
    except (ValueError, struct.error) as error:
        raise OSError(f"Aim's database has an unexpected key or value and may be damaged: {error}") from error
    except Exception as error:
        if type(error).__module__ != "aimrocks.errors":
            raise
        raise OSError(_text(error)) from error


def _text(error: Exception) -> str:
    text = error.args[0] if error.args else type(error).__name__
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
