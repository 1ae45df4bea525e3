"""Name the optimizers of a run, and choose the primary: the one whose steps are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.nn import Module

from .live_objects import find_objects
from .optimizer_names import labels
from .optimizer_tracker import OptimizerTracker
from .wrappers import inner_of

LABELLED = 8
"""Maximum number of optimizers that are named after what they train, because naming searches all objects."""


class OptimizerNaming:
    """The names of one run's optimizers.

    Args:
        ledger: The run's ledger, which holds the optimizers and the primary.
        primary: The optimizer that ``primary=`` requests, or its name; None if any.
        optimizers: The optimizers that ``optimizers=`` names.
    """

    def __init__(self, ledger: Any, primary: Any, optimizers: Mapping[str, Any]) -> None:
        self._ledger = ledger
        self._requested = primary if isinstance(primary, str) else inner_of(primary) or primary
        self._is_known: bool | None = None
        """Whether a known optimizer is the one that ``primary=`` requests; None before the first step."""
        self.awaited: OptimizerTracker | None = None
        """That optimizer, if it is known before its first step."""
        self.given = {id(inner_of(one) or one): name for name, one in optimizers.items()}
        """id of an optimizer -> its name from ``optimizers=``."""
        self._named = 0

    def name_of(self, tracker: OptimizerTracker) -> str:
        """Return its name. The first call makes it the primary, unless another one was requested."""
        if tracker.name:
            return tracker.name
        optimizer = tracker.ref()
        self._named += 1
        tracker.name = self.given.get(id(optimizer)) or self._label(tracker) or f"opt{self._named}"
        if self._is_primary(tracker, optimizer):
            if self._ledger.primary is not None:
                self._ledger.primary.append(f"/{self._ledger.primary.name}")
            self._ledger.primary = tracker
        else:
            tracker.append(f"/{tracker.name}")
        return tracker.name

    def _label(self, tracker: OptimizerTracker) -> str:
        """Return the part that an optimizer trains (``generator``), or "" if it needs no such name."""
        is_alone = self._ledger.primary is None and (
            self._requested is None or self._requested is tracker.ref()
        )
        if is_alone or self._named > LABELLED:
            return ""
        label = self._labels().get(id(tracker.ref()), "")
        return "" if any(one.name == label for one in self._ledger.trackers.values()) else label

    def _labels(self) -> dict[int, str]:
        """Return id of an optimizer -> what it trains, of all that are known."""
        try:
            known = [one.ref() for one in self._ledger.trackers.values()]
            return labels([one for one in known if one is not None], find_objects((Module,)))
        except Exception as error:
            self._ledger.report_error("label", error)
            return {}

    def _is_primary(self, tracker: OptimizerTracker, optimizer: Any) -> bool:
        """Return whether it was requested, or else is the first to step, or replaces that one."""
        if self._requested is not None:
            if self._requested is optimizer or self._requested == tracker.name:
                return True
            if self._is_known is None:
                self._is_known = self._find_requested()
            if self._is_known:
                return False
        first = self._ledger.primary
        if first is None or first.ref() is None:
            return True
        return not first.depth and not first.in_scaler and not tracker.params.isdisjoint(first.params)

    def _find_requested(self) -> bool:
        """Return whether a known optimizer is the one that ``primary=`` requests; warn if none is."""
        requested, known = self._requested, [one.ref() for one in self._ledger.trackers.values()]
        self.awaited = next((one for one in self._ledger.trackers.values() if one.ref() is requested), None)
        if self.awaited is not None:
            return True
        found = {**self._labels(), **self.given}
        self.awaited = next(
            (one for key, one in self._ledger.trackers.items() if found.get(key) == requested), None
        )
        free = [f"opt{k + 1}" for k, one in enumerate(known) if id(one) not in found]
        names = sorted({*self.given.values(), *found.values(), *free})
        if isinstance(requested, str) and requested in names:
            return True
        got = f'"{requested}"' if isinstance(requested, str) else f"a {type(requested).__name__}"
        self._ledger.reporter.warn(
            f"tocsin: primary={got} is none of the optimizers ({', '.join(names[:LABELLED])}), so the first "
            "one that steps is the primary. Pass one of these names, or the optimizer itself."
        )
        return False
