"""Report evaluation as a phase: ``model.eval()`` begins one, and the next backward ends it.

Hugging Face, Lightning and scripts that use Accelerate call ``eval`` on the model that they train. Training
steps have no overhead: the end is checked for only during a phase. A model that is switched to ``eval`` at
every step (frozen batch norms, alternating GAN training) is not an evaluation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import monotonic_ns
from types import FunctionType
from typing import Any

import torch

from . import patching
from .compiler import is_compiling as _is_compiling
from .ledger import Ledger

NAME = "eval"
USUAL = 3
"""After this many calls one step apart, ``eval`` is part of the script's steps."""


def install() -> None:
    """Watch every ``eval`` of the process."""
    patching.replace(torch.nn.Module, "eval", _watch_eval)


def install_overrides() -> None:
    """Watch classes that override ``eval``, such as every model of transformers."""
    for cls in patching.subclasses_with(torch.nn.Module, "eval"):
        own = vars(cls)["eval"]
        is_plain = isinstance(own, FunctionType) and not cls.__module__.startswith("torch.")
        if is_plain and not hasattr(own, "_tocsin"):
            patching.replace(cls, "eval", _watch_eval)


def _watch_eval(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if not _is_compiling():
            for ledger in patching.attached:
                try:
                    if ledger.evaluation is not None:
                        ledger.evaluation.begin(self)
                except Exception as error:
                    ledger.report_error("eval", error)
        return result

    evaluate._tocsin = True  # type: ignore[attr-defined]
    return evaluate


class Evaluation:
    """Detect the evaluation phases of one run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._began = 0
        self._last = 0
        """Number of steps at the newest ``eval``."""
        self._usual = 0
        ledger.evaluation = self
        ledger.step_scheduler.schedule(1, install_overrides)  # by then the model's class is imported

    def begin(self, module: Any) -> None:
        """Begin a phase if the run trains ``module`` and does not call ``eval`` at every step."""
        ledger = self._ledger
        if self._began or self._usual >= USUAL or ledger.quiet or not self._is_trained(module):
            return
        if ledger.manual is not None:
            ledger.manual.boundary()  # record the step before the evaluation
        number = ledger.lead.number if ledger.lead is not None else 0
        steps, self._last = number - self._last, number
        if steps <= 1:
            self._usual += steps
            return
        reporter = ledger.reporter
        if number == 0 or reporter.phases:
            return
        self._began = monotonic_ns()
        reporter.phases.append(NAME)
        reporter.put_event("phase", {"name": NAME, "state": "begin"}, max(ledger.step, 0))
        ledger.add_inspector(self.end)

    def end(self, tensors: Any = None, scaled: bool = False) -> None:
        """End the phase at the next backward. Its time does not count as step time."""
        ledger = self._ledger
        ledger.remove_inspector(self.end)
        began, self._began = self._began, 0
        if not began:
            return
        reporter = ledger.reporter
        reporter.phases.remove(NAME)
        if not reporter.phases:
            reporter.paused_ns += monotonic_ns() - began
        reporter.put_event("phase", {"name": NAME, "state": "end"}, max(ledger.step, 0))

    def _is_trained(self, module: Any) -> bool:
        """Return whether it contains at least half of the weights of an optimizer."""
        owned = {id(param) for param in module.parameters()}
        trackers = [one for one in self._ledger.trackers.values() if one.params]
        return any(2 * len(owned & one.params) >= len(one.params) for one in trackers)
