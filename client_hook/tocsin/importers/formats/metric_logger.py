"""``Epoch: [3]  [ 20/390]  eta: ..  loss: 6.9 (6.9)``: MAE, DETR, DINO, torchvision, and MMCV's text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import line_format
from ..items import Parsed, Row, Unread
from ..meters import meters

_TRAIN = re.compile(r"Epoch(?:\(train\))?:?\s*\[(\d+)(?:/(\d+))?\]\s*\[\s*(\d+)/(\d+)\]")
_ITERATION = re.compile(r"Iter(?:\(train\))?\s*\[\s*(\d+)/(\d+)\]")
_EVALUATED = re.compile(r"(?:Epoch|Iter)\(val\)\s*(?:\[(\d+)\])?\s*\[\s*\d+(?:/\d+)?\]|^\s*\*\s+Acc@1")


class MetricLoggerParser:
    """MMCV and MMEngine (``lr: ..,`` with commas) count epochs and iterations from 1, other tools from 0."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        train = _TRAIN.search(line)
        if train is not None:
            yield self._train(line, number, train)
            return
        iteration = _ITERATION.search(line)
        if iteration is not None:
            yield _sound(Row(number, _values(line[iteration.end() :]), step=float(iteration[1])))
            return
        evaluated = _EVALUATED.search(line)
        if evaluated is not None:
            values = _values(line[evaluated.end() :] if evaluated[0].lstrip()[0] != "*" else line)
            if values:
                yield Row(number, values, evaluation=True)

    def _train(self, line: str, number: int, train: re.Match[str]) -> Parsed:
        epoch, epochs, iteration, per_epoch = (float(group or 0) for group in train.groups())
        if "Epoch(train)" in line or re.search(r"Epoch \[", line):
            epoch = max(epoch - 1, 0.0)
        values = _values(line[train.end() :])
        row = Row(
            number, values, epoch=epoch, epochs=epochs or None, iteration=iteration, per_epoch=per_epoch
        )
        return _sound(row)


def _sound(row: Row) -> Parsed:
    return row if "loss" in row.values else Unread(row.line, "a loss was expected")


def _values(text: str) -> dict[str, float]:
    found = meters(text.replace(",", " , "))
    return {
        ("loss" if name == "Loss" else name.replace("Acc@", "acc")): value for name, value in found.items()
    }


FORMAT = line_format("MetricLogger or MMCV text log", 22, MetricLoggerParser)
