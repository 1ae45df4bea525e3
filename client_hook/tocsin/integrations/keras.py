"""Keras 3: ``model.fit(..., callbacks=[TocsinCallback(project="p")])``.

With the torch backend, loss, gradient norm, learning rate and scale of every optimizer step are reported. The
logs of Keras have the running mean of the loss, and its optimizers are not torch's, so these values are read
where ``train_step`` computes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from .framework import VITAL, FrameworkRun, check_hooks, class_of, guarded, missing

FRAMEWORK = "keras"
Callback: Any = class_of(FRAMEWORK, "keras.callbacks", "Callback")
KEPT = 4096
"""Maximum number of losses between two optimizer steps."""
COMPUTED, GIVEN, BACKPROPAGATED = "compute_loss", "scale_loss", "backward"
PLACES = (COMPUTED, GIVEN, BACKPROPAGATED)
"""Where the loss of a batch is read: the first of these that saw one. Only the last one may be scaled."""


@check_hooks(FRAMEWORK)
class TocsinCallback(Callback):
    """Reports each optimizer step, settings, planned steps, epochs, validation phases and metrics.

    It reports to the run that the script started with ``tocsin.watch``, or starts one. With another backend
    than torch, it reports the epoch's mean loss and metrics.
    """

    def __init__(self, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            options: Arguments of ``tocsin.watch``, such as ``project``.
        """
        super().__init__()
        self._tocsin = FrameworkRun(FRAMEWORK, options)
        self._step: TrainStep | None = None
        self._is_training = False
        self._has_plan = False
        self._batches = 0

    @guarded
    def on_train_begin(self, logs: Any = None) -> None:
        """Start the run and describe it; read the values of each step."""
        self._is_training, self._has_plan = True, False
        self._tocsin.begin(config=settings_of(self.model, self.params), done_steps=self._done())
        if self._step is not None:
            self._step.release()  # an earlier ``fit`` has raised
        self._step = None
        import keras

        backend = keras.backend.backend()
        if backend == "torch":
            self._step = TrainStep(self.model, getattr(self._tocsin.run, "_ledger", None))
        else:
            missing(FRAMEWORK, f"the backend {backend}", "steps are read from torch only")

    @guarded
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Report the epoch, and how many are left."""
        self._plan(epoch, (self.params or {}).get("steps"))
        self._batches = 0
        self._tocsin.epoch(epoch)

    @guarded
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Read the loss from now on."""
        if self._step is not None:
            self._step.is_open = True

    @guarded
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Report the step that the batch completed."""
        self._batches += 1
        if self._step is not None and (values := self._step.close()) is not None:
            self._tocsin.run.step(**values)

    @guarded
    def on_test_begin(self, logs: Any = None) -> None:
        """Report the validation as a phase."""
        if self._is_training:
            self._tocsin.phase_begins()

    @guarded
    def on_test_end(self, logs: Any = None) -> None:
        """Report the end of the phase."""
        self._tocsin.phase_ends()

    @guarded
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Record the metrics of the epoch and of the validation after it."""
        known = {
            name: value for name, value in (logs or {}).items() if self._step is None or name not in VITAL
        }
        self._tocsin.log(known, step=self._done() - 1, prefix="train/")
        self._plan(epoch + 1, self._batches)  # the length of a generator is known now

    @guarded
    def on_train_end(self, logs: Any = None) -> None:
        """Leave the model as it was."""
        self._is_training = False
        if self._step is not None:
            self._step.release()
            self._step = None

    def _done(self) -> int:
        """Return the number of steps that the optimizer has made."""
        optimizer = self.model.optimizer
        return 0 if optimizer is None else int(optimizer.iterations) // accumulated(optimizer)

    def _plan(self, epoch: int, batches: int | None) -> None:
        """Report the steps at the end of the training, once the length of an epoch is known."""
        epochs = (self.params or {}).get("epochs")
        if not self._has_plan and epochs and batches:
            self._has_plan = True
            left = (epochs - epoch) * batches // accumulated(self.model.optimizer)
            self._tocsin.begin(planned_steps=self._done() + left, done_steps=self._done())


class TrainStep:
    """The values of an optimizer step, read from the methods that ``train_step`` calls on one model."""

    def __init__(self, model: Any, ledger: Any) -> None:
        """Read from the model and its optimizer until :meth:`release`.

        Args:
            model: The compiled model.
            ledger: That of the run, which sees each backward; None without capture.
        """
        self.is_open = False
        """Whether a training batch runs; a validation also computes losses."""
        self._replaced: list[tuple[Any, str]] = []
        self._optimizer = model.optimizer
        self._inner = getattr(self._optimizer, "inner_optimizer", self._optimizer)
        self._losses: list[Any] = []
        """Loss of each batch since the last step."""
        self._batch: dict[str, list[Any]] = {}
        """What was seen of the loss in this batch, by where it was seen."""
        self._ledger = ledger
        if ledger is not None:
            ledger.add_inspector(self._backpropagated)
        self._clear()
        self._replace(model, "compute_loss", after=functools.partial(self._sees, COMPUTED))
        if self._optimizer is not None:
            self._replace(self._optimizer, "scale_loss", before=functools.partial(self._sees, GIVEN))
            self._replace(self._optimizer, "apply", before=self._applies)
            self._replace(self._inner, "_clip_gradients", before=self._clips)
            self._replace(self._inner, "_backend_update_step", before=self._updates)

    def close(self) -> dict[str, Any] | None:
        """Return the values of the step after a batch; None if the gradients are accumulated further."""
        self.is_open = False
        self._end_batch()
        sees_norm = (self._inner, "_clip_gradients") in self._replaced
        is_skipped = self._is_scaled and sees_norm and self._norm is None
        if self._was_applied and not self._was_updated and not is_skipped:
            return None
        values: dict[str, Any] = {"grad_norm": self._norm, "lr": self._rate, "scale": self._scale}
        if self._losses:
            values["loss"] = sum(self._losses) / len(self._losses)
        else:
            missing(FRAMEWORK, "train_step", "it backpropagates no loss")
        if is_skipped:
            values |= {"grad_norm": self._raw_norm / self._scale, "lr": number(self._inner.learning_rate)}
        if self._is_scaled:
            values["skipped"] = float(is_skipped)
        self._losses = []
        self._clear()
        return {name: value for name, value in values.items() if value is not None}

    def release(self) -> None:
        """Leave the model and its optimizer as they were."""
        if self._ledger is not None:
            self._ledger.remove_inspector(self._backpropagated)
        for owner, name in self._replaced:
            vars(owner).pop(name, None)
        self._replaced.clear()

    def _clear(self) -> None:
        self._was_applied = self._was_updated = self._is_scaled = False
        self._norm: Any = None
        self._raw_norm: Any = None
        self._rate: Any = None
        self._scale: Any = None

    def _sees(self, where: str, loss: Any) -> None:
        """Keep a loss of this batch."""
        seen = self._batch.setdefault(where, [])
        if self.is_open and getattr(loss, "ndim", None) == 0 and len(seen) < KEPT:
            seen.append(loss.detach())

    def _backpropagated(self, losses: Any, _: bool) -> None:
        for loss in losses if isinstance(losses, (tuple, list)) else (losses,):
            self._sees(BACKPROPAGATED, loss)

    def _end_batch(self) -> None:
        """Choose the loss of the batch: a custom ``train_step`` need not call every method."""
        seen, self._batch = self._batch, {}
        found = next((losses for where in PLACES if (losses := seen.get(where))), [])
        if found and len(self._losses) < KEPT:
            self._losses.append(sum(found))

    def _applies(self, grads: Any, *_: Any, **__: Any) -> None:
        self._was_applied = True
        self._is_scaled = self._inner is not self._optimizer
        if self._is_scaled:
            self._scale = number(
                self._optimizer.dynamic_scale if self._optimizer.built else self._optimizer.initial_scale
            )
            self._raw_norm = norm_of(grads)
        else:
            self._scale = getattr(self._optimizer, "loss_scale_factor", None)

    def _clips(self, grads: Any) -> None:
        self._norm = norm_of(grads)

    def _updates(self, grads: Any, variables: Any, learning_rate: Any) -> None:
        self._was_updated = True
        self._rate = number(learning_rate)

    def _replace(
        self, owner: Any, name: str, before: Callable[..., None] | None = None, after: Any = None
    ) -> None:
        """Call a function with the arguments or the result of each call of a method of this object."""
        original = getattr(owner, name, None)
        if original is None:
            missing(FRAMEWORK, f"{type(owner).__name__}.{name}", "this version does not have it")
            return

        def see(seen: Callable[..., None] | None, *args: Any, **kwargs: Any) -> None:
            try:
                if seen is not None:
                    seen(*args, **kwargs)
            except Exception as error:
                missing(FRAMEWORK, f"{type(owner).__name__}.{name}", repr(error))

        def call(*args: Any, **kwargs: Any) -> Any:
            see(before, *args, **kwargs)
            result = original(*args, **kwargs)
            see(after, result)
            return result

        vars(owner)[name] = call  # not by setattr: Keras tracks attributes
        self._replaced.append((owner, name))


def number(value: Any) -> Any:
    """Return a copy of the value of a variable or tensor, which the optimizer may change in place."""
    value = getattr(value, "value", value)
    return value.detach().clone() if hasattr(value, "detach") else value


def norm_of(grads: Any) -> Any:
    """Return the norm of all gradients."""
    import torch  # other backends of Keras do not need it

    return torch.nn.utils.get_total_norm([grad for grad in grads if grad is not None])


def accumulated(optimizer: Any) -> int:
    """Return the number of batches per optimizer step."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return getattr(inner, "gradient_accumulation_steps", None) or 1


def settings_of(model: Any, params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of ``fit``, of the model and of its optimizer."""
    found: dict[str, Any] = {"fit": dict(params or {})}
    policy = getattr(getattr(model, "dtype_policy", None), "name", None)
    found["model"] = {"name": model.name, "class": type(model).__name__, "dtype_policy": policy}
    found["loss"] = named(getattr(model, "loss", None))
    optimizer = model.optimizer
    if optimizer is not None:
        found["optimizer"] = {"class": type(optimizer).__name__}
        try:
            found["optimizer"] |= optimizer.get_config()
        except Exception as error:
            missing(FRAMEWORK, "Optimizer.get_config", repr(error))
    return found


def named(loss: Any) -> Any:
    """Return a loss function by its name."""
    if loss is None or isinstance(loss, str):
        return loss
    return getattr(loss, "name", None) or getattr(loss, "__name__", None) or type(loss).__name__
