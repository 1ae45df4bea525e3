"""Number of whole (undivided) losses per step. Where it changes, gradients and their norms change too.

With gradient accumulation, a script may add up the losses of the micro-steps undivided. If it divides each
loss by their number, the gradients do not depend on it; the hook then sends no ``loss_sum``, and the losses
of a step count as one.
"""

from __future__ import annotations

import msgspec

from tocsin_server.detect.interface.view import View

FEWER = 8
"""Number of records with fewer micro-steps before it counts as a change.

The last step of an epoch is often short.
"""


class MicroSteps(msgspec.Struct):
    """Counts of one stream. ``count`` is the number of whole losses per step, at first 0."""

    count: float = 0.0
    losses: float = 0.0
    """Number of losses per step, divided or not, at the current ``count``.

    It is unchanged if only the scaling of the losses changed.
    """
    fewer: int = 0

    def changes(self, view: View) -> list[int]:
        """Return the rows of ``view`` at which the number of whole losses per step changes."""
        sums, losses = view.column("loss_sum"), view.column("loss_n")
        if losses is None:
            return []
        if sums is None and self.count <= 1.0:
            newest = view.newest(losses)
            if newest is not None:
                self.count, self.losses = 1.0, newest
            return []
        rows = []
        for row, number in enumerate(losses):
            if number is None:
                continue
            count = number if sums is not None and sums[row] is not None else 1.0
            if self._is_change(count, number):
                rows.append(row)
            if count == self.count:
                self.losses = number
        return rows

    def _is_change(self, count: float, losses: float) -> bool:
        known = self.count
        self.fewer = self.fewer + 1 if count < known else 0
        if count == known or (count < known and self.fewer < FEWER and losses != self.losses):
            return False
        self.count, self.fewer = count, 0
        return known > 0.0
