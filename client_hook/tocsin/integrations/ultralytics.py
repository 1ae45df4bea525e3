"""Ultralytics YOLO: ``add_tocsin_callback(model, project="p")`` before ``model.train(...)``."""

from __future__ import annotations

import sys
from typing import Any

from .framework import FrameworkRun, guarded, is_first_rank, missing

FRAMEWORK = "ultralytics"
METRIC = "metrics/"
"""Prefix of the metrics of a validation; its losses have ``val/``."""
EVENTS = (
    "on_train_start",
    "on_train_epoch_start",
    "on_train_epoch_end",
    "on_val_start",
    "on_val_end",
    "on_fit_epoch_end",
    "teardown",
)


def add_tocsin_callback(model: Any, **options: Any) -> None:
    """Add the callbacks to a ``YOLO`` model or a trainer.

    Args:
        model: What has ``add_callback``.
        options: Arguments of ``tocsin.watch`` for the case that the script has started no run.
    """
    reports = TocsinCallback(**options)
    for event in EVENTS:
        if event in getattr(model, "callbacks", ()):
            model.add_callback(event, getattr(reports, event))
        else:
            missing(FRAMEWORK, f"the event {event}", "this version does not have it")


class TocsinCallback:
    """Reports arguments, planned steps, epochs, validation phases and metrics of each training.

    It reports to the run that the script started with ``tocsin.watch``, or starts one, which ends with the
    training. Learning rates are left out, because the hook captures them at every step.
    """

    def __init__(self, **options: Any) -> None:
        """Choose the run that is started if the script has started none."""
        self._tocsin = FrameworkRun(FRAMEWORK, options)
        self._is_training = False
        self._is_epoch = False
        self._is_validated = False

    @guarded
    def on_train_start(self, trainer: Any) -> None:
        """Start the run and describe it."""
        done, planned = lengths(trainer)
        name = getattr(trainer.args, "name", None)
        self._tocsin.begin(config=vars(trainer.args), planned_steps=planned, done_steps=done, name=name)
        self._is_training = True

    @guarded
    def on_train_epoch_start(self, trainer: Any) -> None:
        """Report the epoch."""
        self._tocsin.epoch(trainer.epoch)

    @guarded
    def on_train_epoch_end(self, trainer: Any) -> None:
        """Record the mean training losses of the epoch, by part."""
        self._is_epoch, self._is_validated = True, False
        if is_first_rank():
            self._tocsin.log(trainer.label_loss_items(trainer.tloss, prefix="train"))

    @guarded
    def on_val_start(self, validator: Any) -> None:
        """Report the validation as a phase."""
        if self._is_training:
            self._tocsin.phase_begins()

    @guarded
    def on_val_end(self, validator: Any) -> None:
        """Report the end of the phase."""
        if self._is_training:
            self._is_validated = True
            self._tocsin.phase_ends()

    @guarded
    def on_fit_epoch_end(self, trainer: Any) -> None:
        """Record the metrics of the validation.

        Without a validation they are those of an earlier epoch. After the last epoch, Ultralytics validates
        the best checkpoint; its metrics belong to an earlier step.
        """
        if self._is_epoch and self._is_validated and is_first_rank():
            found = {name.removeprefix(METRIC): value for name, value in trainer.metrics.items()}
            goal = {name.removeprefix(METRIC): "max" for name in trainer.metrics if name.startswith(METRIC)}
            self._tocsin.evaluated(found, goal=goal)
        self._is_epoch = False

    @guarded
    def teardown(self, trainer: Any) -> None:
        """End the run that was started here; Ultralytics also calls this for a training that fails."""
        if self._is_training:
            self._is_training = False
            self._tocsin.phase_ends()
            self._tocsin.finish(sys.exc_info()[1])


def lengths(trainer: Any) -> tuple[int, int | None]:
    """Return the optimizer steps before this training and at its end; None if its length is a time."""
    try:
        batches = len(trainer.train_loader)
        warmup = int(trainer._get_warmup_iterations(batches))
        first, last = trainer.start_epoch * batches, trainer.epochs * batches
        done = optimizer_steps(0, first, warmup, trainer.accumulate)
        if trainer.args.time:
            return done, None
        return done, done + optimizer_steps(first, last, warmup, trainer.accumulate)
    except Exception as error:
        missing(FRAMEWORK, "the number of planned steps", repr(error))
        return 0, None


def optimizer_steps(first: int, last: int, warmup: int, accumulated: int) -> int:
    """Return the optimizer steps in a range of batches.

    The batches of a step grow from 1 to ``accumulated`` in the warm-up. A training that continues updates
    after its first batch.
    """
    steps, newest = 0, -1
    for batch in range(first, min(last, warmup + 1)):
        if batch - newest >= max(1, round(1 + (accumulated - 1) * batch / max(warmup, 1))):
            steps, newest = steps + 1, batch
    begin = max(first, warmup + 1)
    if begin >= last:
        return steps
    begin = max(begin, newest + accumulated)
    return steps + len(range(begin, last, accumulated))
