"""Distinguish several processes that print into one log. Pure.

Without coordination, every rank prints every step, without its rank and slightly out of order. A record
counts as a copy only after ``ENOUGH`` consecutive steps occurred several times with the same signals, because
a progress bar may repeat its last line.
"""

from __future__ import annotations

from collections import OrderedDict

ENOUGH = 10
NEAR = 16
"""Number of recent steps that are remembered: the maximum distance between processes."""
MOST = 64
"""Maximum number of processes; later ones count as the last."""


class Copies:
    """Count how often each recent step occurred with a loss or a gradient norm, and each evaluation."""

    def __init__(self) -> None:
        self.found = False
        self._seen: OrderedDict[int, int] = OrderedDict()
        self._evaluated: OrderedDict[tuple[int, frozenset[str]], int] = OrderedDict()
        self._streak = 0

    def forget(self) -> None:
        """Start again, because a new run begins in the file."""
        self._seen.clear()
        self._evaluated.clear()
        self._streak = 0

    def place(self, step: int, names: set[str]) -> int:
        """Return the index of the process that printed a record; 0 if it has no training signal or metric."""
        if not names & {"loss", "grad_norm"}:
            return self._evaluation(step, frozenset(names))
        times = self._seen.get(step, 0)
        self._seen[step] = times + 1
        if len(self._seen) > NEAR:
            self._note(self._seen.popitem(last=False)[1])
        return min(times, MOST - 1) if self.found else 0

    def _evaluation(self, step: int, names: frozenset[str]) -> int:
        if not any(name.startswith("val/") for name in names):
            return 0
        times = self._evaluated.get((step, names), 0)
        self._evaluated[step, names] = times + 1
        if len(self._evaluated) > NEAR:
            self._evaluated.popitem(last=False)
        return min(times, MOST - 1) if self.found else 0

    def is_known(self, step: int) -> bool:
        """Return whether the step occurred recently, so that going back to it is not a rewind."""
        return self.found and (step in self._seen or any(step == at for at, _ in self._evaluated))

    def _note(self, times: int) -> None:
        """Note how often a step occurred in total."""
        self._streak = self._streak + 1 if times > 1 else 0
        self.found = self.found or self._streak >= ENOUGH
