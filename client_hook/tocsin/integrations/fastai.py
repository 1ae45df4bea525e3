"""fastai: ``Learner(..., cbs=TocsinCallback(project="p"))``, or in one call ``learn.fit(..., cbs=...)``."""

from __future__ import annotations

import math
from typing import Any

from .framework import FrameworkRun, check_hooks, class_of, guarded, is_first_rank

FRAMEWORK = "fastai"
Callback: Any = class_of(FRAMEWORK, "fastai.callback.core", "Callback")
Recorder: Any = class_of(FRAMEWORK, "fastai.learner", "Recorder")
event: Any = class_of(FRAMEWORK, "fastai.callback.core", "event")
"""The names of the events."""
SETTINGS = ("lr", "wd", "moms", "wd_bn_bias", "train_bn", "n_epoch")


@check_hooks(FRAMEWORK, events=event)
class TocsinCallback(Callback):
    """Reports settings, planned steps, epochs, validation phases and the metrics of the ``Recorder``.

    It reports to the run that the script started with ``tocsin.watch``, or starts one. ``train_loss`` is left
    out, because the hook captures the loss at every step. ``lr_find`` is not a training.
    """

    order = getattr(Recorder, "order", 50) + 1
    remove_on_fetch = True
    """fastai leaves the callback out of ``get_preds``."""

    def __init__(self, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            options: Arguments of ``tocsin.watch``, such as ``project``.
        """
        super().__init__()
        self._tocsin = FrameworkRun(FRAMEWORK, options)
        self._is_training = False
        self._earlier_epochs = 0

    @guarded
    def before_fit(self) -> None:
        """Start the run and describe it."""
        self.run = not hasattr(self.learn, "lr_finder")
        self._is_training = self.run
        if self.run:
            self._tocsin.begin(config=settings_of(self.learn), planned_steps=planned_steps(self.learn))

    @guarded
    def before_epoch(self) -> None:
        """Report the epoch. Those of ``fine_tune``, which fits twice, are counted through."""
        if self._is_training:
            self._tocsin.epoch(self._earlier_epochs + self.learn.epoch)

    @guarded
    def before_validate(self) -> None:
        """Report the validation as a phase."""
        if self._is_training:
            self._tocsin.phase_begins()

    @guarded
    def after_validate(self) -> None:
        """Report the end of the phase."""
        self._tocsin.phase_ends()

    @guarded
    def after_epoch(self) -> None:
        """Record what the ``Recorder`` has of the epoch, which is what fastai prints."""
        if self._is_training and is_first_rank():
            training, evaluated = metrics_of(self.learn.recorder, self.learn.final_record)
            self._tocsin.log(training, prefix="train/")
            self._tocsin.evaluated(evaluated)

    @guarded
    def after_fit(self) -> None:
        """Count the epochs."""
        if self._is_training:
            self._is_training = False
            self._earlier_epochs += self.learn.n_epoch


def settings_of(learner: Any) -> dict[str, Any]:
    """Return the settings of the learner and of its callbacks.

    ``Learner.gather_args`` has more of them but draws a batch, which changes the training.
    """
    found = {name: getattr(learner, name, None) for name in SETTINGS}
    found |= {name: named(getattr(learner, name, None)) for name in ("opt_func", "loss_func")}
    found["batch_size"] = getattr(learner.dls.train, "bs", None)
    return {"learner": found, "callbacks": {str(one): arguments_of(one) for one in learner.cbs}}


def named(function: Any) -> str:
    """Return the name of a function, a partial function or an object."""
    function = getattr(function, "func", function)
    return getattr(function, "__name__", None) or type(function).__name__


def arguments_of(callback: Any) -> dict[str, Any]:
    """Return the numbers and texts with which a callback was made."""
    stored = getattr(callback, "__stored_args__", None) or {}
    return {name: value for name, value in stored.items() if isinstance(value, (bool, int, float, str))}


def planned_steps(learner: Any) -> int:
    """Return the number of optimizer steps of the fit that begins."""
    batches: int = learner.n_epoch * len(learner.dls.train)
    for callback in learner.cbs:
        if samples := vars(callback).get("n_acc"):  # GradientAccumulation
            batches //= math.ceil(samples / (learner.dls.train.bs or 1))
    return batches


def metrics_of(recorder: Any, record: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metrics of training and of validation by name. The latter have no prefix by default."""
    names = [name for name in recorder.metric_names[1:] if name != "time"]
    if len(names) != len(record):  # a callback has canceled a part of the epoch
        return {}, {}
    values = dict(zip(names, record, strict=True))
    is_evaluated = {name: recorder.valid_metrics and not name.startswith("train_") for name in names}
    training = {
        name if name == "train_loss" else name.removeprefix("train_"): value
        for name, value in values.items()
        if not is_evaluated[name]
    }
    return training, {name: value for name, value in values.items() if is_evaluated[name]}
