"""Swin-Transformer ``log_rank0.txt``: ``Train: [0/300][10/390] eta .. lr .. loss .. (..) loss_scale ..``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import line_format
from ..items import Parsed, Restart, Row, Unread
from ..meters import meters

_TRAIN = re.compile(r"Train: \[(\d+)/(\d+)\]\s*\[(\d+)/(\d+)\]")
_HEADER = "Full config saved to"


class SwinParser:
    """Parse Swin lines. The step is epoch x iterations per epoch + iteration; ``*`` lines are evaluations."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        train = _TRAIN.search(line)
        if train is not None:
            yield _row(line[train.end() :], number, train)
        elif _HEADER in line:
            yield Restart(number)
        elif "* Acc@1" in line:
            yield from self._result(line, number)

    def _result(self, line: str, number: int) -> Iterator[Parsed]:
        values = meters(line.replace("*", " "))
        metrics = {name.replace("@", "").lower(): value for name, value in values.items() if "@" in name}
        if metrics:
            yield Row(number, metrics, evaluation=True)


def _row(rest: str, number: int, train: re.Match[str]) -> Parsed:
    values = meters(rest)
    if "loss" not in values:
        return Unread(number, "a loss was expected")
    epoch, epochs, iteration, per_epoch = (float(group) for group in train.groups())
    return Row(number, values, epoch=epoch, epochs=epochs, iteration=iteration, per_epoch=per_epoch)


FORMAT = line_format("Swin-Transformer log", 20, SwinParser)
