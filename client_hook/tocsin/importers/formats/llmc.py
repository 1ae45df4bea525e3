"""llm.c: ``main.log`` (``s:0 trl:11.0091 lr:0.000001 norm:15.37``, ``s:250 tel:6.17``) and its output (``step
1/19560 | loss 11.009 (+nanz)| norm 15.37 (+nanz)| lr 8.57e-07 | 312.33 ms | ..``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import line_format
from ..items import Parsed, Row, Unread
from ..values import text_number

_LINE = re.compile(r"^s:(\d+)\s+(?=trl:|tel:|eval:)")
_PRINTED = re.compile(
    r"^step\s+(\d+)/\d+ \| (?:train )?loss\s+(\S+)(?: \([^)]*\))?\s*\| norm\s+(\S+)(?: \([^)]*\))?\s*"
    r"\| lr\s+(\S+)\s*\|(?:\s*([\d.]+) ms)?"
)
_NAMES = {"trl": "loss", "lr": "lr", "norm": "grad_norm", "tel": "val/loss", "eval": "val/hellaswag_acc"}


class LlmcParser:
    """Parse llm.c lines: one for each training step, and evaluations between them."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        found = _LINE.match(line)
        if found is None:
            yield from _printed(line, number)
            return
        values: dict[str, float] = {}
        for part in line[found.end() :].split():
            key, _, text = part.partition(":")
            value = text_number(text)
            if value is None or key not in _NAMES:
                yield Unread(number, f"name:number was expected, got {part[:40]!r}")
                return
            values[_NAMES[key]] = value
        yield Row(number, values, step=float(found[1]))


def _printed(line: str, number: int) -> Iterator[Parsed]:
    """Parse a line of standard output."""
    found = _PRINTED.match(line)
    if found is None:
        return
    pairs = zip(("loss", "grad_norm", "lr"), found.groups()[1:4], strict=True)
    values = {name: value for name, text in pairs if (value := text_number(text)) is not None}
    if found[5] and (milliseconds := text_number(found[5])) is not None:
        values["step_time"] = milliseconds / 1000
    yield Row(number, values, step=float(found[1]))


FORMAT = line_format("llm.c main.log", 25, LlmcParser)
