"""Capture losses: the scalars that are backpropagated, unscaled.

``Tensor.backward`` looks up ``torch.autograd.backward`` in every call, so replacing that attribute catches
both. A tensor that ``GradScaler.scale`` returned is recognized by identity, and its unscaled value is used;
the value of a tensor that was computed from it is divided by the scale.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from . import compiler, patching, silent_writes
from .accumulation import share_of
from .backward_steps import depth as _depth
from .compiler import is_compiling as _is_compiling
from .compiler import switch
from .ledger import Seen
from .optimizer_tracker import Loss, OptimizerTracker
from .reading import read
from .scaler import Scaled, forget_scaled, scaled_losses, scaled_source

LOOKED_AT = 4
"""Number of first steps of an optimizer whose losses are examined for divisions. Later, only those of steps
with several losses are."""


def install() -> None:
    """Watch every backward of the process."""
    _depth.threads.clear()
    _depth.trained.clear()
    patching.replace(torch.autograd, "backward", _watched)
    patching.replace_within(torch.autograd.grad, _watch_grad)
    silent_writes.install()


def _watch_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    """Count calls of ``torch.autograd.grad``, for which neither a loss nor a step can be captured."""

    @functools.wraps(original)
    def grad(*args: Any, **kwargs: Any) -> Any:
        if not _is_compiling() and not _depth.threads:
            for ledger in patching.attached:
                try:
                    if ledger.lead is None and not ledger.trackers:
                        ledger.count_backward(False)
                except Exception as error:
                    ledger.report_error("grad", error)
        return original(*args, **kwargs)

    return grad


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if (
            not patching.attached
            or (me := get_ident()) in _depth.threads
            or (compiler.used and _is_compiling())
        ):
            return original(*args, **kwargs)
        one = many = None
        before = switch(None) if compiler.used else None
        try:
            one = _before_one(args, kwargs, me)
            if one is None:
                many = _before(args, kwargs)
        except Exception as error:
            patching.report_error("before backward", error)
        if before is not None:
            switch(before)
        alone = not _depth.threads
        _depth.threads.add(me)
        if me not in _depth.trained:
            _depth.trained.add(me)
        _depth.begun = begun = _depth.begun + 1
        try:
            result = original(*args, **kwargs)
        finally:
            _depth.threads.discard(me)
        if before is not None:
            switch(None)
        try:
            if one is not None:
                ledger, tracker, marks, loss = one
                ledger.after_one(tracker, marks, loss)
            elif many is not None:
                _after(*many, 0 if alone and begun == _depth.begun else begun)
        except Exception as error:
            patching.report_error("after backward", error)
        if before is not None:
            switch(before)
        return result

    return backward


def _inspect(ledger: Any, args: Any, kwargs: Any) -> None:
    """Pass the losses to the inspectors while their graph is complete; remove an inspector that fails."""
    for inspector in ledger.inspectors:
        try:
            inspector(args[0] if args else kwargs.get("tensors"), bool(scaled_losses))
        except Exception as error:
            ledger.remove_inspector(inspector)
            ledger.report_error("inspect", error)


def _before_one(args: Any, kwargs: Any, me: int) -> tuple[Any, OptimizerTracker, Any, Loss] | None:
    """Handle the common case quickly: one run, one optimizer, one host scalar. Return None otherwise.

    Args:
        args: Arguments of the backward.
        kwargs: Its keyword arguments.
        me: Number of the current thread.
    """
    ledgers = patching.attached
    ledger = ledgers[0]
    tracker = ledger.only
    if (
        tracker is None
        or ledger.inspectors
        or len(ledgers) > 1
        or not args
        or kwargs.get("grad_tensors") is not None
    ):
        return None
    tensor = args[0]
    if type(tensor) is not Tensor or (len(args) > 1 and args[1] is not None) or tensor.ndim:
        return None
    if not tensor.is_cpu or (tracker.thread != me and _depth.belongs_to_another_thread(tracker)):
        return None
    losses, probes = tracker.losses, tracker.probes
    marks = None
    if probes[0].grad is not None or probes[-1].grad is not None:
        marks = tracker.marks()
    elif losses:
        return None
    value = name = scale = None
    if scaled_losses:
        scaled = forget_scaled(tensor)
        if scaled is None:
            return None
        _, value, scaler, scale, _ = scaled
        name = ledger.scaler_name(scaler)
    else:
        value = tensor.item()
    loss, tracker.spare = tracker.spare, None
    if loss is None:
        loss = Loss(value, name, scale)
    else:
        loss.value, loss.scaler, loss.scale = value, name, scale
        loss.used, loss.share, loss.kept = False, None, False
    if losses or tracker.meaning is not None or tracker.number < LOOKED_AT:
        loss.share, loss.kept = share_of(tensor, scaled=name is not None), _is_kept(args, kwargs)
    return ledger, tracker, marks, loss


def _before(args: Any, kwargs: Any) -> tuple[list[Found], list[tuple[Any, Seen]]]:
    """Return the values of the losses (before anything can change them) and the state of the gradients."""
    for ledger in patching.attached:
        if ledger.inspectors:
            _inspect(ledger, args, kwargs)
    return _values(args, kwargs), [(ledger, ledger.before_backward()) for ledger in patching.attached]


def _after(found: list[Found], seen: list[tuple[Any, Seen]], begun: int) -> None:
    """Report a backward. ``begun``: its number if another thread's backward overlapped it, else 0."""
    for ledger, marks in seen:
        if begun:
            others = _depth.threads - {get_ident()}
            marks = [one for one in marks if one[0].thread not in others and one[0].backward < begun]
        if found or ledger.gathered:
            ledger.after_backward(marks, [_loss(ledger, *one) for one in found])


Found = tuple[Any, Scaled | None, Any, bool]
"""A scalar that is backpropagated: its unscaled value, its scaling, its divisions (``accumulation.Share``),
and whether its graph is kept."""


def _loss(ledger: Any, value: Any, scaled: Scaled | None, share: Any, kept: bool) -> Loss:
    name, scale = (None, None) if scaled is None else (ledger.scaler_name(scaled[2]), scaled[3])
    return Loss(value, name, scale, share=share, kept=kept)


def _values(args: Any, kwargs: Any) -> list[Found]:
    """Return each scalar that is backpropagated."""
    tensors = args[0] if args else kwargs.get("tensors")
    grads = args[1] if len(args) > 1 else kwargs.get("grad_tensors")
    if isinstance(tensors, Tensor):
        tensors, grads = (tensors,), (grads,)
    else:
        tensors = tuple(tensors or ())
    grads = tuple(grads) if isinstance(grads, (tuple, list)) else (None,) * len(tensors)
    kept, found = _is_kept(args, kwargs), list[Found]()
    for tensor, grad in zip(tensors, grads, strict=False):
        one = _value(tensor, grad)
        if one is not None:
            found.append((*one, share_of(tensor, scaled=one[1] is not None), kept))
    return [(*one[:3], True) for one in found[:-1]] + found[-1:]  # terms of one objective


def _is_kept(args: Any, kwargs: Any) -> bool:
    """Return whether the graph is kept for another backward, as torch also does with ``create_graph``."""
    keep = args[2] if len(args) > 2 else kwargs.get("retain_graph")
    create = args[3] if len(args) > 3 else kwargs.get("create_graph")
    return bool(create if keep is None else keep)


def _value(tensor: Any, grad: Any) -> tuple[Any, Scaled | None] | None:
    """Return one loss, multiplied by a scalar ``gradient`` argument if there is one."""
    if not isinstance(tensor, Tensor) or tensor.numel() != 1:
        return None
    scaled = forget_scaled(tensor)
    if scaled is not None:
        value = scaled[1]
    else:
        value = read(tensor, "loss")
        scaled = scaled_source(tensor) if scaled_losses else None
        if scaled is not None and value is not None:
            value = value / scaled[3]
    if value is not None and grad is not None:
        factor = read(grad)
        value = None if factor is None else value * factor
    return None if value is None else (value, scaled)
