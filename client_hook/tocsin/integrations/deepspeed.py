"""DeepSpeed: ``watch_engine(engine, project="p")`` after ``deepspeed.initialize``.

DeepSpeed scales the loss of float16 itself, and skips steps before it calls the optimizer, so the values of a
step are read from its engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .explicit_steps import ExplicitSteps
from .framework import guarded

FRAMEWORK = "deepspeed"


def watch_engine(engine: Any, *, planned_steps: int | None = None, **options: Any) -> EngineSteps:
    """Report each step of an engine.

    Args:
        engine: What ``deepspeed.initialize`` returned.
        planned_steps: Optimizer steps at the end of the training, if known.
        options: Arguments of ``tocsin.watch`` for the case that the script has started no run.

    Returns:
        What reports the steps; ``run`` is the run.
    """
    return EngineSteps(engine, planned_steps, options)


class EngineSteps(ExplicitSteps):
    """Reads loss, norm, learning rate and scale from the calls of ``engine.backward`` and ``engine.step``."""

    def __init__(self, engine: Any, planned_steps: int | None, options: dict[str, Any]) -> None:
        """Start the run, and read from now on."""
        super().__init__(FRAMEWORK, options)
        self._is_scaled = False
        self._begin(engine, planned_steps)
        self._replace(engine, "backward", self._backward)
        self._replace(engine, "step", self._step)

    @guarded
    def _begin(self, engine: Any, planned_steps: int | None) -> None:
        self._is_scaled = bool(self._read("engine.fp16_enabled", lambda: engine.fp16_enabled()))
        self._tocsin.begin(
            config=self._read("engine._config", lambda: settings_of(engine)),
            planned_steps=planned_steps,
            done_steps=self._read("engine.global_steps", lambda: engine.global_steps) or 0,
        )
        self.run.announce_steps(is_scaled=self._is_scaled)

    def _backward(self, engine: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._keep(args[0] if args else kwargs.get("loss"))
        return original(*args, **kwargs)

    def _step(self, engine: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = self._before(engine)
        result = original(*args, **kwargs)
        if before is not None:
            self._after(engine, before)
        return result

    @guarded
    def _before(self, engine: Any) -> dict[str, Any] | None:
        """Return rate and scale of the step that begins, or None if the gradients are accumulated further."""
        if not engine.is_gradient_accumulation_boundary():
            return None
        values = {"lr": self._read("engine.get_lr", lambda: engine.get_lr()[0])}
        if self._is_scaled:
            values["scale"] = self._read("the loss scale", lambda: scale_of(engine.optimizer))
        return values

    @guarded
    def _after(self, engine: Any, values: dict[str, Any]) -> None:
        """Report the step that has ended."""
        norm = self._read("engine.get_global_grad_norm", lambda: engine.get_global_grad_norm())
        values["grad_norm"] = norm
        if losses := self._taken():
            values["loss"] = sum(losses) / len(losses)
        if self._is_scaled:
            applied = self._read("engine.was_step_applied", lambda: engine.was_step_applied())
            values["skipped"] = None if applied is None else float(not applied)
        self._tocsin.run.step(**{name: value for name, value in values.items() if value is not None})


def scale_of(optimizer: Any) -> float:
    """Return the loss scale of an optimizer of DeepSpeed; each of its classes keeps it elsewhere."""
    for holder in (getattr(optimizer, "loss_scaler", None), getattr(optimizer, "loss_scale_config", None)):
        if holder is not None:
            return float(holder.cur_scale)
    return float(optimizer.cur_scale)


def settings_of(engine: Any) -> dict[str, Any]:
    """Return the configuration that was given to ``deepspeed.initialize``, with the resulting batch sizes."""
    config = engine._config
    found = dict(getattr(config, "_param_dict", None) or {})
    for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"):
        found[name] = getattr(config, name, None)
    return found
