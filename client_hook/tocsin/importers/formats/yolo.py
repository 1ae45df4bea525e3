"""YOLO's ``results.csv`` (Ultralytics, YOLOv5): one row per epoch with loss terms and evaluation metrics."""

from __future__ import annotations

import re

from ..items import Row
from ..values import total
from .csv_table import CsvParser, table_format

_TERM = re.compile(r"train/\w+_loss$")


class YoloParser(CsvParser):
    """Parse YOLO's table. ``loss`` is the sum of the terms, which are already weighted."""

    left = frozenset({"time"})

    def _row(self, cells: list[str], number: int) -> Row:
        row = super()._row(cells, number)
        terms = [value for name, value in row.values.items() if _TERM.match(name)]
        if terms:
            row.values = {"loss": total(terms), **row.values}
        return row


FORMAT = table_format("YOLO results.csv", 29, ("epoch", "train/box_loss"), YoloParser)
