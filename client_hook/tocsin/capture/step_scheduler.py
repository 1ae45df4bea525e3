"""Call functions after a given number of steps of the primary optimizer."""

from __future__ import annotations

from collections.abc import Callable

NEVER = 1 << 62
NORM_EVERY = 16


class StepScheduler:
    """Scheduled calls. Each step only compares its number with ``next``."""

    __slots__ = ("_calls", "next")

    def __init__(self) -> None:
        self.next = NEVER
        self._calls: list[tuple[int, Callable[[], None]]] = []

    def schedule(self, number: int, call: Callable[[], None]) -> None:
        """Call ``call`` after the ``number``-th attempted step (from 1), or after the next one if that is
        past.
        """
        self._calls.append((number, call))
        self.next = min(self.next, number)

    def take_due(self, number: int) -> list[Callable[[], None]]:
        """Remove and return the calls that are due after step ``number``."""
        due = [call for at, call in self._calls if at <= number]
        self._calls = [(at, call) for at, call in self._calls if at > number]
        self.next = min((at for at, _ in self._calls), default=NEVER)
        return due


def norm_every(grad_norm: str | int | bool) -> int:
    """Return the steps between norms: ``"auto"`` 16, a number itself, True 1, False and 0 never.

    Raises:
        ValueError: The value is not one of these.
    """
    if grad_norm == "auto":
        return NORM_EVERY
    if isinstance(grad_norm, bool):
        return int(grad_norm)
    if isinstance(grad_norm, int) and grad_norm >= 0:
        return grad_norm
    raise ValueError(f'grad_norm: expected "auto", True, False or a number of steps, got {grad_norm!r}')
