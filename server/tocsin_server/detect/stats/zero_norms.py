"""Gradient norms of exactly 0 in a row, and the losses meanwhile: what two rules judge."""

from __future__ import annotations

import math

from tocsin_server.detect.interface.rule import RuleState
from tocsin_server.detect.interface.view import Values, View


class ZeroStreak(RuleState):
    """The present streak of zeros, the range of the loss within it, and how long the one before was."""

    streak: int = 0
    since: tuple[int, int] = (0, 0)
    low: float = math.inf
    high: float = -math.inf
    gap: int = 0
    """Zeros between the last two norms above 0: the length of a cycle."""

    def zero(self, view: View, row: int) -> None:
        """One more norm of 0."""
        if not self.streak:
            self.since = (view.step[row], view.time_ns[row])
        self.streak += 1

    def loss(self, view: View, row: int) -> float | None:
        """A finite loss in the streak: of the same record, or beside it where the script logs its norm."""
        loss = view.loss[row] if view.loss is not None else None
        if loss is None or not math.isfinite(loss):
            return None
        self.low, self.high = min(self.low, loss), max(self.high, loss)
        return loss

    def moves(self, constant: float) -> bool:
        """Whether the loss within the streak varies by more than ``constant`` of its size."""
        return self.high - self.low > constant * max(abs(self.high), abs(self.low))

    def end(self) -> None:
        """A norm above 0 came."""
        self.streak, self.low, self.high = 0, math.inf, -math.inf


def norms_of(view: View) -> Values:
    """The norms of ``view``, missing ones too: a record with a loss alone may lie within a streak."""
    return view.grad_norm if view.grad_norm is not None else [None] * view.n
