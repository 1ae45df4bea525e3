"""Consecutive gradient norms of exactly 0, and the losses in them; shared by two rules."""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect.interface.rule import RuleState
from tocsin_server.detect.interface.view import Values, View
from tocsin_server.detect.stats.printed import FINE, Fall


class ZeroStreak(RuleState):
    """The current streak of zeros, the range of the loss within it, and the previous streak's length."""

    streak: int = 0
    since: tuple[int, int] = (0, 0)
    low: float = math.inf
    high: float = -math.inf
    above: bool = False
    """Whether a norm was above 0, if norms are printed with few decimals."""
    fall: Fall = msgspec.field(default_factory=Fall)
    gap: int = 0
    """Number of zeros between the last two norms above 0, which is the length of a cycle."""

    def zero(self, view: View, row: int) -> None:
        """Count another norm of 0."""
        if not self.streak:
            self.since = (view.step[row], view.time_ns[row])
        self.streak += 1

    def loss(self, view: View, row: int) -> float | None:
        """Add the loss at ``row`` to the streak's range and return it, or None if it is not finite."""
        loss = view.loss[row] if view.loss is not None else None
        if loss is None or not math.isfinite(loss):
            return None
        self.low, self.high = min(self.low, loss), max(self.high, loss)
        return loss

    def moves(self, constant: float) -> bool:
        """Return whether the loss varies within the streak by more than the relative size ``constant``."""
        return self.high - self.low > constant * max(abs(self.high), abs(self.low))

    def end(self) -> None:
        """End the streak at a norm above 0."""
        self.streak, self.low, self.high = 0, math.inf, -math.inf


def norms_of(view: View, state: ZeroStreak, quantum: float) -> Values:
    """Return the norms of ``view``, with None for missing ones and for zeros that may be rounded.

    Missing norms matter because a streak may contain records that have only a loss. In a column with few
    decimals, a 0 counts if the norm fell to it in one record, or if norm and loss are both 0 from the start.

    Args:
        view: The records being checked.
        state: The current streak.
        quantum: Distance between two norms that can be printed; 0 if they are recorded in full.
    """
    norms: Values = view.grad_norm if view.grad_norm is not None else [None] * view.n
    return (
        norms if not quantum else [_proved(view, row, norm, state, quantum) for row, norm in enumerate(norms)]
    )


def _proved(view: View, row: int, norm: float | None, state: ZeroStreak, quantum: float) -> float | None:
    if norm is None or not math.isfinite(norm) or norm != 0.0:
        if norm is not None:
            state.above = True
            state.fall.is_zero(norm, quantum)
        return norm
    from_start = not state.above and quantum <= FINE and view.loss is not None and view.loss[row] == 0.0
    return norm if state.fall.is_zero(norm, quantum) or from_start else None
