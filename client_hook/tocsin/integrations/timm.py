"""timm's ``train.py`` and loops like it: ``watch_summary(config=args)`` before the first epoch.

timm has no trackers or callbacks. Its loop ends each epoch with ``timm.utils.update_summary``, which writes
the metrics to ``summary.csv``, so that call is read.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ..core.config import settings_of
from .framework import FrameworkRun, guarded, missing

FRAMEWORK = "timm"
GOAL = {"loss": "min", "top1": "max", "top5": "max"}
"""Whether a higher value of a metric of ``train.py`` is better."""


def watch_summary(*, config: Any = None, planned_steps: int | None = None, **options: Any) -> SummaryReader:
    """Record the metrics of each epoch that the script passes to ``timm.utils.update_summary``.

    It reports to the run that the script started with ``tocsin.watch``, or starts one.

    Args:
        config: The settings, such as the ``args`` of ``train.py``.
        planned_steps: Optimizer steps at the end of the training, if known: ``num_epochs`` of
            ``create_scheduler_v2`` times ``updates_per_epoch``.
        options: Arguments of ``tocsin.watch`` for the case that the script has started no run.

    Returns:
        What reads the calls; its ``close`` restores timm's function.
    """
    return SummaryReader(config, planned_steps, options)


class SummaryReader:
    """Reads the epochs and their metrics from the calls of ``update_summary``.

    The mean loss of the training and the learning rate are left out, because the hook captures them at every
    step.
    """

    def __init__(self, config: Any, planned_steps: int | None, options: dict[str, Any]) -> None:
        """Start the run, and read from now on."""
        self._tocsin = FrameworkRun(FRAMEWORK, options)
        self._replaced: list[tuple[Any, Any, Any]] = []
        self._begin(config, planned_steps)
        self._replace()

    @property
    def run(self) -> Any:
        """The run."""
        return self._tocsin.run

    def close(self) -> None:
        """Restore timm's function, unless someone else has replaced it since."""
        while self._replaced:
            owner, original, replacement = self._replaced.pop()
            if owner.update_summary is replacement:
                owner.update_summary = original

    @guarded
    def _begin(self, config: Any, planned_steps: int | None) -> None:
        settings = settings_of(config)
        found = settings if isinstance(settings, Mapping) else None
        self._tocsin.begin(config=found, planned_steps=planned_steps)

    def _replace(self) -> None:
        """Replace the function in both modules from which scripts use it."""
        try:
            from timm import utils
            from timm.utils import summary

            original = summary.update_summary
        except Exception as error:
            missing(FRAMEWORK, "timm.utils.update_summary", repr(error))
            return

        @functools.wraps(original)
        def update_summary(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self._read(*args, **kwargs)
            return result

        for owner in (summary, utils):
            self._replaced.append((owner, owner.update_summary, update_summary))
            owner.update_summary = update_summary

    @guarded
    def _read(self, epoch: int, train_metrics: Any, eval_metrics: Any = None, *_: Any, **__: Any) -> None:
        """Record the metrics of an epoch, and that it ended."""
        self._tocsin.log({f"train_{name}": value for name, value in train_metrics.items()}, prefix="train/")
        self._tocsin.evaluated(eval_metrics or {}, goal=GOAL)
        planned = self.run.planned_steps
        if planned is None or self._tocsin.next_step < planned:
            self._tocsin.epoch(epoch + 1)
