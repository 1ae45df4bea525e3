"""Describe optimizers, scalers and schedulers to the server: at ``watch``, at the first step, and later.

Scripts may create them before ``watch``, after it, or in the middle of training; the second optimizer of a
GAN steps after the first record. Whatever is new is reported after the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.config import plain
from .discovery import take_census
from .ledger import Ledger

AGAIN = 8
"""Maximum number of descriptions in the middle of training, because each one searches all objects."""


class Describer:
    """Keep ``facts.described`` current, and send changes as events, because the handshake was sent before."""

    def __init__(
        self, watch: Any, ledger: Ledger, facts: Any, versions: Callable[[], dict[str, str]]
    ) -> None:
        self._watch = watch
        self._ledger = ledger
        self._facts = facts
        self._versions = versions
        self._begun = self._due = False
        self._known: tuple[list[str], int] = ([], 0)
        """Names of the optimizers, and the number of named scalers, at the newest description."""
        self._left = AGAIN
        self.described = self.describe()
        watch.on_start = self.at_start
        watch.on_names = self.met

    def describe(self) -> Any:
        """Describe what exists. The next handshake contains it."""
        self._facts.described = plain(take_census(self._ledger))
        self._facts.versions = self._versions()
        self._known = self._named()
        return self._facts.described

    def _named(self) -> tuple[list[str], int]:
        steppers = [*self._ledger.steppers.values(), *self._ledger.members.values()]
        return [one.name for one in steppers if one.name], len(self._ledger.scaler_names)

    def at_start(self) -> None:
        """Describe just before the handshake: training starts, or the script logs before it."""
        self.describe()
        self._begun = True
        self._tell_schedules([])
        if self._ledger.untouched:
            self._ledger.alive = None
            self._wait()

    def met(self) -> None:
        """Schedule a description if a record has new names: there may be a new optimizer or scaler."""
        if self._begun and not self._due and self._left and self._named() != self._known:
            self._left -= 1
            self._wait()

    def _wait(self) -> None:
        """Wait for the end of the primary's next step, so that all news is reported together."""
        self._due = True
        self._ledger.appointments.make(0, self._tell)

    def _tell(self) -> None:
        self._due = False
        told = self._facts.described["schedulers"]
        described = self.describe()
        self._ledger.alive = None  # the config check has used it already
        self._tell_schedules(told)
        self._watch.put_event("attached", {key: described[key] for key in ("optimizers", "scalers")})

    def _tell_schedules(self, told: list[Any]) -> None:
        for scheduler in self._facts.described["schedulers"]:
            whose = (
                scheduler["optimizer"],
                scheduler["scheduler"],
            )  # its arguments count steps
            if whose not in [(one["optimizer"], one["scheduler"]) for one in told]:
                self._watch.put_event("schedule", scheduler)
