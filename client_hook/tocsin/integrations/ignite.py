"""PyTorch Ignite: ``TocsinHandler(project="p").attach(trainer, evaluator)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .framework import FrameworkRun, guarded, is_first_rank, missing

if TYPE_CHECKING:
    from ignite.engine import Engine

FRAMEWORK = "pytorch-ignite"
VALIDATION = "val"


class TocsinHandler:
    """Reports planned steps, epochs, evaluations and the metrics in the engines' states.

    It reports to the run that the script started with ``tocsin.watch``, or starts one. Metrics such as
    ``loss`` and ``lr`` are left out, because the hook captures them at every step.
    """

    def __init__(self, *, gradient_accumulation_steps: int = 1, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            gradient_accumulation_steps: Iterations per optimizer step, as passed to
                ``create_supervised_trainer``.
            options: Arguments of ``tocsin.watch``, such as ``project`` and ``config``.
        """
        self._tocsin = FrameworkRun(FRAMEWORK, options)
        self._iterations_per_step = max(gradient_accumulation_steps, 1)
        self._has_plan = False

    def attach(
        self,
        trainer: Engine,
        evaluators: Engine | Mapping[str, Engine] | None = None,
        *,
        metrics_at: Any = "EPOCH_COMPLETED",
    ) -> None:
        """Attach to a trainer and its evaluators.

        Args:
            trainer: The engine whose iterations train the model.
            evaluators: The engine that validates, or engines by name. Metrics of ``"val"`` become
                ``val/...``, which rules on overfitting read; others have their own name before them.
            metrics_at: When the metrics of the trainer are recorded.
        """
        engines = evaluators if isinstance(evaluators, Mapping) else {VALIDATION: evaluators}
        self._add(trainer, "STARTED", self.on_started)
        self._add(trainer, "EPOCH_STARTED", self.on_epoch_started)
        self._add(trainer, "EPOCH_COMPLETED", self.on_epoch_completed)
        self._add(trainer, metrics_at, self.on_metrics)
        for name, evaluator in engines.items():
            if evaluator is not None:
                self._add(evaluator, "STARTED", self.on_evaluation_started)
                self._add(evaluator, "COMPLETED", self.on_evaluation_completed, name)

    def _add(self, engine: Any, event: Any, handler: Any, *args: Any) -> None:
        """Call a handler at an event, or at the event of that name."""
        try:
            from ignite.engine import Events

            found = getattr(Events, event) if isinstance(event, str) else event
            engine.add_event_handler(found, handler, *args)
        except Exception as error:
            missing(FRAMEWORK, f"Events.{getattr(event, 'name', event)}", repr(error))

    @guarded
    def on_started(self, engine: Any) -> None:
        """Start the run and describe it."""
        state = engine.state
        trainer = {name: getattr(state, name, None) for name in ("max_epochs", "max_iters", "epoch_length")}
        self._tocsin.begin(
            config={"trainer": trainer},
            planned_steps=self._planned(state),
            done_steps=state.iteration // self._iterations_per_step,
        )

    @guarded
    def on_epoch_started(self, engine: Any) -> None:
        """Report the epoch, which Ignite counts from 1."""
        self._tocsin.epoch(engine.state.epoch - 1)

    @guarded
    def on_epoch_completed(self, engine: Any) -> None:
        """Report the length of the training if only the first epoch has shown it."""
        if not self._has_plan:
            done = engine.state.iteration // self._iterations_per_step
            self._tocsin.begin(planned_steps=self._planned(engine.state), done_steps=done)

    @guarded
    def on_metrics(self, engine: Any) -> None:
        """Record the metrics of the trainer."""
        if is_first_rank():
            step = engine.state.iteration // self._iterations_per_step - 1
            self._tocsin.log(engine.state.metrics, step=step, prefix="train/")

    @guarded
    def on_evaluation_started(self, engine: Any) -> None:
        """Report the evaluation as a phase."""
        self._tocsin.phase_begins()

    @guarded
    def on_evaluation_completed(self, engine: Any, name: str) -> None:
        """Report the end of the phase, and its metrics."""
        self._tocsin.phase_ends()
        if not is_first_rank():
            return
        if name == VALIDATION:
            self._tocsin.evaluated(engine.state.metrics)
        else:
            self._tocsin.log({f"{name}/{metric}": value for metric, value in engine.state.metrics.items()})

    def _planned(self, state: Any) -> float | None:
        """Return the optimizer steps at the end of the training, or None while they are unknown."""
        planned = getattr(state, "max_iters", None)
        if planned is None and state.max_epochs and state.epoch_length:
            planned = state.max_epochs * state.epoch_length
        self._has_plan = planned is not None
        return None if planned is None else planned // self._iterations_per_step
