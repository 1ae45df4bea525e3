"""torchtitan: ``metrics=TocsinMetrics.Config(project="p")`` in the configuration of a ``Trainer``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .framework import FrameworkRun, check_hooks, class_of, guarded, is_first_rank, missing

FRAMEWORK = "torchtitan"
METRICS = "torchtitan.components.metrics"
BaseLogger: Any = class_of(FRAMEWORK, METRICS, "BaseLogger")
MetricsProcessor: Any = class_of(FRAMEWORK, METRICS, "MetricsProcessor")
Settings: Any = class_of(FRAMEWORK, METRICS, "MetricsProcessor.Config")
VALIDATED = "validation_metrics/"
SPEEDS = ("throughput", "tflops", "mfu", "time_metrics/", "memory/")
"""Beginnings of the names of measurements that are not metrics of the model. The hook has its own."""


@check_hooks(FRAMEWORK, "_build_metric_logger")
class TocsinMetrics(MetricsProcessor):  # type: ignore[misc, unused-ignore]
    """The metrics of a trainer, logged to tocsin and to the loggers that its configuration enables."""

    @dataclass(kw_only=True, slots=True)
    class Config(Settings):  # type: ignore[misc, unused-ignore]
        """Settings of torchtitan's metrics, and of the run that is started if the script has started none."""

        project: str | None = None
        """Project of the run; default: ``TOCSIN_PROJECT``."""
        name: str | None = None
        """Name of the run."""

    def _build_metric_logger(self, *, config: Any, config_dict: Any = None, **more: Any) -> Any:
        """Return the loggers that the configuration enables, and tocsin's on every rank."""
        enabled = super()._build_metric_logger(config=config, config_dict=config_dict, **more)
        try:
            from torchtitan.components.metrics import LoggerContainer

            found = LoggerContainer()
            found.add_logger(enabled)
            found.add_logger(TocsinLogger(config.project, name=config.name, config=config_dict))
        except Exception as error:
            missing(FRAMEWORK, f"{METRICS}.LoggerContainer", repr(error))
            return enabled
        return found


@check_hooks(FRAMEWORK)
class TocsinLogger(BaseLogger):  # type: ignore[misc, unused-ignore]
    """Reports the configuration, the planned steps, and what the trainer logs.

    The gradient norm and the learning rates are left out, because the hook captures them at every step. The
    average of the loss over all ranks is recorded beside the loss of each rank, which is only its part.
    """

    def __init__(self, project: str | None, *, config: Mapping[str, Any] | None, **options: Any) -> None:
        """Start the run.

        Args:
            project: Project of the run; default: ``TOCSIN_PROJECT``.
            config: Configuration of the trainer.
            options: Further arguments of ``tocsin.watch``, such as ``name``.
        """
        self._tocsin = FrameworkRun(FRAMEWORK, {"project": project, **options})
        self._begin(config or {})

    @guarded
    def _begin(self, config: Mapping[str, Any]) -> None:
        training = config.get("training") or {}
        self._tocsin.begin(config=config, planned_steps=training.get("steps"))

    @guarded
    def log(self, metrics: Mapping[str, Any], step: int) -> None:
        """Record metrics.

        Args:
            metrics: Numbers by torchtitan's names; those of a validation become ``val/<name>``.
            step: That of the trainer, counted from 1; used only if the hook counts no steps.
        """
        if not is_first_rank():
            return
        known = {name: value for name, value in metrics.items() if not is_left_out(name)}
        validated = {
            name.removeprefix(VALIDATED): known.pop(name) for name in list(known) if VALIDATED in name
        }
        self._tocsin.log(known, step=step - 1)
        self._tocsin.evaluated(validated, step=step - 1)

    @guarded
    def close(self) -> None:
        """End the run if this logger started it."""
        self._tocsin.finish()


def is_left_out(name: str) -> bool:
    """Return whether a metric is a measurement of speed or memory, or a learning rate."""
    return name.removeprefix(VALIDATED).startswith((*SPEEDS, "lr/"))
