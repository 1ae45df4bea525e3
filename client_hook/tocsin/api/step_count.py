"""The step to which a logged value belongs.

Captured optimizers count the steps (in the ledger), else ``run.step`` does, else ``log`` itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

NAMES = 4096
"""Maximum number of different name tuples that are remembered."""


class StepCount:
    """Count the steps of one run, as far as no captured optimizer counts them.

    Args:
        start_step: The first step of the run.
        ledger: The ledger of its optimizers, if torch is watched.
        captured: Names of the series that the hook itself has reported so far.
    """

    def __init__(self, start_step: int | None, ledger: Any, captured: Collection[str]) -> None:
        self.ledger = ledger
        self.reported = (start_step or 0) - 1
        """Newest step that the script has reported with ``run.step``, or has loaded from a checkpoint."""
        self.is_explicit = False
        """Whether the script has used ``run.step``."""
        self.is_alone = True
        """Whether ``log`` itself counts the steps, because nothing else does, as far as is known."""
        self._captured = captured
        self._counted: int | None = None
        """The step that ``log`` has counted."""
        self._first_names: tuple[str, ...] = ()
        self._more_names: set[str] = set()
        """The names that were logged in that step: those of the call that began it, and of later calls."""
        self._ahead: dict[tuple[Any, ...], int] = {}
        """Names that were first logged before the first backward -> the step of their last values."""

    @property
    def is_captured(self) -> bool:
        """Whether captured optimizers count the steps."""
        return self.ledger is not None and not self.ledger.quiet

    @property
    def current(self) -> int:
        """The step of a value that is logged now: the next one after a backward, else the newest."""
        if self._counted is not None and self.stays_alone():
            return self._counted
        return int(self.ledger.coming) if self.is_captured else max(self.reported, 0)

    @property
    def updated(self) -> int:
        """The newest step whose update the weights contain."""
        return int(self.ledger.step) if self.is_captured and self.ledger.step >= 0 else self.current

    @property
    def following(self) -> int:
        """The step after the newest."""
        if self._counted is not None and self.stays_alone():
            return self._counted + 1
        return int(self.ledger.step if self.is_captured else self.reported) + 1

    @property
    def is_between(self) -> bool:
        """Whether every call is between two steps, because no step was seen yet."""
        return not self.is_explicit and (self.ledger is None or self.ledger.untouched)

    def stays_alone(self) -> bool:
        """Return whether nothing counts the steps: no optimizer was seen and ``run.step`` was not used."""
        ledger = self.ledger
        counts = ledger is not None and (ledger.trackers or ledger.quiet or self._captured)
        self.is_alone = not (self.is_explicit or counts)
        return self.is_alone

    def continue_after(self, step: int) -> None:
        """Continue after ``step``, because a checkpoint was loaded."""
        self.reported = step
        if self.ledger is not None:
            self.ledger.continue_at(step)

    def report(self, step: int | None) -> int:
        """Return the step of this call of ``run.step``, by default the one after the previous call's."""
        self.reported = self.reported + 1 if step is None else step
        self.is_explicit, self.is_alone = True, False
        return self.reported

    def use_explicit_steps(self, step: int | None) -> bool:
        """Stop automatic records; return whether the next explicit step is the one that was captured last.

        Args:
            step: The step that the script gives to its first call of ``run.step``.
        """
        ledger = self.ledger
        is_last = step is None or (type(step) is int and step == ledger.step)
        is_only = ledger.primary is not None and ledger.primary.number == 1 and self.reported < ledger.step
        same = is_last and is_only
        self.reported = max(self.reported, ledger.step - 1 if same else ledger.step)
        ledger.quiet = True
        self._ahead.clear()
        return same

    # -- the calls of log

    def named(self, names: tuple[Any, ...]) -> None:
        """Remember names that are logged for the first time, if that is before the first backward."""
        if self.is_captured and self.ledger.untouched and len(self._ahead) < NAMES:
            self._ahead[names] = -1

    def of(self, names: tuple[Any, ...], known: tuple[str, ...]) -> int:
        """Return the step of values that are logged now without one.

        Args:
            names: Their names as the script gave them.
            known: Their names as they are sent.
        """
        if self.is_alone and self.stays_alone():
            return self._count(names, known)
        if not self.is_captured:
            return self.current
        step = int(self.ledger.coming)
        return self._in_forward(names, step) if self._ahead and names in self._ahead else step

    def count_from(self, step: int, known: tuple[str, ...]) -> None:
        """Continue the count of ``log`` at a step that the script gave, if it is the highest so far."""
        counted = self._counted
        if counted is not None and step > counted and self.ledger is None and not self._more_names:
            self._counted, self._first_names = step, known  # the usual call, without another one
            return
        highest = self.reported if counted is None else counted
        if step < max(highest, 0) or not self.stays_alone():
            return
        if step > highest:
            self._begin(step, known)
        else:
            self._more_names.update(known)

    def coming(self, names: tuple[Any, ...]) -> int:
        """Return the step to which ``log`` would add these names now."""
        step = self.current
        if self.is_alone:
            return step if self._is_new(names) else step + 1
        if self._ahead.get(names) != step or self.ledger.untouched or self._has_open_backward():
            return step
        return step + 1

    def _begin(self, step: int, known: tuple[str, ...]) -> None:
        self._counted, self._first_names = step, known
        if self._more_names:
            self._more_names.clear()

    def _count(self, names: tuple[Any, ...], known: tuple[str, ...]) -> int:
        """Return the step of ``names`` as ``log`` counts it: a repeated name starts the next step."""
        counted = self._counted
        if counted is not None and self._is_new(known):
            step = counted
            self._more_names.update(known)
        else:
            step = (self.reported if counted is None else counted) + 1
            self._begin(step, known)
        if names in self._ahead:
            if self._ahead[names] < 0:
                self._ahead[names] = step
            else:
                del self._ahead[names]  # logged twice before any step, so not once per step
        return step

    def _is_new(self, names: tuple[Any, ...]) -> bool:
        """Return whether none of these names was logged in the step that ``log`` has counted."""
        return self._more_names.isdisjoint(names) and set(self._first_names).isdisjoint(names)

    def _in_forward(self, names: tuple[Any, ...], step: int) -> int:
        """Return the step for names that were first logged before a backward: the first without them.

        If a backward waits for its step, this is the forward pass of another micro-step of that step.
        """
        if step == self._ahead[names] and not self._has_open_backward():
            if self.ledger.untouched:
                del self._ahead[names]  # logged twice before any step, so not once per step
                return step
            step += 1
        self._ahead[names] = step
        return step

    def _has_open_backward(self) -> bool:
        """Return whether a backward waits for the primary's step."""
        return bool(self.ledger.coming > self.ledger.step and not self.ledger.untouched)
