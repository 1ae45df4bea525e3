"""YOLO's ``results.csv`` (Ultralytics, YOLOv5): a row an epoch, losses by term, metrics of the evaluation."""

from __future__ import annotations

import re

from ..items import Row
from .csv_table import CsvParser, table_format

_TERM = re.compile(r"train/\w+_loss$")


class YoloParser(CsvParser):
    """``loss`` is the sum of the terms, each of which has its weight in it already."""

    left = frozenset({"time"})

    def _row(self, cells: list[str], number: int) -> Row:
        row = super()._row(cells, number)
        terms = [value for name, value in row.values.items() if _TERM.match(name)]
        if terms:
            row.values = {"loss": sum(terms), **row.values}
        return row


FORMAT = table_format("YOLO results.csv", 29, ("epoch", "train/box_loss"), YoloParser)
