"""Hugging Face ``Trainer`` and what derives from it (TRL, Sentence Transformers): ``report_to="tocsin"``.

Importing this module registers the name::

    import tocsin.integrations.transformers
    TrainingArguments(..., report_to="tocsin")

``Trainer(callbacks=[TocsinCallback()])`` does the same without it.
"""

from __future__ import annotations

from typing import Any

from .framework import LOG, FrameworkRun, check_hooks, class_of, guarded, missing

FRAMEWORK = "transformers"
TrainerCallback: Any = class_of(FRAMEWORK, "transformers", "TrainerCallback")
NAME = "tocsin"
_state = {"has_warned": False}


@check_hooks(FRAMEWORK)
class TocsinCallback(TrainerCallback):
    """Reports arguments, model configuration, planned steps, epochs, evaluations and the Trainer's metrics.

    It reports to the run that the script started with ``tocsin.watch``, or starts one. The Trainer's loss,
    ``grad_norm`` and ``learning_rate`` are left out, because the hook captures them at every step.
    """

    def __init__(self, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            options: Arguments of ``tocsin.watch``, such as ``project``.
        """
        self._tocsin = FrameworkRun(FRAMEWORK, options)

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Start the run and describe it."""
        is_trial = bool(getattr(state, "is_hyper_param_search", False))
        self._tocsin.begin(
            config=settings_of(args, model),
            planned_steps=state.max_steps if state.max_steps > 0 else None,
            done_steps=state.global_step,
            name=getattr(state, "trial_name", None) or args.run_name,
            is_new=is_trial,
        )
        if getattr(args, "logging_nan_inf_filter", False) and not _state["has_warned"]:
            _state["has_warned"] = True
            LOG.warning(
                "tocsin: logging_nan_inf_filter=True: the Trainer's own log and progress bar hide a NaN or "
                "infinite loss. tocsin records the loss itself. Set it to False to see NaN in both."
            )
            self._tocsin.run.event("framework", name="transformers", hides_nonfinite="logging_nan_inf_filter")

    @guarded
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the epoch."""
        self._tocsin.epoch(state.epoch or 0)

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Record the metrics of the log, except those that the hook captures."""
        if logs and state.is_world_process_zero:
            step = state.global_step - 1
            evaluated = {name: value for name, value in logs.items() if name.startswith("eval_")}
            self._tocsin.evaluated(evaluated, step=step, goal=goal_of(args))
            rest = {_of_training(name): value for name, value in logs.items() if name not in evaluated}
            if not evaluated:
                self._tocsin.log(rest, step=step, prefix="train/")

    @guarded
    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the evaluation as a phase."""
        self._tocsin.phase_begins()

    @guarded
    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report the end of the phase."""
        self._tocsin.phase_ends()

    @guarded
    def on_predict(self, args: Any, state: Any, control: Any, *_: Any, **__: Any) -> None:
        """Report the end of the phase."""
        self._tocsin.phase_ends()


def _of_training(name: str) -> str:
    """Return the name of a metric as in the Trainer's other integrations: ``train/rewards/chosen`` of TRL."""
    return f"train/{name}" if "/" in name and not name.startswith("train/") else name


def settings_of(args: Any, model: Any) -> dict[str, Any]:
    """Return the training arguments, without their secrets, and the configurations of model and adapters."""
    found: dict[str, Any] = dict(args.to_dict())
    config = getattr(model, "config", None)
    if config is not None:
        found["model"] = config if isinstance(config, dict) else config.to_dict()
    if getattr(model, "peft_config", None):
        found["peft"] = {name: one.to_dict() for name, one in model.peft_config.items()}
    return found


def goal_of(args: Any) -> dict[str, str]:
    """Return the goal of the metric by which the Trainer selects the best model."""
    name = getattr(args, "metric_for_best_model", None)
    if not name:
        return {}
    return {name.removeprefix("eval_"): "max" if args.greater_is_better else "min"}


def register() -> None:
    """Register ``report_to="tocsin"``; transformers has no entry point for it."""
    try:
        from transformers.integrations import integration_utils

        integration_utils.INTEGRATION_TO_CALLBACK.setdefault(NAME, TocsinCallback)
    except Exception as error:
        missing(FRAMEWORK, 'report_to="tocsin"', f"{error!r}; use callbacks=[TocsinCallback()]")


register()
