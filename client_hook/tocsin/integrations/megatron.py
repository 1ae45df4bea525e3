"""Megatron Core: ``watch_optimizer(optimizer, project="p")`` after the optimizer is built.

Megatron scales the loss of float16, clips and skips steps itself, and its torch optimizer steps copies of the
weights, so the values of a step are read from its own optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .explicit_steps import ExplicitSteps
from .framework import guarded

FRAMEWORK = "megatron-core"


def watch_optimizer(
    optimizer: Any,
    *,
    planned_steps: int | None = None,
    done_steps: int = 0,
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> OptimizerSteps:
    """Report each step of a ``MegatronOptimizer``.

    Call it before ``optimizer.scale_loss`` is passed on as ``grad_scale_func``, through which Megatron gives
    each loss.

    Args:
        optimizer: What ``get_megatron_optimizer`` returned.
        planned_steps: Optimizer steps at the end of the training, if known.
        done_steps: Optimizer steps before this training, because it continues from a checkpoint.
        config: Settings, such as ``vars(get_args())``.
        options: Arguments of ``tocsin.watch`` for the case that the script has started no run.

    Returns:
        The object that reports the steps; its ``run`` is the run.
    """
    return OptimizerSteps(optimizer, planned_steps, done_steps, config, options)


class OptimizerSteps(ExplicitSteps):
    """Reads loss, norm, learning rate and scale from the calls of ``scale_loss`` and ``step``."""

    def __init__(
        self,
        optimizer: Any,
        planned_steps: int | None,
        done_steps: int,
        config: Mapping[str, Any] | None,
        options: dict[str, Any],
    ) -> None:
        """Start the run, and read from now on."""
        super().__init__(FRAMEWORK, options)
        self._is_scaled = is_scaled(optimizer)
        self._begin(planned_steps, done_steps, config)
        self._replace(optimizer, "scale_loss", self._scale_loss)
        self._replace(optimizer, "step", self._step)

    @guarded
    def _begin(self, planned: int | None, done: int, config: Mapping[str, Any] | None) -> None:
        self._tocsin.begin(config=config, planned_steps=planned, done_steps=done)
        self.run.announce_steps(is_scaled=self._is_scaled)

    def _scale_loss(self, optimizer: Any, original: Callable[..., Any], loss: Any) -> Any:
        if getattr(loss, "requires_grad", False):  # Megatron also asks for the scale, by scaling 1
            self._keep(loss)
        return original(loss)

    def _step(self, optimizer: Any, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        before = self._before(optimizer)
        result = original(*args, **kwargs)
        self._after(optimizer, before, result)
        return result

    @guarded
    def _before(self, optimizer: Any) -> dict[str, Any]:
        """Return rate and scale of the step that begins."""
        values = {"lr": self._read("optimizer.param_groups", lambda: optimizer.param_groups[0]["lr"])}
        if self._is_scaled:
            values["scale"] = self._read("optimizer.get_loss_scale", lambda: optimizer.get_loss_scale())
        return values

    @guarded
    def _after(self, optimizer: Any, before: dict[str, Any] | None, result: Any) -> None:
        """Report the step that has ended.

        Args:
            optimizer: The optimizer.
            before: Rate and scale.
            result: What ``step`` returned: whether it was made, the norm before clipping, a count of zeros.
        """
        values = before or {}
        is_made, norm, *_ = result
        if is_made and norm is not None and (norm or optimizer.config.clip_grad > 0.0):
            values["grad_norm"] = norm  # without a clip, some optimizers return 0
        if losses := self._taken():
            values["loss"] = sum(losses)  # Megatron divides each by the number of microbatches
        if self._is_scaled:
            values["skipped"] = float(not is_made)
        self._tocsin.run.step(**{name: value for name, value in values.items() if value is not None})


def is_scaled(optimizer: Any) -> bool:
    """Return whether the loss is scaled for float16, by this optimizer or by those that it chains."""
    chained = getattr(optimizer, "chained_optimizers", None) or [optimizer]
    return any(getattr(one, "grad_scaler", None) is not None for one in chained)
