"""What is to happen after so many of the primary optimizer's attempted steps."""

from __future__ import annotations

from collections.abc import Callable

NEVER = 1 << 62
NORM_EVERY = 16


class Appointments:
    """``next`` is compared at every step; the rest costs only when it is due."""

    __slots__ = ("_calls", "next")

    def __init__(self) -> None:
        self.next = NEVER
        self._calls: list[tuple[int, Callable[[], None]]] = []

    def make(self, number: int, call: Callable[[], None]) -> None:
        """``call`` after the ``number``-th attempt (from 1), or at the next one if that is past."""
        self._calls.append((number, call))
        self.next = min(self.next, number)

    def keep(self, number: int) -> list[Callable[[], None]]:
        """Takes out what is due after attempt ``number``."""
        due = [call for at, call in self._calls if at <= number]
        self._calls = [(at, call) for at, call in self._calls if at > number]
        self.next = min((at for at, _ in self._calls), default=NEVER)
        return due


def norm_every(grad_norm: str | int | bool) -> int:
    """``"auto"``: every 16th step; a number: every so many; True: every step; False or 0: never."""
    if grad_norm == "auto":
        return NORM_EVERY
    if isinstance(grad_norm, bool):
        return int(grad_norm)
    if isinstance(grad_norm, int) and grad_norm >= 0:
        return grad_norm
    raise ValueError(f'grad_norm: expected "auto", True, False or a number of steps, got {grad_norm!r}')
