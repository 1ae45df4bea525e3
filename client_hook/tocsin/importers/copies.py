"""Several processes that print into one log: which of them a record is of. Pure.

Ranks that do not know of each other print each step once each, without a name, and not quite in order. A
record is taken for a copy only once ``ENOUGH`` steps in a row came several times with the same signals:
a progress bar that repeats its last line is none.
"""

from __future__ import annotations

from collections import OrderedDict

ENOUGH = 10
NEAR = 16
"""Steps that are remembered: so far processes may be apart."""
MOST = 64
"""Processes that are told apart; later ones count as the last."""


class Copies:
    """Counts how often each of the newest steps came with a loss or a gradient norm."""

    def __init__(self) -> None:
        self.found = False
        self._seen: OrderedDict[int, int] = OrderedDict()
        self._streak = 0

    def forget(self) -> None:
        """A new run begins in the file."""
        self._seen.clear()
        self._streak = 0

    def place(self, step: int, names: set[str]) -> int:
        """Which process a record at ``step`` is of, from 0 on; 0 where it names no signal of training."""
        if not names & {"loss", "grad_norm"}:
            return 0
        times = self._seen.get(step, 0)
        self._seen[step] = times + 1
        if len(self._seen) > NEAR:
            self._judge(self._seen.popitem(last=False)[1])
        return min(times, MOST - 1) if self.found else 0

    def is_known(self, step: int) -> bool:
        """Whether the step came just now: a step back to it is no rewind where processes are told apart."""
        return self.found and step in self._seen

    def _judge(self, times: int) -> None:
        """A step is over: it came several times, or once."""
        self._streak = self._streak + 1 if times > 1 else 0
        self.found = self.found or self._streak >= ENOUGH
