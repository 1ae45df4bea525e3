"""Report the names of batches whose steps went wrong, so that bad data can be found. Pure."""

from __future__ import annotations

from math import isfinite
from typing import Any

LEARNED = 20
"""Number of values after which a running level is used."""
LOSS_DEVIATIONS, NORM_TIMES = 8.0, 5.0
"""Limits above the running levels: mean absolute deviations of the loss, multiples of the gradient norm."""
BURST, APART = 64, 20
"""Number of bad steps whose batches are reported; after that at most one in APART steps."""


class Batches:
    """Store the batch name that the script gave, and compare each record with running levels."""

    def __init__(self) -> None:
        self.named: Any = None
        self._on_reading = 0
        self._at = -APART
        self._seen = 0
        self._loss = self._deviation = self._norm = 0.0

    def take_if_bad(self, item: tuple[Any, ...]) -> Any:
        """Return the name of the batch if the record is of a bad step, else None."""
        values = dict(zip(item[2], item[3:], strict=True))
        bad = self._is_bad(values)
        if not bad or self.named is None or not self._may_report(item[0]):
            return None
        named, self.named = self.named, None
        return named

    def _may_report(self, step: int) -> bool:
        if self._on_reading >= BURST and abs(step - self._at) < APART:
            return False
        self._on_reading, self._at = self._on_reading + 1, step
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
        """Return whether the values are unusual, and update their levels; outliers change them little."""
        self._seen += 1
        rate, above = max(0.05, 1.0 / self._seen), loss - self._loss
        limit = LOSS_DEVIATIONS * self._deviation
        known = self._seen > LEARNED
        out = known and above > limit > 0
        self._loss += rate * (min(above, limit) if known else above)
        self._deviation += rate * (min(abs(above), limit if known else abs(above)) - self._deviation)
        if norm is not None:
            high = NORM_TIMES * self._norm
            out = out or (known and norm > high > 0)
            self._norm += rate * ((min(norm, high) if known and high else norm) - self._norm)
        return out
