"""Event files: real ones by torch's writer if it is installed, and others made byte by byte."""

from __future__ import annotations

import math
import struct

from tests.hook.importers.conftest import Written, records
from tocsin.importers.formats.tensorboard import CHECKED, masked_crc


def record(body: bytes) -> bytes:
    """Return a TFRecord of ``body``."""
    head = struct.pack("<Q", len(body))
    return head + struct.pack("<I", masked_crc(head)) + body + struct.pack("<I", masked_crc(body))


def field(number: int, body: bytes) -> bytes:
    """Return a length-delimited protobuf field below 128 bytes."""
    return bytes([number << 3 | 2, len(body)]) + body


def event(step: int, tag: str, value: float) -> bytes:
    """Return an Event with one simple value."""
    simple = field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    return b"\x09" + struct.pack("<d", 1.5e9) + b"\x10" + bytes([step]) + field(5, field(1, simple))


def tensor_event(step: int, tag: str, value: float) -> bytes:
    """Return an Event with a scalar tensor, as TensorFlow 2 writes it."""
    tensor = b"\x08\x01" + field(4, struct.pack("<f", value))
    return b"\x10" + bytes([step]) + field(5, field(1, field(1, tag.encode()) + field(8, tensor)))


VERSION = b"\x09" + struct.pack("<d", 1.5e9) + field(3, b"brain.Event:2")


def test_tags_of_one_step_are_one_record(written: Written) -> None:
    """Simple values and scalar tensors, times included."""
    parts = [VERSION, event(1, "train/loss", 0.5), event(1, "train/grad_norm", math.inf)]
    parts += [tensor_event(2, "train/loss", math.nan)]
    log = written("events.out.tfevents.1.host", b"".join(map(record, parts)))
    first, second = records(list(log.items()))
    assert log.format.name == "TensorBoard events"
    assert (first.step, first.values, first.time_ns) == (1, {"loss": 0.5, "grad_norm": math.inf}, 15 * 10**17)
    assert second.step == 2
    assert math.isnan(second.values["loss"])


def test_a_checksum_that_is_wrong_is_noticed(written: Written) -> None:
    """The record is left out and reported, and those after it are read."""
    broken = bytearray(record(event(1, "loss", 0.5)))
    broken[20] ^= 1
    data = record(VERSION) + bytes(broken) + record(event(2, "loss", 0.25))
    log = written("events.out.tfevents.1", data)
    assert [item.values for item in records(list(log.items()))] == [{"loss": 0.25}]
    assert [unread.line for unread in log.stream.first_unread] == [2]


def test_long_records_are_skipped(written: Written) -> None:
    """Images are not scalars: they are neither read nor kept in memory."""
    image = b"\x10\x01" + b"\x2a" + bytes([0x80, 0x80, 0x80, 0x01]) + b"\0" * (CHECKED * 64)
    data = record(VERSION) + record(image) + record(event(3, "loss", 0.5))
    assert [item.step for item in records(list(written("e", data).items()))] == [3]


def test_a_file_that_is_cut_off_says_so(written: Written) -> None:
    """As left by a killed training."""
    log = written("e", (record(VERSION) + record(event(1, "loss", 0.5)) + record(event(2, "loss", 0.5)))[:-7])
    assert [item.step for item in records(list(log.items()))] == [1]
    assert log.stream.unread == 1
