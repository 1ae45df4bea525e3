"""MMEngine ``vis_data/scalars.json`` and MMCV ``*.log.json``: JSON lines of training and evaluation."""

from __future__ import annotations

from typing import Any

from ..format import Format, Head, TextReader
from ..items import Row
from .json_lines import JsonLinesParser, objects


class MMEngineParser(JsonLinesParser):
    """Evaluations have the epoch in ``step``, so they belong to the newest training step."""

    def __init__(self) -> None:
        super().__init__()
        self._per_epoch: dict[float, float] = {}

    def row(self, value: dict[str, Any], number: int) -> Row | None:
        """Return the row of one object."""
        if "env_info" in value or "config" in value:
            return None
        row = super().row(value, number)
        if row is None:
            return None
        if "time" in row.values:
            row.values["step_time"] = row.values.pop("time")
        if value.get("mode") == "val" or ("iter" not in value and "loss" not in value):
            row.step, row.evaluation = None, True
            row.values.pop("step_time", None)
            row.values.pop("data_time", None)
        elif "mode" in value:  # MMCV: iter is within the epoch
            row.step, row.iteration = None, float(value["iter"])
            row.epoch = float(value.get("epoch", 1)) - 1
        return row


def _sniff(head: Head) -> int:
    found = objects(head)
    marks = ("data_time", "memory")
    return sum(all(mark in value for mark in marks) and ("iter" in value) for value in found)


FORMAT = Format("MMEngine scalars.json", 40, _sniff, lambda: TextReader(MMEngineParser(), phrases=False))
