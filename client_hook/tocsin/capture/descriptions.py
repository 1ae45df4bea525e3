"""Describe optimizers, scalers and schedulers to the server: at ``watch``, at the first step, and later.

Scripts may create them before ``watch``, after it, or in the middle of training; the second optimizer of a
GAN steps after the first record. New ones are reported after the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.config import plain
from .discovery import discover_optimizers
from .ledger import Ledger

AGAIN = 8
"""Maximum number of descriptions in the middle of training, because each one searches all objects."""


class Describer:
    """Keep ``run_info.described`` current, and send changes after the handshake as events."""

    def __init__(
        self, reporter: Any, ledger: Ledger, run_info: Any, versions: Callable[[], dict[str, str]]
    ) -> None:
        self._reporter = reporter
        self._ledger = ledger
        self._run_info = run_info
        self._versions = versions
        self._begun = self._due = False
        self._known: tuple[list[str], int] = ([], 0)
        """Names of the optimizers, and the number of named scalers, at the newest description."""
        self._left = AGAIN
        self.described = self.describe()
        reporter.on_start.append(self.at_start)
        reporter.on_names = self.met

    def describe(self) -> Any:
        """Describe what exists. The next handshake contains it."""
        self._run_info.described = plain(discover_optimizers(self._ledger))
        self._run_info.versions = self._versions()
        self._known = self._named()
        return self._run_info.described

    def _named(self) -> tuple[list[str], int]:
        trackers = [*self._ledger.trackers.values(), *self._ledger.members.values()]
        return [one.name for one in trackers if one.name], len(self._ledger.scaler_names)

    def at_start(self) -> None:
        """Describe just before the handshake: training starts, or the script logs before it."""
        self.describe()
        self._begun = True
        self._send_schedules([])
        if self._ledger.untouched:
            self._ledger.alive = None
            self._wait()

    def met(self) -> None:
        """Schedule a description if a record has new names: there may be a new optimizer or scaler."""
        if self._begun and not self._due and self._left and self._named() != self._known:
            self._left -= 1
            self._wait()

    def _wait(self) -> None:
        """Wait for the end of the primary's next step, so that all changes are reported together."""
        self._due = True
        self._ledger.step_scheduler.schedule(0, self._send_changes)

    def _send_changes(self) -> None:
        self._due = False
        before = self._run_info.described["schedulers"]
        described = self.describe()
        self._ledger.alive = None  # the config check has used it already
        self._send_schedules(before)
        self._reporter.put_event("attached", {key: described[key] for key in ("optimizers", "scalers")})

    def _send_schedules(self, before: list[Any]) -> None:
        for scheduler in self._run_info.described["schedulers"]:
            whose = (
                scheduler["optimizer"],
                scheduler["scheduler"],
            )  # its arguments count steps
            if whose not in [(one["optimizer"], one["scheduler"]) for one in before]:
                self._reporter.put_event("schedule", scheduler)
