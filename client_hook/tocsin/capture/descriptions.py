"""What the server is told of optimizers, scalers and schedulers: at the watch, at the first step, later.

Scripts make them when they like: ahead of the watch, behind it, the second one of a GAN steps after the
first record, another in mid-training. Whatever is met after the description is told at the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.config import plain
from .discovery import take_census
from .ledger import Ledger

AGAIN = 8
"""How often one run is described anew in mid-training: each time all living objects are looked through."""


class Describer:
    """Keeps ``facts.described`` as it is; what changed is an event too, for hello has been said by then."""

    def __init__(
        self, watch: Any, ledger: Ledger, facts: Any, versions: Callable[[], dict[str, str]]
    ) -> None:
        self._watch = watch
        self._ledger = ledger
        self._facts = facts
        self._versions = versions
        self._begun = self._due = False
        self._known: tuple[list[str], int] = ([], 0)
        """Names of optimizers, and the number of scalers that had one, when they were last described."""
        self._left = AGAIN
        self.described = self.describe()
        watch.on_start = self.at_start
        watch.on_names = self.met

    def describe(self) -> Any:
        """Looks at what there is; hello says it too, where it is still to be said."""
        self._facts.described = plain(take_census(self._ledger))
        self._facts.versions = self._versions()
        self._known = self._named()
        return self._facts.described

    def _named(self) -> tuple[list[str], int]:
        steppers = [*self._ledger.steppers.values(), *self._ledger.members.values()]
        return [one.name for one in steppers if one.name], len(self._ledger.scaler_names)

    def at_start(self) -> None:
        """Just before hello: the training, as nearly always, or a word of the script ahead of it."""
        self.describe()
        self._begun = True
        self._tell_schedules([])
        if self._ledger.untouched:
            self._ledger.alive = None
            self._wait()

    def met(self) -> None:
        """A record has names that were not there: there may be an optimizer or a scaler behind them."""
        if self._begun and not self._due and self._left and self._named() != self._known:
            self._left -= 1
            self._wait()

    def _wait(self) -> None:
        """Until the primary's next step has ended: all that a backward met is told at once."""
        self._due = True
        self._ledger.appointments.make(0, self._tell)

    def _tell(self) -> None:
        self._due = False
        told = self._facts.described["schedulers"]
        described = self.describe()
        self._ledger.alive = None  # the audit has looked already
        self._tell_schedules(told)
        self._watch.put_event("attached", {key: described[key] for key in ("optimizers", "scalers")})

    def _tell_schedules(self, told: list[Any]) -> None:
        for scheduler in self._facts.described["schedulers"]:
            whose = scheduler["optimizer"], scheduler["scheduler"]  # its arguments count its steps
            if whose not in [(one["optimizer"], one["scheduler"]) for one in told]:
                self._watch.put_event("schedule", scheduler)
