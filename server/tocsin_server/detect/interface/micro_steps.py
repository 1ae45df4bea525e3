"""How many whole losses make one step: where that changes, gradients and their norms change with it.

Losses that the script divided by their number leave both as they were (the hook sends no ``loss_sum``
then): they count as one.
"""

from __future__ import annotations

import msgspec

from tocsin_server.detect.interface.view import View

FEWER = 8
"""Records with fewer micro-steps that make it a change: the last step of an epoch is often cut short."""


class MicroSteps(msgspec.Struct):
    """What one stream counts at present. ``count``: whole losses a step, 0 before the first."""

    count: float = 0.0
    losses: float = 0.0
    """Losses of any kind in the steps that have it: the same where only what they mean has changed."""
    fewer: int = 0

    def changes(self, view: View) -> list[int]:
        """Return the rows of ``view`` with which another number of whole losses makes a step."""
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
