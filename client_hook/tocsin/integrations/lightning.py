"""Lightning: ``Trainer(logger=TocsinLogger("project"))``, or ``Trainer(callbacks=[TocsinCallback()])``.

The logger adds the callback to its trainer. The callback alone suits a trainer with another logger: it reads
the metrics that the modules log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .framework import EVALUATED, FrameworkRun, check_hooks, class_of, guarded, missing

try:
    import lightning.pytorch as pl

    FRAMEWORK = "lightning"
except ImportError:
    import pytorch_lightning as pl

    FRAMEWORK = "pytorch-lightning"

Callback: Any = class_of(FRAMEWORK, pl.__name__, "Callback")
Logger: Any = class_of(FRAMEWORK, f"{pl.__name__}.loggers.logger", "Logger")
MONITORED = re.compile(r"lr-[^/]*(?:/pg1)?")
"""Names of ``LearningRateMonitor`` for the first parameter group of an optimizer."""


@check_hooks(FRAMEWORK)
class TocsinCallback(Callback):
    """Reports hyperparameters, planned steps, epochs, validation phases and the metrics of ``self.log``.

    ``loss``, ``grad_norm`` and learning rates are left out, because the hook captures them at every step. It
    reports to the run that the script started with ``tocsin.watch``, or starts one.
    """

    def __init__(self, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            options: Arguments of ``tocsin.watch``, such as ``project``.
        """
        self._tocsin = FrameworkRun(FRAMEWORK, options)

    @guarded
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the run before the first step, and receive what the trainer's other loggers receive."""
        if trainer.loggers and not any(isinstance(one, TocsinLogger) for one in trainer.loggers):
            trainer.loggers = [*trainer.loggers, TocsinLogger(callback=self)]
        self._tocsin.begin(config=settings_of(trainer, pl_module))

    @guarded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Report the length of the training, which is known once the data are loaded."""
        self._tocsin.begin(planned_steps=planned_steps(trainer), done_steps=trainer.global_step)

    @guarded
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Report the epoch."""
        self._tocsin.epoch(trainer.current_epoch)

    @guarded
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Report the validation as a phase."""
        self._tocsin.phase_begins()

    @guarded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Report the end of the phase, and its metrics if the trainer has no logger."""
        self._tocsin.phase_ends()
        if not (trainer.loggers or trainer.sanity_checking) and trainer.is_global_zero:
            found = trainer.callback_metrics
            evaluated = {name: found[name] for name in found if EVALUATED.fullmatch(name)}
            self._tocsin.evaluated(evaluated, step=trainer.global_step - 1)


@check_hooks(FRAMEWORK)
class TocsinLogger(Logger):
    """Reports what Lightning logs; it adds a :class:`TocsinCallback` for planned steps, epochs and phases."""

    def __init__(
        self, project: str | None = None, *, callback: TocsinCallback | None = None, **options: Any
    ) -> None:
        """Start nothing yet: the fit does.

        Args:
            project: Project of the run; default: ``TOCSIN_PROJECT``.
            callback: The callback of the trainer, if it has one.
            options: Further arguments of ``tocsin.watch``, such as ``name``.
        """
        super().__init__()
        self.callback = callback or TocsinCallback(project=project, **options)
        self._tocsin = self.callback._tocsin

    @property
    def name(self) -> str:
        """The project."""
        return str(self._tocsin.run.project)

    @property
    def version(self) -> str:
        """The name of the run."""
        return str(self._tocsin.run.name)

    @property
    def experiment(self) -> Any:
        """The run, for ``logger.experiment.evaluate(...)`` and everything else."""
        return self._tocsin.run

    @guarded
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Add the callback to the trainer. Lightning calls this on every rank before the first step."""
        trainer = model.trainer
        if not any(isinstance(one, TocsinCallback) for one in trainer.callbacks):
            trainer.callbacks.append(self.callback)
            self.callback.on_fit_start(trainer, model)

    @guarded
    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        """Add hyperparameters to the configuration."""
        self._tocsin.begin(config=dict(params) if isinstance(params, Mapping) else dict(vars(params)))

    @guarded
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Record metrics at the newest optimizer step."""
        known = {name: value for name, value in metrics.items() if not MONITORED.fullmatch(name)}
        self._tocsin.log(known, step=step)


def settings_of(trainer: Any, module: Any) -> dict[str, Any]:
    """Return the hyperparameters of the module and its data, and the trainer's settings that change steps."""
    found: dict[str, Any] = dict(getattr(module, "hparams_initial", None) or {})
    found |= dict(getattr(trainer.datamodule, "hparams_initial", None) or {})
    names = ("max_epochs", "max_steps", "accumulate_grad_batches", "gradient_clip_val", "precision")
    found["trainer"] = {name: getattr(trainer, name, None) for name in names}
    return found


def planned_steps(trainer: Any) -> float | None:
    """Return the number of optimizer steps at the end of the training, or None if it is unknown."""
    try:
        planned = float(trainer.estimated_stepping_batches)
    except Exception as error:
        missing(FRAMEWORK, "Trainer.estimated_stepping_batches", repr(error))
        return None
    return planned if planned >= 0 else None
