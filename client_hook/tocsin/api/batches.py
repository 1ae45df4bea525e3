"""Which batch it was, where a step goes wrong: told, so that data that recur are found. Pure."""

from __future__ import annotations

from math import isfinite
from typing import Any

LEARNT = 20
"""Values after which a level is trusted."""
LOSS_DEVIATIONS, NORM_TIMES = 8.0, 5.0
"""A loss so many mean absolute deviations above its level, a norm so many times its level."""
BURST, APART = 64, 20
"""Of the batches of bad steps so many are told, then one in so many steps."""


class Batches:
    """Remembers what the script named, and judges each record by its own running levels."""

    def __init__(self) -> None:
        self.named: Any = None
        self._told = 0
        self._at = -APART
        self._seen = 0
        self._loss = self._deviation = self._norm = 0.0

    def judge(self, item: tuple[Any, ...]) -> Any:
        """The name to tell where the record is of a bad step, else None."""
        values = dict(zip(item[2], item[3:], strict=True))
        bad = self._is_bad(values)
        if not bad or self.named is None or not self._may_tell(item[0]):
            return None
        named, self.named = self.named, None
        return named

    def _may_tell(self, step: int) -> bool:
        if self._told >= BURST and abs(step - self._at) < APART:
            return False
        self._told, self._at = self._told + 1, step
        return True

    def _is_bad(self, values: dict[str, float]) -> bool:
        for name, value in values.items():
            if not isfinite(value):
                return True
            base = name.partition("/")[0]
            if (base == "skipped" and value) or (base == "stepped" and not value):
                return True
        if values.get("nonfinite/batch"):
            return True
        return "loss" in values and self._stands_out(values["loss"], values.get("grad_norm"))

    def _stands_out(self, loss: float, norm: float | None) -> bool:
        """Against the levels so far; what stands out moves them as far as the limit only."""
        self._seen += 1
        rate, above = max(0.05, 1.0 / self._seen), loss - self._loss
        limit = LOSS_DEVIATIONS * self._deviation
        known = self._seen > LEARNT
        out = known and above > limit > 0
        self._loss += rate * (min(above, limit) if known else above)
        self._deviation += rate * (min(abs(above), limit if known else abs(above)) - self._deviation)
        if norm is not None:
            high = NORM_TIMES * self._norm
            out = out or (known and norm > high > 0)
            self._norm += rate * ((min(norm, high) if known and high else norm) - self._norm)
        return out
