"""MosaicML Composer: ``Trainer(loggers=[TocsinLogger("project")])``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .framework import FrameworkRun, check_hooks, class_of, guarded, is_first_rank

FRAMEWORK = "mosaicml"
LoggerDestination: Any = class_of(FRAMEWORK, "composer.loggers", "LoggerDestination")
TRAIN, EVAL = "train", "eval"
METRIC = re.compile(r"metrics/(?P<label>[^/]+)/(?P<name>.+)")
"""Names of metrics; the label is ``train`` or that of an ``Evaluator``, by default ``eval``."""
LOSS = re.compile(r"loss/train/(?P<name>.+)")
LEFT_OUT = re.compile(r"time/.+|trainer/.+|lr-[^/]+/group\d+")
"""Progress of the training, and what ``LRMonitor`` logs. The hook records the time and rate of each step."""


@check_hooks(FRAMEWORK)
class TocsinLogger(LoggerDestination):
    """Reports hyperparameters, planned steps, epochs, evaluation phases and metrics.

    The total loss and the learning rate are left out, because the hook captures them at every step. It
    reports to the run that the script started with ``tocsin.watch``, or starts one when the fit starts.
    """

    def __init__(self, project: str | None = None, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            project: Project of the run; default: ``TOCSIN_PROJECT``.
            options: Further arguments of ``tocsin.watch``, such as ``name``.
        """
        super().__init__()
        self._tocsin = FrameworkRun(FRAMEWORK, {"project": project, **options})
        self._settings: dict[str, Any] = {}
        self._is_training = False

    @guarded
    def log_hyperparameters(self, hyperparameters: dict[str, Any]) -> None:
        """Add settings to the configuration; those of the constructor arrive before the fit."""
        self._settings |= hyperparameters
        if self._is_training:
            self._tocsin.begin(config=hyperparameters)

    @guarded
    def fit_start(self, state: Any, logger: Any) -> None:
        """Start the run and describe it."""
        self._tocsin.begin(
            config={**self._settings, "trainer": settings_of(state)},
            planned_steps=planned_steps(state),
            done_steps=state.timestamp.batch.value,
            name=state.run_name,
        )
        self._is_training = True

    @guarded
    def epoch_start(self, state: Any, logger: Any) -> None:
        """Report the epoch."""
        self._tocsin.epoch(state.timestamp.epoch.value)

    @guarded
    def eval_start(self, state: Any, logger: Any) -> None:
        """Report an evaluation during the fit as a phase."""
        if self._is_training:
            self._tocsin.phase_begins()

    @guarded
    def eval_end(self, state: Any, logger: Any) -> None:
        """Report the end of the phase."""
        self._tocsin.phase_ends()

    @guarded
    def fit_end(self, state: Any, logger: Any) -> None:
        """Leave out what is logged between two fits."""
        self._is_training = False

    @guarded
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record metrics; those of an evaluator as ``val/<name>``, or ``val/<label>/<name>``.

        Args:
            metrics: Numbers and scalars by Composer's names.
            step: Used only if the hook counts no steps.
        """
        if not (self._is_training and is_first_rank()):
            return
        training: dict[str, Any] = {}
        evaluated: dict[str, Any] = {}
        for name, value in metrics.items():
            metric, loss = METRIC.fullmatch(name), LOSS.fullmatch(name)
            if metric is not None and metric["label"] != TRAIN:
                label = "" if metric["label"] == EVAL else f"{metric['label']}/"
                evaluated[label + metric["name"]] = value
            elif loss is not None:
                training["loss" if loss["name"] == "total" else f"train/{loss['name']}"] = value
            elif not LEFT_OUT.fullmatch(name):
                training[name if metric is None else f"train/{metric['name']}"] = value
        self._tocsin.log(training, step=step)
        self._tocsin.evaluated(evaluated, step=step)


def settings_of(state: Any) -> dict[str, Any]:
    """Return the settings of the trainer that change steps."""
    names = ("max_duration", "precision", "device_train_microbatch_size")
    found = {name: getattr(state, name, None) for name in names}
    return {name: value if isinstance(value, int) else str(value) for name, value in found.items() if value}


def planned_steps(state: Any) -> float | None:
    """Return the number of batches at the end of the fit, or None if the duration is in other units."""
    duration = state.max_duration
    if duration is None:
        return None
    if duration.unit.name == "BATCH":
        return float(duration.value)
    if duration.unit.name == "EPOCH" and state.dataloader_len is not None:
        return float(duration.value * state.dataloader_len.value)
    return None
