"""DeepSpeed: ``[Rank 0] step=10, skipped=1, lr=[1e-4], mom=[..]``, ``steps: 10 loss: 0.5 ..``.

Other lines between them are read as ``name: value`` lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import Format, Head, TextReader
from ..items import Parsed, Row
from ..values import text_number
from .key_values import KeyValueParser

_STEP = re.compile(r"\bstep=(\d+), skipped=(\d+), lr=\[\[?([^\[\]]*)\]")
_PIPELINE = re.compile(r"\bsteps: (\d+) loss: (\S+) iter time \(s\): ([\d.]+)")
_OVERFLOW = re.compile(r"OVERFLOW! (?:Rank \d+ )?Skipping step")


class DeepSpeedParser:
    """Convert the total ``skipped`` to the count since the previous line, without overflows printed
    separately.
    """

    def __init__(self) -> None:
        self._others = KeyValueParser()
        self._skipped = 0.0
        self._on_reading = 0

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        step = _STEP.search(line)
        pipeline = None if step else _PIPELINE.search(line)
        if step is not None:
            yield self._step(step, number)
        elif pipeline is not None:
            pairs = (("step_time", text_number(pipeline[3])), ("loss", text_number(pipeline[2])))
            values = {name: value for name, value in pairs if value is not None}
            yield Row(number, values, step=float(pipeline[1]))
        elif _OVERFLOW.search(line):
            self._on_reading += 1
        else:
            yield from self._others.parse(line, number)

    def _step(self, found: re.Match[str], number: int) -> Row:
        skipped = float(found[2])
        since = max(skipped - self._skipped - self._on_reading, 0.0)
        self._skipped, self._on_reading = skipped, 0
        values = {"skipped": since}
        for index, text in enumerate(found[3].split(",")):
            rate = text_number(text)
            if rate is not None:
                values[f"lr/g{index}" if index else "lr"] = rate
        return Row(number, values, step=float(found[1]))


def _sniff(head: Head) -> int:
    return sum(
        bool(_STEP.search(line) or _PIPELINE.search(line) or _OVERFLOW.search(line)) for line in head.lines
    )


FORMAT = Format("DeepSpeed log", 28, _sniff, lambda: TextReader(DeepSpeedParser()))
