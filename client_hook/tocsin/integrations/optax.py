"""Optax, for JAX and Flax: ``observed(optax.adamw(1e-3))`` keeps each step's gradient norm in its state.

``Reporter`` reads them from the state that the training step returns. No callback runs inside the compiled
function: ``jax.debug.callback`` can deadlock with several devices. Values are read once they are computed, so
reporting a step does not wait for the device.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from .framework import FrameworkRun, guarded, missing

FRAMEWORK = "optax"
BEHIND = 1000
"""Steps that may wait for their values. Beyond that, reporting a step waits for the oldest."""
MICRO_STEPS = 4096
"""Maximum number of losses that are averaged for one step."""
LEVELS = 8
"""Depth in which nested states are searched."""


class TocsinState(NamedTuple):
    """State of an optimizer and the values of its newest step."""

    inner: Any
    applied: Any
    """Number of steps that were not skipped."""
    values: Any
    """Number of steps, bits of the norm, whether it was skipped (-1 if unknown), bits of the rate if known.

    Integers, because the copy of one small array is cheap and keeps all bits.
    """


def observed(
    inner: optax.GradientTransformation, *, learning_rate: float | Callable[[Any], Any] | None = None
) -> optax.GradientTransformationExtraArgs:
    """Return the transformation with the norm of the gradients that it receives in its state.

    Args:
        inner: The whole optimizer, clipping included, so that the norm is the one before clipping.
        learning_rate: Its rate or schedule. Not needed with ``optax.inject_hyperparams``.
    """
    try:
        inner, transformation = optax.with_extra_args_support(inner), optax.GradientTransformationExtraArgs
    except AttributeError as error:
        missing(FRAMEWORK, "observed", repr(error))
        return inner  # type: ignore[return-value, unused-ignore]

    def init(params: Any) -> TocsinState:
        state = inner.init(params)
        rate = rate_of(state, learning_rate, 0)
        return TocsinState(state, jnp.zeros((), jnp.int32), packed(jnp.int32(0), jnp.float32(0), None, rate))

    def update(updates: Any, state: TocsinState, params: Any = None, **more: Any) -> Any:
        norm = norm_of(updates)
        updates, inner_state = inner.update(updates, state.inner, params, **more)
        skipped = skipped_in(inner_state)
        rate = rate_of(inner_state, learning_rate, state.applied)
        applied = state.applied + (1 if skipped is None else 1 - skipped)
        values = packed(state.values[0] + 1, norm, skipped, rate)
        return updates, TocsinState(inner_state, applied, values)

    return transformation(init, update)


class Waiting(NamedTuple):
    """A call of :meth:`Reporter.step` whose values may still be computed."""

    state: Any
    given: dict[str, Any]
    seconds: float
    """Time since the call before."""


class Reporter:
    """Reports each step to the run that the script has started with ``tocsin.watch``, or starts one."""

    def __init__(self, **options: Any) -> None:
        """Choose the run that is started if the script has started none.

        Args:
            options: Arguments of ``tocsin.watch``, such as ``project``, ``config`` and ``planned_steps``.
        """
        self._tocsin = FrameworkRun(FRAMEWORK, options)
        self._waiting: deque[Waiting] = deque()
        self._losses: list[float] = []
        self._seconds = 0.0
        self._count: int | None = None
        self._called = 0.0
        self._begin()

    @property
    def run(self) -> Any:
        """The run, for ``evaluate``, ``log`` and ``phase``."""
        return self._tocsin.run

    @guarded
    def step(self, state: Any, *, loss: Any = None, **values: Any) -> None:
        """Report the step that returned this state. Calls of micro-steps are joined to one step.

        Args:
            state: The optimizer's state, or one that contains it, such as that of ``optax.MultiSteps``.
            loss: The loss of the step.
            values: Further values, such as ``scale``.
        """
        found = state_in(state)
        if found is None:
            raise TypeError("this state is not that of an optimizer wrapped by observed(); wrap it")
        now = time.monotonic()
        seconds, self._called = now - self._called if self._called else 0.0, now
        if loss is not None:
            values["loss"] = loss
        given = {name: on_host_soon(value) for name, value in values.items()}
        # A copy: the next step deletes the state if the script donates it.
        self._waiting.append(Waiting(on_host_soon(jnp.copy(local(found.values))), given, seconds))
        self._read(BEHIND)

    @guarded
    def finish(self) -> None:
        """Wait for the last values, and end the run if it was started here."""
        self._read(0)
        self._tocsin.finish()

    @guarded
    def _begin(self) -> None:
        self._tocsin.begin()
        self.run.on_end(lambda: self._read(0))

    def _read(self, kept: int) -> None:
        """Report the steps whose values are computed; wait for those of more than ``kept`` steps."""
        while self._waiting:
            one = self._waiting[0]
            if len(self._waiting) <= kept and not all(map(is_ready, (one.state, *one.given.values()))):
                return
            self._waiting.popleft()
            self._take(one)

    def _take(self, one: Waiting) -> None:
        """Report a step, or keep the loss of a micro-step."""
        values, count = unpacked(one.state)
        given = {name: number(value) for name, value in one.given.items()}
        if "loss" in given and len(self._losses) < MICRO_STEPS:
            self._losses.append(given.pop("loss"))
        self._seconds += one.seconds
        if count == (self._count or 0):
            return
        if self._count is None and count > 1 and not self._tocsin.next_step:
            self.run.load_state_dict({"step": count - 1})  # continued from a checkpoint
        if self._losses:
            given["loss"] = sum(self._losses) / len(self._losses)
        if self._seconds:
            given["step_time"] = self._seconds
        self._count, self._losses, self._seconds = count, [], 0.0
        self.run.step(**values, **given)


def packed(count: Any, norm: Any, skipped: Any, rate: Any) -> Any:
    """Return the values of a step as one array of integers."""
    known = [norm] if rate is None else [norm, rate]
    bits = [jax.lax.bitcast_convert_type(jnp.asarray(one, jnp.float32), jnp.int32) for one in known]
    flag = jnp.int32(-1) if skipped is None else skipped.astype(jnp.int32)
    return jnp.stack([count.astype(jnp.int32), bits[0], flag, *bits[1:]])


def unpacked(values: Any) -> tuple[dict[str, float], int]:
    """Return the values of a step by name, and the number of steps. Also of an array per device."""
    rows = values.tolist()
    count, norm, skipped, *rate = rows[0] if isinstance(rows[0], list) else rows
    found = {"grad_norm": as_float(norm)}
    if skipped >= 0:
        found["skipped"] = float(skipped)
    if rate:
        found["lr"] = as_float(rate[0])
    return found, count


def as_float(bits: int) -> float:
    """Return the float32 that has these bits."""
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def norm_of(updates: Any) -> Any:
    """Return the norm of all gradients, computed in float32 at least."""
    squares = [
        jnp.sum(jnp.square(jnp.abs(one).astype(jnp.promote_types(jnp.abs(one).dtype, jnp.float32))))
        for one in jax.tree.leaves(updates)
    ]
    return jnp.sqrt(sum(squares, start=jnp.zeros((), jnp.float32)))


def rate_of(state: Any, given: Any, applied: Any) -> Any:
    """Return the learning rate of a step, or None if it is unknown."""
    if given is not None:
        return given(applied) if callable(given) else jnp.float32(given)
    for one in inside(state):
        if "learning_rate" in (getattr(one, "hyperparams", None) or {}):
            return one.hyperparams["learning_rate"]
    return None


def skipped_in(state: Any) -> Any:
    """Return whether ``optax.apply_if_finite`` has skipped the step, or None if it is not used."""
    for one in inside(state):
        if isinstance(one, optax.ApplyIfFiniteState):
            return 1 - one.last_finite.astype(jnp.int32)
    return None


def state_in(state: Any) -> TocsinState | None:
    """Return the state of :func:`observed` in the state of an optimizer."""
    return next((one for one in inside(state) if isinstance(one, TocsinState)), None)


def inside(state: Any, deep: int = LEVELS) -> Iterator[Any]:
    """Yield a state and those in its tuples."""
    yield state
    if isinstance(state, tuple) and deep:
        for one in state:
            yield from inside(one, deep - 1)


def local(value: Any) -> Any:
    """Return the part of an array on one device of this process, which all have alike."""
    if isinstance(value, jax.Array) and len(value.sharding.device_set) > 1:
        return value.addressable_data(0)
    return value


def on_host_soon(value: Any) -> Any:
    """Start to copy an array to the host. It is read later."""
    value = local(value)
    if isinstance(value, jax.Array):
        value.copy_to_host_async()
    return value


def is_ready(value: Any) -> bool:
    """Return whether reading a value does not wait."""
    return not isinstance(value, jax.Array) or value.is_ready()


def number(value: Any) -> Any:
    """Return a value as a float if it is one number."""
    return float(value.item()) if getattr(value, "size", 0) == 1 else value
