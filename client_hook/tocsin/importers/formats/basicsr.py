"""BasicSR: ``[name][epoch:  0, iter:   1,000, lr:(2e-04,)] [eta: .., time (data): ..] l_pix: 3.1e-02``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import line_format
from ..items import Parsed, Row, Unread
from ..values import NUMBER, text_number, total

_TRAIN = re.compile(r"\[epoch:\s*([\d,]+),\s*iter:\s*([\d,]+),\s*lr:\(([^()]*)\)\]")
_TIME = re.compile(r"time \(data\): ([\d.]+) \(([\d.]+)\)")
_PAIR = re.compile(r"(?<![A-Za-z_])([A-Za-z_][\w.]{0,200}):\s*(" + NUMBER + r")(?![\w/])", re.IGNORECASE)
_METRIC = re.compile(r"#\s*([A-Za-z_]\w*):\s*(" + NUMBER + r")", re.IGNORECASE)


class BasicSRParser:
    """Parse BasicSR lines. The loss is the sum of the generator's terms; ``l_d*`` are the discriminator's."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        train = _TRAIN.search(line)
        if train is not None:
            yield self._train(line, number, train)
            return
        metrics = {name: text_number(value) for name, value in _METRIC.findall(line)}
        known = {name: value for name, value in metrics.items() if value is not None}
        if known:
            yield Row(number, known, evaluation=True)

    def _train(self, line: str, number: int, train: re.Match[str]) -> Parsed:
        rest = line[train.end() :]
        values = {
            name: value for name, text in _PAIR.findall(rest) if (value := text_number(text)) is not None
        }
        terms = [value for name, value in values.items() if re.match(r"l_(?!d_)(?!d$)", name)]
        if not terms and "loss" not in values:
            return Unread(number, "a loss (l_...) was expected")
        found = {
            "loss": values["l_total"] if "l_total" in values else total(terms),
            **_rates(train[3]),
            **values,
        }
        if len(terms) == 1 or "l_total" in found:
            found = {name: value for name, value in found.items() if name not in ("l_total", "l_pix")}
        time = _TIME.search(line)
        for name, text in zip(("step_time", "data_time"), time.groups() if time else (), strict=False):
            if (seconds := text_number(text)) is not None:
                found[name] = seconds
        found.pop("eta", None)
        return Row(number, found, step=float(train[2].replace(",", "")))


def _rates(text: str) -> dict[str, float]:
    rates = [value for part in text.split(",") if (value := text_number(part)) is not None]
    return {f"lr/g{index}" if index else "lr": value for index, value in enumerate(rates)}


FORMAT = line_format("BasicSR log", 23, BasicSRParser)
