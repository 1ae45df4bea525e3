"""The settings that ``SummaryWriter.add_hparams``, Lightning and Keras write into TensorBoard event files.

Field numbers: tensorboard/plugins/hparams/plugin_data.proto and api.proto, google/protobuf/struct.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .formats.tensorboard import masked_crc
from .protobuf import double, fields, parts, texts, whole

HEAD_BYTES = 64 << 10
"""Bytes of a file that are searched. The settings are written before the training."""
TAG = b"_hparams_/session_start_info"
VALUE, METADATA, PLUGIN, CONTENT, START, HPARAMS = 1, 9, 1, 2, 3, 1
SUMMARY = 5
NUMBER, STRING, BOOL = 2, 3, 4


def settings_in(path: Path) -> dict[str, Any] | None:
    """Return the settings at the beginning of an event file; None if it has none or cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    if TAG not in head:
        return None
    try:
        values = (
            value for body in _bodies(head) for each in parts(body, SUMMARY) for value in parts(each, VALUE)
        )
        return next((dict(_settings(value)) for value in values if TAG.decode() in texts(value, 1)), None)
    except (IndexError, ValueError):  # it is damaged
        return None


def _bodies(head: bytes) -> Iterator[bytes]:
    """Yield the events that are complete."""
    at = 0
    while at + 12 <= len(head):
        (length,) = struct.unpack_from("<Q", head, at)
        body = head[at + 12 : at + 12 + length]
        if len(body) < length or masked_crc(head[at : at + 8]) != struct.unpack_from("<I", head, at + 8)[0]:
            return
        yield body
        at += length + 16


def _settings(value: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the settings of ``Summary.Value``: its metadata has a ``SessionStartInfo``."""
    message = [value]
    for number in (METADATA, PLUGIN, CONTENT, START, HPARAMS):
        message = [part for each in message for part in parts(each, number)]
    for entry in message:
        for name, content in zip(texts(entry, 1), parts(entry, 2), strict=True):
            yield name, _scalar(content)


def _scalar(value: bytes) -> Any:
    kinds = {number for number, _ in fields(value)}
    if NUMBER in kinds:
        number = double(value, NUMBER)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    if STRING in kinds:
        return texts(value, STRING)[-1]
    return bool(whole(value, BOOL)) if BOOL in kinds else None
