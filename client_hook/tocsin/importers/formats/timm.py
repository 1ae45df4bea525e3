"""timm's console log: ``Train: 0 [  50/390 ( 13%)]  Loss: 6.95 (6.95)  Time: ...  LR: 1.0e-06``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import line_format
from ..items import Parsed, Row, Unread
from ..meters import meters
from ..values import text_number

_TRAIN = re.compile(r"Train: (\d+)(?:/(\d+))? \[\s*(\d+)/(\d+) \([^()]*\)\]")
_LAST = re.compile(r"Test(?: \(EMA\))?: \[\s*(\d+)/(\d+)\]")

_AVERAGE = re.compile(r"(Loss|Acc@\d{1,4}):\s*[^\s(]{1,60}\s*\(\s*([^()\s]{1,60})\s*\)")


class TimmParser:
    """Parse timm lines. The averages in the last line of a ``Test:`` block are the evaluation."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        train = _TRAIN.search(line)
        if train is not None:
            values = _lower(meters(line[train.end() :]))
            if "loss" not in values:
                yield Unread(number, "a loss was expected")
                return
            epoch, epochs, iteration, per_epoch = (float(group or 0) for group in train.groups())
            yield Row(number, values, epoch=epoch, epochs=epochs, iteration=iteration, per_epoch=per_epoch)
            return
        test = _LAST.search(line)
        if test is not None and test[1] == test[2] and "EMA" not in line:
            yield Row(number, _averages(line[test.end() :]), evaluation=True)


def _lower(values: dict[str, float]) -> dict[str, float]:
    return {name.lower(): value for name, value in values.items() if name not in ("Time", "Data")}


def _averages(text: str) -> dict[str, float]:
    named = ((name, text_number(value)) for name, value in _AVERAGE.findall(text))
    return {name.replace("@", "").lower(): value for name, value in named if value is not None}


FORMAT = line_format("timm log", 21, TimmParser)
