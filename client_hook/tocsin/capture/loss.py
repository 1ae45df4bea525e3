"""Losses: the scalars that are backpropagated, unscaled.

``torch.autograd.backward`` is looked up at every ``Tensor.backward``, so replacing the module's
attribute catches both. What ``GradScaler.scale`` returned is known by identity, and its
unscaled value is taken instead; anything built on it is divided by the scale.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import patching
from .compiling import is_compiling as _is_compiling
from .compiling import switch
from .inside import depth as _depth
from .ledger import Seen
from .scaler import Scaled, forget_scaled, scaled_source, some_scaled
from .staging import read
from .stepper import Loss, Stepper


def install() -> None:
    """Watches every backward of the process."""
    _depth.inside = False
    patching.replace(torch.autograd, "backward", _watched)


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if _is_compiling() or not patching.attached or _depth.inside:
            return original(*args, **kwargs)
        one = many = None
        compiler = switch(None)
        try:
            for ledger in patching.attached:
                if ledger.inspect is not None:
                    _inspect(ledger.inspect, args, kwargs)
            one = _before_one(args, kwargs)
            if one is None:
                many = _before(args, kwargs)
        except Exception as error:
            patching.trouble("before backward", error)
        if compiler is not None:
            switch(compiler)
        _depth.inside = True
        try:
            result = original(*args, **kwargs)
        finally:
            _depth.inside = False
        switch(None)
        try:
            if one is not None:
                ledger, stepper, marks, loss = one
                ledger.after_one(stepper, marks, loss)
            elif many is not None:
                _after(*many)
        except Exception as error:
            patching.trouble("after backward", error)
        if compiler is not None:
            switch(compiler)
        return result

    return backward


def _inspect(inspect: Callable[[Any, bool], None], args: Any, kwargs: Any) -> None:
    """Shows the losses to the audit while their graph is whole."""
    inspect(args[0] if args else kwargs.get("tensors"), some_scaled())


def _before_one(args: Any, kwargs: Any) -> tuple[Any, Stepper, Any, Loss] | None:
    """The common case, short because it runs at every step: one run, one optimizer, one host scalar."""
    ledgers = patching.attached
    if not args or kwargs.get("grad_tensors") is not None or len(ledgers) != 1:
        return None
    tensor, ledger = args[0], ledgers[0]
    stepper = ledger.only
    if stepper is None or type(tensor) is not Tensor or (len(args) > 1 and args[1] is not None):
        return None
    probes = stepper.probes
    first = probes[0].grad
    if tensor.ndim or not tensor.is_cpu or (first is None and stepper.losses):
        return None
    marks = None if first is None and probes[-1].grad is None else stepper.marks()
    if not some_scaled():
        loss = Loss(tensor.item())
    else:
        scaled = forget_scaled(tensor)
        if scaled is None:
            return None
        loss = Loss(scaled[1], ledger.scaler_name(scaled[2]), scaled[3])
    return ledger, stepper, marks, loss


def _before(args: Any, kwargs: Any) -> tuple[list[Any], list[tuple[Any, Seen]]]:
    """Values of the losses (read before anything can change them) and the gradients' state."""
    return _values(args, kwargs), [(ledger, ledger.before_backward()) for ledger in patching.attached]


def _after(found: list[Any], seen: list[tuple[Any, Seen]]) -> None:
    for ledger, marks in seen:
        if found or ledger.gathered:
            ledger.after_backward(marks, [_loss(ledger, *one) for one in found])


def _loss(ledger: Any, value: Any, scaled: Scaled | None) -> Loss:
    if scaled is None:
        return Loss(value)
    return Loss(value, ledger.scaler_name(scaled[2]), scaled[3])


def _values(args: Any, kwargs: Any) -> list[tuple[Any, Scaled | None]]:
    """(unscaled value, how it was scaled) of each scalar that is backpropagated."""
    tensors = args[0] if args else kwargs.get("tensors")
    grads = args[1] if len(args) > 1 else kwargs.get("grad_tensors")
    if isinstance(tensors, Tensor):
        one = _value(tensors, grads)
        return [] if one is None else [one]
    tensors = tuple(tensors or ())
    grads = tuple(grads) if isinstance(grads, (tuple, list)) else (None,) * len(tensors)
    return [one for one in map(_value, tensors, grads) if one is not None]


def _value(tensor: Any, grad: Any) -> tuple[Any, Scaled | None] | None:
    """One loss. With a scalar ``gradient`` argument the objective is their product."""
    if not isinstance(tensor, Tensor) or tensor.numel() != 1:
        return None
    scaled = forget_scaled(tensor)
    if scaled is not None:
        value = scaled[1]
    else:
        value = read(tensor)
        scaled = scaled_source(tensor) if some_scaled() else None
        if scaled is not None and value is not None:
            value = value / scaled[3]
    if value is not None and grad is not None:
        factor = read(grad)
        value = None if factor is None else value * factor
    return None if value is None else (value, scaled)
