"""Stable-Baselines3: ``model.learn(100_000, callback=TocsinCallback(project="p"))``.

A step of the run is one of the optimizer. SB3 counts steps in the environment; they are recorded as
``time/total_timesteps``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .framework import FrameworkRun, check_hooks, class_of, guarded, missing

FRAMEWORK = "stable-baselines3"
BaseCallback: Any = class_of(FRAMEWORK, "stable_baselines3.common.callbacks", "BaseCallback")
EvalCallback: Any = class_of(FRAMEWORK, "stable_baselines3.common.callbacks", "EvalCallback")
KVWriter: Any = class_of(FRAMEWORK, "stable_baselines3.common.logger", "KVWriter")
TIMESTEPS = "time/total_timesteps"
GOALS = {"mean_reward": "max", "success_rate": "max"}

NO_SETTINGS = ("num_timesteps", "start_time", "verbose")


@check_hooks(FRAMEWORK, "_on_training_start", "_on_training_end")
class TocsinCallback(BaseCallback):
    """Reports hyperparameters, planned optimizer steps, evaluations and what the algorithm logs.

    It reports to the run that the script started with ``tocsin.watch``, or starts one. ``train/loss`` and
    ``train/learning_rate`` are left out, because the hook captures them at every step.
    """

    def __init__(self, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            options: Arguments of ``tocsin.watch``, such as ``project``.
        """
        super().__init__()
        self._tocsin = FrameworkRun(FRAMEWORK, options)
        self._writer = TocsinWriter(self)
        self._evaluating: list[Any] = []

    def _on_step(self) -> bool:
        """Continue."""
        return True

    @guarded
    def _on_training_start(self) -> None:
        """Start the run, describe it, and receive what the logger writes."""
        self._tocsin.begin(
            config=settings_of(self.model),
            planned_steps=planned_steps(self.model),
            done_steps=updates_of(self.model),
        )
        for callback in evaluations_in(self.locals.get("callback")):
            self._evaluating.append(callback)
            self._report_phases(callback)
        try:
            self.model.logger.output_formats.append(self._writer)
        except Exception as error:
            missing(FRAMEWORK, "Logger.output_formats", repr(error))

    @guarded
    def _on_training_end(self) -> None:
        """Leave the logger and the callbacks as they were."""
        for callback in self._evaluating:
            vars(callback).pop("_on_step", None)
        self._evaluating.clear()
        formats = getattr(self.model.logger, "output_formats", [])
        if self._writer in formats:
            formats.remove(self._writer)

    @guarded
    def _report_phases(self, callback: Any) -> None:
        """Report each evaluation of a callback as a phase. SB3 has no event for it."""
        evaluate = callback._on_step

        def evaluated() -> Any:
            if callback.eval_freq <= 0 or callback.n_calls % callback.eval_freq:
                return evaluate()
            self._phase(True)
            try:
                return evaluate()
            finally:
                self._phase(False)

        callback._on_step = evaluated

    @guarded
    def _phase(self, begins: bool) -> None:
        if begins:
            self._tocsin.phase_begins()
        else:
            self._tocsin.phase_ends()

    @guarded
    def _record(self, values: Mapping[str, Any]) -> None:
        """Record what the logger writes; of its times only the steps in the environment."""
        known = {name: value for name, value in values.items() if not name.startswith("time/")}
        if TIMESTEPS in values:
            known[TIMESTEPS] = values[TIMESTEPS]
        step = updates_of(self.model) - 1
        evaluated = {name: value for name, value in known.items() if name.startswith("eval/")}
        self._tocsin.evaluated(evaluated, step=step, goal=GOALS)
        self._tocsin.log({name: known[name] for name in known if name not in evaluated}, step=step)


class TocsinWriter(KVWriter):
    """Output of SB3's logger: hands each dump to the callback."""

    def __init__(self, callback: TocsinCallback) -> None:
        self._callback = callback

    def write(self, key_values: Mapping[str, Any], key_excluded: Mapping[str, Any], step: int = 0) -> None:
        """Record a dump of the logger."""
        self._callback._record(key_values)

    def close(self) -> None:
        """Do nothing: the run outlives the logger."""


def evaluations_in(callback: Any) -> Iterator[Any]:
    """Yield the callbacks that evaluate, in a callback or list of callbacks."""
    if isinstance(callback, EvalCallback):
        yield callback
    for inner in [*getattr(callback, "callbacks", ()), getattr(callback, "callback", None)]:
        if inner is not None:
            yield from evaluations_in(inner)


def settings_of(model: Any) -> dict[str, Any]:
    """Return the hyperparameters of an algorithm."""
    found: dict[str, Any] = {
        name: repr(value) if type(value).__name__.endswith("Schedule") else value
        for name, value in vars(model).items()
        if not name.startswith("_") and name not in NO_SETTINGS and is_setting(value)
    }
    spec = getattr(getattr(model.env, "envs", [None])[0], "spec", None)
    found |= {"algorithm": type(model).__name__, "policy": type(model.policy).__name__}
    found |= {"policy_kwargs": dict(model.policy_kwargs), "env": getattr(spec, "id", None)}
    return found


def is_setting(value: Any) -> bool:
    """Return whether a value of an algorithm can be shown: a number, a text or a schedule."""
    return isinstance(value, (bool, int, float, str)) or type(value).__name__.endswith("Schedule")


def steps_per_epoch(model: Any) -> int:
    """Return the optimizer steps of what an algorithm counts as one update: for PPO an epoch, else one."""
    if not hasattr(model, "n_epochs"):
        return 1
    collected = int(model.n_steps * model.n_envs)
    return math.ceil(collected / int(model.batch_size))


def updates_of(model: Any) -> int:
    """Return the optimizer steps that an algorithm has done."""
    return int(model._n_updates * steps_per_epoch(model))


def planned_steps(model: Any) -> int | None:
    """Return the optimizer steps at the end of the training, or None if it depends on the episodes.

    ``target_kl`` may end the epochs of PPO earlier.
    """
    try:
        frequency = getattr(model, "train_freq", None)
        if frequency is None:  # on-policy
            collected, first = model.n_steps * model.n_envs, 0
            updates = getattr(model, "n_epochs", 1) * steps_per_epoch(model)
        else:
            if frequency.unit.value != "step":
                return None
            collected = frequency.frequency * model.n_envs
            updates = model.gradient_steps if model.gradient_steps >= 0 else collected
            first = max(model.learning_starts - model.num_timesteps, 0) // collected
        rollouts = math.ceil((model._total_timesteps - model.num_timesteps) / collected)
    except Exception as error:
        missing(FRAMEWORK, "the number of planned steps", repr(error))
        return None
    return updates_of(model) + int(max(rollouts - first, 0) * updates)
