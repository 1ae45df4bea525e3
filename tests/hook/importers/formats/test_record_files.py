"""Run files of W&B and SwanLab, made byte by byte; tests/trackers reads real ones."""

from __future__ import annotations

import json
import math
import struct

import pytest

from tests.hook.importers.conftest import Written, records
from tocsin.importers.leveldb_log import BLOCK


def varint(number: int) -> bytes:
    """Return a protobuf varint."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, body: bytes | str | int) -> bytes:
    """Return a protobuf field: a whole number, a text or a message."""
    if isinstance(body, int):
        return varint(number << 3) + varint(body)
    data = body.encode() if isinstance(body, str) else body
    return varint(number << 3 | 2) + varint(len(data)) + data


def file_of(header: bytes, *bodies: bytes) -> bytes:
    """Return a file of these records, split at the ends of blocks."""
    data = bytearray(header)
    for body in bodies:
        first = True
        while True:
            left = BLOCK - len(data) % BLOCK
            if left < 7:
                data += bytes(left)
                left = BLOCK
            part, body = body[: left - 7], body[left - 7 :]
            kind = (1 if first else 4) if not body else (2 if first else 3)
            data += struct.pack("<IHB", 0, len(part), kind) + part
            first = False
            if not body:
                break
    return bytes(data)


def wandb(step: int, **values: object) -> bytes:
    """Return a history record of W&B."""
    items = [field(1, field(2, name) + field(16, json.dumps(value))) for name, value in values.items()]
    return field(2, b"".join(items) + field(2, field(1, step)))


def scalar(step: int, name: str, value: float) -> bytes:
    """Return a scalar record of SwanLab."""
    number = field(5, b"\x09" + struct.pack("<d", value)) if value else field(5, b"")
    return field(13, field(1, name) + field(2, step) + field(4, field(1, 1_500_000_000)) + number)


RUN = field(
    17,
    field(1, "ab12")
    + field(3, "deblur")
    + field(8, "first try")
    + field(4, field(1, field(1, "lr") + field(16, "0.1")) + field(1, field(1, "amp") + field(16, "true"))),
)
WANDB, SWANLAB = b":W&B\xe1\xbe\x00", b":SWL\xd6\xe1\x02"


def test_a_wandb_file_is_read(written: Written) -> None:
    """Values with their steps and times; texts, media and booleans are left out."""
    rows = [
        wandb(0, loss=0.5, _timestamp=1.5e9, text="a"),
        wandb(10, loss=math.nan, image={"_type": "image"}),
    ]
    log = written("run-ab12.wandb", file_of(WANDB, RUN, *rows))
    first, second = records(list(log.items()))
    assert (first.step, first.values, first.time_ns) == (0, {"loss": 0.5}, 15 * 10**17)
    assert second.step == 10
    assert math.isnan(second.values["loss"])


def test_name_project_and_configuration_are_known(written: Written) -> None:
    """Of a W&B run."""
    log = written("run-ab12.wandb", file_of(WANDB, RUN, wandb(0, loss=0.5)))
    about = log.format.about(log.path)
    assert about is not None
    assert (about.name, about.project, about.config) == ("first try", "deblur", {"lr": 0.1, "amp": True})


def test_the_step_metric_of_all_metrics_is_the_step(written: Written) -> None:
    """As the Hugging Face Trainer and Lightning define it."""
    metric = field(12, field(2, "*") + field(4, "train/global_step"))
    rows = [wandb(step, **{"train/loss": 0.5, "train/global_step": 100 * step}) for step in range(3)]
    log = written("run-ab12.wandb", file_of(WANDB, RUN, metric, *rows))
    assert [record.step for record in records(list(log.items()))] == [0, 100, 200]


@pytest.mark.parametrize("size", [BLOCK - 40, BLOCK, 3 * BLOCK, 5 << 20])
def test_records_across_blocks_are_read(written: Written, size: int) -> None:
    """Long ones, such as console output, are skipped."""
    data = file_of(WANDB, field(4, bytes(size)), wandb(7, loss=0.5))
    assert [record.step for record in records(list(written("run.wandb", data).items()))] == [7]


def test_a_file_that_ends_within_a_record_is_read_so_far(written: Written) -> None:
    """The run is active, or was killed."""
    data = file_of(WANDB, wandb(1, loss=0.5), wandb(2, loss=0.25))[:-3]
    log = written("run.wandb", data)
    assert [record.step for record in records(list(log.items()))] == [1]
    assert log.stream.unread == 1


def test_scalars_of_one_swanlab_call_are_one_record(written: Written) -> None:
    """Zeros too, which protobuf does not write."""
    rows = [scalar(5, "loss", 0.5), scalar(5, "lr", 0.0), scalar(6, "loss", math.inf)]
    start = field(10, field(1, "p") + field(4, "calm-fox-1") + field(10, "ab12"))
    log = written("run-ab12.swanlab", file_of(SWANLAB, start, *rows))
    assert [(one.step, one.values) for one in records(list(log.items()))] == [
        (5, {"loss": 0.5, "lr": 0.0}),
        (6, {"loss": math.inf}),
    ]
    assert log.format.about(log.path).name == "calm-fox-1"  # type: ignore[union-attr]
