"""torchtune: ``metric_logger._component_=tocsin.integrations.torchtune.TocsinLogger``."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Mapping
from typing import Any

from .framework import FrameworkRun, guarded, missing

FRAMEWORK = "torchtune"

_loggers: weakref.WeakSet[Any] = weakref.WeakSet()
"""Loggers to which recipes report."""


class TocsinLogger:
    """The metric logger of a recipe: reports its configuration, planned steps, epochs and metrics.

    Loss, gradient norm and learning rate are left out, because the hook captures them at every step. Recipes
    backpropagate the sum over the tokens and then divide the gradients by their number. The
    loss is divided in the same way.
    """

    def __init__(
        self,
        project: str | None = None,
        *,
        log_dir: str | None = None,
        filename: str | None = None,
        **options: Any,
    ) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            project: Project of the run; default: ``TOCSIN_PROJECT``.
            log_dir: Ignored: many configurations set it for torchtune's own loggers.
            filename: Ignored like ``log_dir``.
            options: Further arguments of ``tocsin.watch``, such as ``name``.
        """
        self._tocsin = FrameworkRun(FRAMEWORK, {"project": project, **options})
        self._recipe: Any = None
        self._epoch: int | None = None
        _loggers.add(self)
        watch_scaling()

    @guarded
    def log_config(self, config: Any) -> None:
        """Start the run and describe it.

        Args:
            config: The configuration of the recipe.
        """
        self._tocsin.begin(config=config)

    def log(self, name: str, data: Any, step: int) -> None:
        """Record one metric. ``step`` is that of the recipe, counted from 1."""
        self.log_dict({name: data}, step)

    @guarded
    def log_dict(self, payload: Mapping[str, Any], step: int) -> None:
        """Record metrics. ``step`` is that of the recipe, counted from 1."""
        self.describe(sys._getframe(1))
        self._tocsin.log(payload, step=step - 1, prefix="train/")

    @guarded
    def close(self) -> None:
        """End the run if this logger started it."""
        _loggers.discard(self)
        self._recipe = None
        self._tocsin.finish()

    @guarded
    def scaled(self, factor: Any, caller: Any) -> None:
        """Report that the recipe multiplies the gradients of this step by a factor."""
        self.describe(caller)
        self._tocsin.run.scale_losses(factor)

    def describe(self, frame: Any) -> None:
        """Report planned steps, and each epoch at its first step.

        Args:
            frame: Where to search for the recipe, which passes its logger only metrics.
        """
        if self._recipe is None:
            self._recipe = recipe = recipe_in(frame)
            if recipe is not None:
                planned = recipe.total_epochs * recipe._steps_per_epoch
                self._tocsin.begin(planned_steps=planned, done_steps=recipe.global_step)
        epoch = getattr(self._recipe, "epochs_run", None)
        if epoch is not None and epoch != self._epoch:
            self._epoch = epoch
            self._tocsin.epoch(epoch)


def recipe_in(frame: Any) -> Any:
    """Return the recipe whose method runs, or None."""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if hasattr(owner, "_steps_per_epoch") and hasattr(owner, "total_epochs"):
            return owner
        frame = frame.f_back
    return None


def watch_scaling() -> None:
    """Receive the factor by which a recipe multiplies its gradients before a step."""
    try:
        from torchtune import training

        if not hasattr(training.scale_grads, "_tocsin"):
            training.scale_grads = _watched(training.scale_grads)
    except Exception as error:
        missing(FRAMEWORK, "training.scale_grads", repr(error))


def _watched(original: Any) -> Any:
    @functools.wraps(original)
    def scale_grads(model: Any, scaler: Any) -> None:
        original(model, scaler)
        for logger in tuple(_loggers):
            logger.scaled(scaler, sys._getframe(1))

    scale_grads._tocsin = True  # type: ignore[attr-defined]
    return scale_grads
