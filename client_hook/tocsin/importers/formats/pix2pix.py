"""pix2pix and CycleGAN ``loss_log.txt``: ``(epoch: 1, iters: 100, time: 0.6) G_GAN: 15.2 D_real: ...``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import line_format
from ..items import Parsed, Restart, Row, Unread
from ..values import NUMBER, text_number, total

_LINE = re.compile(r"^\(epoch: (\d+), iters: (\d+)(?!\d)(?:, time: ([\d.]+)(?![\d.]))?[^)]*\)\s*")
_PAIR = re.compile(r"(?<![A-Za-z_])([A-Za-z_][\w+]{0,200}):\s*(" + NUMBER + r")(?=\s|$)", re.IGNORECASE)
_HEADER = re.compile(r"^=+ Training Loss \(")


class Pix2PixParser:
    """Parse pix2pix lines. ``loss`` is the sum of the generator's terms, ``loss/D`` of those named D_...."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        if _HEADER.match(line):
            yield Restart(number)
            return
        found = _LINE.match(line)
        if found is None:
            return
        terms = {name: text_number(text) for name, text in _PAIR.findall(line[found.end() :])}
        values = {name: value for name, value in terms.items() if value is not None}
        if not values:
            yield Unread(number, "losses such as G_GAN: 1.0 were expected")
            return
        yield _row(values, number, found)


def _row(terms: dict[str, float], number: int, found: re.Match[str]) -> Row:
    critic = [value for name, value in terms.items() if re.match(r"D(_|$)", name)]
    generator = [value for name, value in terms.items() if not re.match(r"D(_|$)", name)]
    values = dict(terms)
    if generator:
        values["loss"] = total(generator)
    if critic:
        values["loss/D"] = total(critic)
    if found[3] and (seconds := text_number(found[3])) is not None:
        values["step_time"] = seconds
    return Row(number, values, epoch=float(found[1]) - 1, iteration=float(found[2]))


FORMAT = line_format("pix2pix or CycleGAN loss_log.txt", 26, Pix2PixParser)
