"""Weights & Biases: the ``run-<id>.wandb`` file of an online or offline run, read without W&B.

Field numbers: wandb/proto/wandb_internal.proto.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..format import Format
from ..items import About, Parsed, Row
from ..leveldb_log import RecordFileReader, beginning_with, first_messages
from ..protobuf import fields, parts, texts, whole
from ..values import nanoseconds, number

MAGIC = b":W&B"
HISTORY, METRIC, RUN = 2, 12, 17
EVERY_METRIC = "*"
NONFINITE = ("NaN", "Infinity", "-Infinity")
ABOUT_BYTES = 1 << 20
"""Number of bytes at the beginning of a file that are searched for the run's name and configuration."""


class _History:
    """Converts history records to rows, at W&B's steps or those of ``define_metric("*", step_metric=...)``.

    A metric with its own step metric, such as the epoch, keeps W&B's step, so that steps do not go back.
    """

    def __init__(self) -> None:
        self._axis = ""

    def parse(self, record: bytes, number: int) -> Iterator[Parsed]:
        for field, body in fields(record):
            if field == METRIC and isinstance(body, bytes) and EVERY_METRIC in texts(body, 2):
                self._axis = "".join(texts(body, 4))
            elif field == HISTORY and isinstance(body, bytes):
                yield from self._row(body, number)

    def _row(self, history: bytes, line: int) -> Iterator[Row]:
        counted = float(whole(_only(parts(history, 2)), 1))
        row = row_of(map(_item, parts(history, 1)), line, self._axis, counted)
        if row is not None:
            yield row


def row_of(items: Iterable[tuple[str, Any]], line: int, axis: str, step: float) -> Row | None:
    """Return the numbers of one history record as a row, or None if it has none.

    Args:
        items: Name and JSON value of each item.
        line: Place of the record.
        axis: The metric that counts the steps; empty for W&B's steps.
        step: The step if the record has none.
    """
    values = {name: found for name, value in items if (found := _number(value)) is not None}
    step, time_ns = values.pop("_step", step), nanoseconds(values.pop("_timestamp", 0.0))
    values.pop("_runtime", None)
    step = values.pop(axis, step) if axis else step
    return Row(line, values, step=step, time_ns=time_ns or None, binary=True) if values else None


def _number(value: Any) -> float | None:
    """Return the number that a JSON value stands for; None for booleans and for other texts than NaN and
    infinities.
    """
    if isinstance(value, bool) or (isinstance(value, str) and value not in NONFINITE):
        return None
    found = number(value)
    return None if found is None else float(found)


def _item(item: bytes) -> tuple[str, Any]:
    """Return name and value of a history or configuration item; None for values that are not JSON."""
    name = ".".join(texts(item, 1) or texts(item, 2))
    try:
        return name, json.loads(_only(parts(item, 16)))
    except ValueError:
        return name, None


def _only(found: list[bytes]) -> bytes:
    return found[-1] if found else b""


def _about(path: Path) -> About | None:
    """Return names and configuration from the record of the run."""
    found = first_messages(path, RUN, ABOUT_BYTES)
    if not found:
        return None
    run = found[-1]
    run_id, project, name = (_only(parts(run, field)).decode("utf-8", "replace") for field in (1, 3, 8))
    config = dict(_item(item) for update in parts(run, 4) for item in parts(update, 1))
    config.pop("_wandb", None)
    return About(name or run_id, project, config, tuple(texts(run, 10)))


FORMAT = Format(
    "W&B run file", 0, beginning_with(MAGIC), lambda: RecordFileReader(_History().parse), about=_about
)
