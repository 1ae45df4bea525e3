"""Capture the loss scale: its value at a step, whether it skipped the step, its growth and backoff.

``torch.amp.GradScaler`` and every subclass that overrides a method are patched, so scalers made before and
after, and unpickled ones, are seen. The scale is read when a loss is scaled, once between two updates: that
is the scale of the step, whatever the script does to the scaler afterwards.

On a device the scale is read once and then computed (``device_scale.py``).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from . import compiler, patching
from .compiler import is_compiling as _is_compiling
from .compiler import switch
from .device_scale import DeviceScale
from .device_values import Computed
from .gradients import own_norm
from .optimizer_tracker import OptimizerTracker
from .reading import capturing, is_on_device, read
from .wrappers import inner_of

REMEMBERED = 1024
"""Maximum number of scaled losses that wait for their backward."""
WALK = 16
"""Maximum number of operations between a backward and the scaling before it."""


Scaled = tuple[Any, Any, Any, Any, int]
"""A scaled loss: (weak reference to it, unscaled value, its scaler, the scale, its version)."""

scaled_losses: dict[int, Scaled] = {}
"""id(scaled loss) -> what it is, until its backward. Losses without a backward stay as dead entries, which
are removed above REMEMBERED."""
_scales: dict[int, DeviceScale] = {}
"""id(scaler) -> its scale on a device."""
_updating: set[int] = set()


def install() -> None:
    """Watch every scaler of the process."""
    patching.undo_later(_forget)
    methods = {
        "scale": _watch_scale,
        "unscale_": _watch_unscale,
        "step": _watch_step,
        "update": _watch_update,
    }
    for name, make in methods.items():
        patching.replace_in_all(scaler_class(), name, make)


def scaler_class() -> Any:
    """Return ``torch.amp.GradScaler``, or ``torch.cuda.amp.GradScaler`` before torch 2.3."""
    return getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler


def _forget() -> None:
    scaled_losses.clear()
    _scales.clear()
    _host.tensor = None


# -- scale


def _watch_scale(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def scale(self: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, outputs, *args, **kwargs)
        is_compiled = compiler.used and _is_compiling()
        if not is_compiled and patching.attached and getattr(self, "_enabled", True):
            before = switch(None) if compiler.used else None
            try:
                _remember(self, outputs, result)
            except Exception as error:
                patching.report_error("scale", error)
            if before is not None:
                switch(before)
        return result

    return scale


def _remember(scaler: Any, outputs: Any, result: Any) -> None:
    """Note the unscaled value of each scaled loss. Iterators are ignored."""
    if isinstance(outputs, Tensor):
        if len(scaled_losses) > REMEMBERED:
            scaled_losses.clear()
        value = read(outputs, "loss")
        if value is not None and result.requires_grad:
            scaled_losses[id(result)] = (
                weakref.ref(result),
                value,
                scaler,
                scale_of(scaler),
                result._version,
            )
    elif isinstance(outputs, (list, tuple)) and isinstance(result, (list, tuple)):
        for output, one in zip(outputs, result, strict=False):
            _remember(scaler, output, one)


class _HostScale:
    """The newest scale that was read in host memory, which stays the same until its version changes."""

    __slots__ = ("tensor", "value", "version")

    def __init__(self) -> None:
        self.tensor: Any = None
        self.version = 0
        self.value: Any = None


_host = _HostScale()


def scale_of(scaler: Any) -> Any:
    """Return the current scale, or None before the first loss or if torch hides it."""
    scale = getattr(scaler, "_scale", None)
    if scale is None:
        return None
    if scale is _host.tensor and scale._version == _host.version:
        return _host.value
    if not isinstance(scale, Tensor) or not is_on_device(scale) or capturing() or scale.is_inference():
        value = read(scale)
        if type(value) is float and type(scale) is Tensor and not scale.is_inference():
            _host.tensor, _host.version, _host.value = scale, scale._version, value
        return value
    known = _scales.get(id(scaler))
    if known is not None and known.is_current(scaler, scale):
        return known.value
    if len(_scales) > REMEMBERED:
        _scales.clear()
    known = _scales[id(scaler)] = DeviceScale(scaler, scale)
    return known.value


def forget_scaled(tensor: Tensor) -> Scaled | None:
    """Return what ``tensor`` is the scaled form of, or None. Called once, at its backward."""
    scaled = scaled_losses.get(id(tensor))
    # A tensor computed from a scaled loss may have its id: ``scaled_source`` still needs the entry.
    if scaled is None or scaled[0]() is not tensor:
        return None
    del scaled_losses[id(tensor)]
    if tensor._version == scaled[4]:
        return scaled
    value = read(tensor, "loss")  # changed in place since: ``loss /= micro_steps``
    return (scaled[0], None if value is None else value / scaled[3], *scaled[2:])


def scaled_source(tensor: Tensor) -> Scaled | None:
    """Return the scaled loss that ``tensor`` was computed from a few operations before, or None.

    Examples are ``(scaler.scale(a) + scaler.scale(b)).backward()`` and ``(scaler.scale(a) / n).backward()``.
    A multiplication by a scaler's scale tensor in the graph is its ``scale()``.
    """
    waiting_scales = [(one[2]._scale, one) for one in scaled_losses.values()]
    scales = {scale.data_ptr(): one for scale, one in waiting_scales if isinstance(scale, Tensor)}
    waiting = [tensor.grad_fn]
    for _ in range(WALK):
        node = waiting.pop(0) if waiting else None
        if node is None:
            break
        factor = getattr(node, "_saved_other", None)
        if isinstance(factor, Tensor) and factor.data_ptr() in scales:
            return scales[factor.data_ptr()]
        waiting.extend(after for after, _ in node.next_functions if after is not None)
    for key in [key for key, one in scaled_losses.items() if one[0]() is None]:
        del scaled_losses[key]
    return None


# -- unscale_


def _watch_unscale(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def unscale_(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, optimizer, *args, **kwargs)
        is_compiled = compiler.used and _is_compiling()
        if is_compiled or not patching.attached or not getattr(self, "_enabled", True):
            return result
        before = switch(None) if compiler.used else None
        for ledger in patching.attached:
            try:
                _unscaled(ledger, self, optimizer)
            except Exception as error:
                ledger.report_error("unscale_", error)
        if before is not None:
            switch(before)
        return result

    return unscale_


def _unscaled(ledger: Any, scaler: Any, optimizer: Any) -> None:
    tracker = ledger.only
    if tracker is None or tracker.ref() is not optimizer:
        tracker = ledger.tracker(optimizer)
        if tracker is None:
            return
    tracker.unscaled = True
    tracker.note_gradients()
    if tracker.looks:
        tracker.keep_sample()
    if tracker.in_scaler:
        if ledger.norm_due(tracker):
            own_norm(ledger, tracker, optimizer, None)
        return
    tracker.open = True
    tracker.scaler, tracker.scale = ledger.scaler_name(scaler), scale_of(scaler)
    tracker.ask = functools.partial(found_inf_of, scaler, optimizer)


def found_inf_of(scaler: Any, optimizer: Any) -> Any:
    """Return 1.0 or 0.0 (a scalar on a device): whether unscaling found a non-finite gradient.

    ``update()`` adds all optimizers' flags to the first one's tensor, so the flags are read before.
    """
    known = _scales.get(id(scaler))
    flags = [
        known.flag(one) if known is not None and not capturing() else read(one, None)
        for one in _flags_of(scaler, optimizer)
    ]
    flags = [flag for flag in flags if flag is not None]
    if not flags:
        return None
    if all(type(flag) is float for flag in flags):
        return 1.0 if any(flags) else 0.0
    return flags[0] if len(flags) == 1 else sum(flags[1:], start=flags[0])


def _flags_of(scaler: Any, optimizer: Any) -> Collection[Tensor]:
    """Return the flags of one optimizer, one per device; none if torch hides them."""
    states = getattr(scaler, "_per_optimizer_states", None)
    state = states.get(id(optimizer)) if states else None
    return state.get("found_inf_per_device", {}).values() if state else ()


# -- step


def _watch_step(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        is_compiled = compiler.used and _is_compiling()
        if is_compiled or not patching.attached or not getattr(self, "_enabled", True):
            return original(self, optimizer, *args, **kwargs)
        opened: list[Opened] = []
        done = False
        before = switch(None) if compiler.used else None
        try:
            _open(self, optimizer, opened)
        except Exception as error:
            patching.report_error("before scaler.step", error)
        if before is not None:
            switch(before)
        try:
            result = original(self, optimizer, *args, **kwargs)
            done = True
            return result
        finally:
            if before is not None:
                switch(None)
            try:
                _close(self, opened, done)
            except Exception as error:
                patching.report_error("after scaler.step", error)
            if before is not None:
                switch(before)

    return step


Opened = tuple[Any, OptimizerTracker, Any]


def _open(scaler: Any, optimizer: Any, opened: list[Opened]) -> None:
    for ledger in patching.attached:
        try:
            inner, tracker = optimizer, ledger.only
            if tracker is None or tracker.ref() is not optimizer:
                inner = inner_of(optimizer)
                tracker = None if inner is None else ledger.tracker(inner)
            if tracker is None or tracker.in_scaler:
                continue
            tracker.in_scaler, tracker.fired, tracker.depth = True, False, 0
            opened.append((ledger, tracker, optimizer))
            if not tracker.number:
                ledger.first_step(tracker)
            tracker.read_rates(inner, read)
            if tracker.scale is None:  # otherwise ``unscale_`` has set it
                tracker.scaler, tracker.scale = ledger.scaler_name(scaler), scale_of(scaler)
            if tracker.unscaled and tracker.norm is None and ledger.norm_due(tracker):
                own_norm(ledger, tracker, inner, None)
        except Exception as error:
            ledger.report_error("before scaler.step", error)


def _close(scaler: Any, opened: list[Opened], done: bool) -> None:
    for ledger, tracker, optimizer in opened:
        try:
            tracker.in_scaler, tracker.depth = False, 0
            if not done:
                continue
            fused = getattr(optimizer, "_step_supports_amp_scaling", False)
            if tracker.fired and not fused:  # torch has read the flag
                tracker.has_flag = tracker.has_flag or bool(_flags_of(scaler, optimizer))
                tracker.found_inf = 0.0 if tracker.has_flag else None
                ledger.record(tracker, 1.0, 0.0)
                continue
            found = found_inf_of(scaler, optimizer)
            stepped, skipped, tracker.found_inf = _outcome(found, tracker.fired, fused)
            ledger.record(tracker, stepped, skipped)
        except Exception as error:
            ledger.report_error("after scaler.step", error)


def _outcome(found: Any, fired: bool, fused: bool) -> tuple[Any, Any, Any]:
    """Return (stepped, skipped, found_inf).

    If the optimizer is not fused, torch has read the flag, so whether the step ran is the answer. A fused
    optimizer always runs and decides on the device, so the flag is the answer.
    """
    if type(found) is float:
        skip = 1.0 if found > 0 else 0.0
        return 1.0 - skip, skip, found
    if found is None or not fused:
        skip = 0.0 if fired else 1.0
        return 1.0 - skip, skip, None if found is None else skip
    skipped = Computed(_is_positive, found)
    return 1.0 - skipped, skipped, skipped


def _is_positive(number: float) -> float:
    return 1.0 if number > 0 else 0.0


# -- update


def _watch_update(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_compiled = compiler.used and _is_compiling()
        if is_compiled or not patching.attached or not getattr(self, "_enabled", True):
            return original(self, *args, **kwargs)
        if (key := id(self)) in _updating:
            return original(self, *args, **kwargs)
        scale = None
        before = switch(None) if compiler.used else None
        try:
            scale = _before_update(self)
        except Exception as error:
            patching.report_error("before update", error)
        if before is not None:
            switch(before)
        _updating.add(key)  # an overriding method calls ours again through super()
        try:
            result = original(self, *args, **kwargs)
        finally:
            _updating.discard(key)
        if before is not None:
            switch(None)
        try:
            _updated(self, scale, args[0] if args else kwargs.get("new_scale"))
        except Exception as error:
            patching.report_error("after update", error)
        if before is not None:
            switch(before)
        return result

    return update


def _before_update(scaler: Any) -> Any:
    """Return the scale, after reading the flags of unscaled gradients that no step uses."""
    for ledger in patching.attached:
        for tracker in ledger.trackers.values():
            if tracker.ask is not None:
                tracker.settle()
    known = _scales.get(id(scaler)) if _scales else None
    if known is not None:
        known.before(scaler)
    return _host_scale(scaler)


def _host_scale(scaler: Any) -> Any:
    """Return the scale if it is in host memory. On a device a change is detected at the next record."""
    scale = getattr(scaler, "_scale", None)
    if scale is not _host.tensor and isinstance(scale, Tensor) and is_on_device(scale):
        return None
    return scale_of(scaler)


def _updated(scaler: Any, before: Any, new_scale: Any = None) -> None:
    known = _scales.get(id(scaler)) if _scales else None
    if known is not None and not known.after(scaler, new_scale):
        del _scales[id(scaler)]
    after = _host_scale(scaler)
    if after is None:
        for ledger in patching.attached:
            ledger.scales_on_device[ledger.scaler_name(scaler)] = scaler._scale
    if before is None or after is None or after == before:
        return
    for ledger in patching.attached:
        try:
            ledger.scale_changed(ledger.scaler_name(scaler), before, after)
        except Exception as error:
            ledger.report_error("update", error)


def report_last_scales(ledger: Any) -> None:
    """Report what the last updates on a device did, because no further record will."""
    for name, scale in ledger.scales_on_device.items():
        ledger.reporter.last_scale(name, read(scale, None))
