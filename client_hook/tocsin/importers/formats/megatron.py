"""Megatron-LM and NeMo: ``iteration  7010/ 300000 | ... | lm loss: 1.1E+01 | loss scale: 2048.0 | ...``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..format import line_format
from ..items import Parsed, Row, Unread
from ..values import text_number

_TRAIN = re.compile(r"\biteration\s+(\d+)/\s*(\d+)\s*\|")
_EVALUATION = re.compile(r"\bvalidation loss at iteration (\d+)")
_NAMES = {
    "lm loss": "loss",
    "elapsed time per iteration (ms)": "step_ms",
    "elapsed time per iteration (s)": "step_time",
    "train_step_timing in s": "step_time",
    "learning rate": "lr",
    "loss scale": "scale",
    "grad norm": "grad_norm",
    "number of skipped iterations": "skipped",
    "number of nan iterations": "nan_iters",
    "lm loss value": "loss",
    "lm loss ppl": "ppl",
}
_LEFT = {
    "consumed samples", "consumed tokens", "global batch size", "curriculum seqlen",
    "consumed_samples", "global_batch_size", "global_step",
}  # fmt: skip


class MegatronParser:
    """Parse Megatron lines. A line without a loss but with NaN iterations has a NaN loss."""

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        train = _TRAIN.search(line)
        if train is not None:
            yield self._train(_fields(line[train.end() :]), number, float(train[1]))
            return
        evaluation = _EVALUATION.search(line)
        if evaluation is not None:
            values = _fields(line[evaluation.end() :].lstrip(" |"))
            if values:
                yield Row(number, values, step=float(evaluation[1]), evaluation=True)

    def _train(self, values: dict[str, float], number: int, step: float) -> Parsed:
        if "step_ms" in values:
            values["step_time"] = values.pop("step_ms") / 1e3
        if "loss" not in values and values.get("nan_iters", 0) > 0:
            values["loss"] = float("nan")
        if not values:
            return Unread(number, "fields such as lm loss were expected")
        return Row(number, values, step=step)


def _fields(text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for field in text.split("|"):
        name, value = _field(field)
        key = name.lower()
        known = text_number(value)
        if known is not None and key not in _LEFT:
            values[_NAMES.get(key, key)] = known
    return values


def _field(text: str) -> tuple[str, str]:
    """Return name and value of ``grad norm [L2]: 0.5``; empty if it is not a field."""
    before, last = ("", *text.rsplit(None, 1))[-2:] if text.strip() else ("", "")
    if before.endswith(":"):
        name, value = before[:-1], last
    else:
        inner, _, value = last.partition(":")
        name = f"{before} {inner}"
    name = name.rpartition(":")[2].strip()
    bare, bracket, unit = name.removesuffix("]").rpartition("[")
    if name.endswith("]") and bracket and unit.replace("_", "").isalnum():
        name = bare.rstrip()
    return name, value


FORMAT = line_format("Megatron-LM log", 24, MegatronParser)
