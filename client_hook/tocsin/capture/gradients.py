"""Capture gradient norms: of the script's own clip, or else computed by us at sampled steps."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import clip_grad

from . import compiler, fsdp, patching
from .compiler import is_compiling as _is_compiling
from .compiler import switch, traced
from .optimizer_tracker import LOOKED_AT, OptimizerTracker
from .reading import read, readable

HOST: Any = Tensor
"""Type of the norms that are read at once if they are in host memory."""


class _Caught:
    """The newest total norm of torch, and the vector of norms that it was computed from."""

    __slots__ = ("newest", "total", "vector")

    def __init__(self) -> None:
        self.newest: Any = None
        """Newest argument of the norm function while torch computes a total norm."""
        self.total: Any = None
        self.vector: Any = None


_caught = _Caught()


class Norms(NamedTuple):
    """Norms of the gradients of ``params``. ``source``: own, or local for a shard."""

    params: list[Any]
    norms: Tensor
    source: str


def install() -> None:
    """Watch every clip of the process, also through names imported before."""
    install_sharded()
    install_deepspeed()
    patching.replace_within(clip_grad.clip_grad_value_, _watch_value_clip)
    if hasattr(clip_grad, "_get_total_norm"):
        _install_total_norm()
    if not hasattr(clip_grad, "_clip_grads_with_norm_"):
        install_public()
        return
    inner = clip_grad._clip_grads_with_norm_
    patching.replace(clip_grad, "_clip_grads_with_norm_", _watch_clip)
    if getattr(torch.nn.utils, "clip_grads_with_norm_", None) is inner:
        patching.replace(torch.nn.utils, "clip_grads_with_norm_", _watch_clip)


def install_sharded() -> None:
    """Watch FSDP1's own clip if the script has imported it. Called again when an optimizer is made."""
    cls = fsdp.fsdp1()
    if cls is not None and not hasattr(cls.clip_grad_norm_, "_tocsin"):
        patching.replace(cls, "clip_grad_norm_", _watch_sharded_clip)


def install_deepspeed() -> None:
    """Watch DeepSpeed's own clip of float32 gradients if the script has imported it."""
    engine = sys.modules.get("deepspeed.runtime.engine")
    clip = getattr(engine, "clip_grad_norm_", None)
    if clip is not None and not hasattr(clip, "_tocsin"):
        patching.replace(engine, "clip_grad_norm_", _watch_public_clip)


def kept_norm(tracker: OptimizerTracker, optimizer: Any) -> Any:
    """Return the norm before clipping that DeepSpeed's optimizer around this one keeps, or None.

    Called after the step, when it contains that step's norm, unscaled.
    """
    if tracker.outer is None:
        tracker.outer = _outer_of(optimizer) if "deepspeed.runtime.engine" in sys.modules else ()
    outer = tracker.outer() if tracker.outer else None
    return None if outer is None else read(outer._global_grad_norm, "norm")


def _outer_of(optimizer: Any) -> Any:
    """Return a weak reference to the object that wraps this optimizer and keeps a global norm."""
    for holder in gc.get_referrers(optimizer):
        names = holder if type(holder) is dict else getattr(holder, "__dict__", {})
        if "_global_grad_norm" not in names or names.get("optimizer") is not optimizer:
            continue
        owner = holder
        if type(holder) is dict:
            owner = next((one for one in gc.get_referrers(holder) if vars_of(one) is holder), None)
        if owner is not None:
            return weakref.ref(owner)
    return ()


def vars_of(value: Any) -> Any:
    """Return the attributes of an object, or None if it has none."""
    return getattr(value, "__dict__", None)


def _watch_sharded_clip(original: Callable[..., Any]) -> Callable[..., Any]:
    """Watch a clip whose norm is that of all ranks together."""

    @functools.wraps(original)
    def clip_grad_norm_(self: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        _look_before_clip(self.parameters())
        norm = original(self, max_norm, *args, **kwargs)
        if patching.attached:
            try:
                _clipped(list(self.parameters()), max_norm, norm)
            except Exception as error:
                patching.report_error("clip", error)
        return norm

    clip_grad_norm_._tocsin = True  # type: ignore[attr-defined]
    return clip_grad_norm_


def _install_total_norm() -> None:
    patching.undo_later(_caught.__init__)  # type: ignore[misc]
    inner = clip_grad._get_total_norm
    patching.replace(clip_grad, "_get_total_norm", _watch_total_norm)
    if getattr(torch.nn.utils, "get_total_norm", None) is inner:
        patching.replace(torch.nn.utils, "get_total_norm", _watch_total_norm)


def _watch_total_norm(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the vector of norms that torch computes for a total 2-norm.

    The last operation, the norm of that vector, is observed while it runs, so nothing is computed twice. If
    that function is patched already, or in use by another thread, it is left as it is.
    """
    linalg = torch.linalg
    plain = linalg.vector_norm

    def vector_norm(x: Any, *more: Any, **named: Any) -> Any:
        _caught.newest = x
        return plain(x, *more, **named)

    @functools.wraps(original)
    def get_total_norm(tensors: Any, norm_type: Any = 2.0, *args: Any, **kwargs: Any) -> Any:
        is_free = linalg.vector_norm is plain and norm_type == 2 and patching.attached
        if not is_free or (compiler.used and _is_compiling()):
            return original(tensors, norm_type, *args, **kwargs)
        linalg.vector_norm = vector_norm
        try:
            total = original(tensors, norm_type, *args, **kwargs)
        finally:
            linalg.vector_norm = plain
        _caught.total, _caught.vector, _caught.newest = total, _caught.newest, None
        return total

    return get_total_norm


def install_public() -> None:
    """Watch the public function, because torch before 2.6 has no inner one."""
    patching.replace_within(clip_grad.clip_grad_norm_, _watch_public_clip)


def _watch_clip(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def clip_grads_with_norm_(
        parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if compiler.used and _is_compiling():
            traced.clipped = True
        elif patching.attached:
            if type(parameters) is not list and not isinstance(parameters, Tensor):
                parameters = list(parameters)  # an iterator can be consumed only once
            before = switch(None) if compiler.used else None
            try:
                _clipped(parameters, max_norm, total_norm)
            except Exception as error:
                patching.report_error("clip", error)
            if before is not None:
                switch(before)
        return original(parameters, max_norm, total_norm, *args, **kwargs)

    return clip_grads_with_norm_


def _watch_public_clip(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def clip_grad_norm_(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, Tensor):
            parameters = list(parameters)
        _look_before_clip(parameters)
        norm = original(parameters, max_norm, *args, **kwargs)
        if _is_compiling():
            traced.clipped = True
        elif patching.attached:
            try:
                _clipped(parameters, max_norm, norm)
            except Exception as error:
                patching.report_error("clip", error)
        return norm

    clip_grad_norm_._tocsin = True  # type: ignore[attr-defined]
    return clip_grad_norm_


def _watch_value_clip(original: Callable[..., Any]) -> Callable[..., Any]:
    """Watch a clip of single values. It computes no norm, so ours is computed before if one is due."""

    @functools.wraps(original)
    def clip_grad_value_(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, Tensor):
            parameters = list(parameters)
        if not _is_compiling() and patching.attached:
            try:
                _before_value_clip(parameters)
            except Exception as error:
                patching.report_error("clip", error)
        return original(parameters, *args, **kwargs)

    return clip_grad_value_


def _before_value_clip(parameters: Any) -> None:
    params = [parameters] if isinstance(parameters, Tensor) else parameters
    for ledger in patching.attached:
        try:
            for tracker in ledger.owner(params):
                optimizer, losses = tracker.ref(), tracker.losses
                if optimizer is not None and losses and ledger.norm_due(tracker):
                    own_norm(ledger, tracker, optimizer, None if tracker.unscaled else losses[-1].scale)
                elif tracker.sample:
                    tracker.look_for_changes()
                if not tracker.user_clips:
                    tracker.ungrade()
        except Exception as error:
            ledger.report_error("clip", error)


def _look_before_clip(parameters: Any) -> None:
    """Check for changes of the gradients before a clip whose norm is known only afterwards."""
    try:
        params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        for ledger in () if _is_compiling() else patching.attached:
            for tracker in ledger.owner(params):
                if tracker.number < LOOKED_AT or tracker.sample:
                    tracker.look_for_changes()
                tracker.ungrade()
    except Exception as error:
        patching.report_error("before clip", error)


def _clipped(parameters: Any, max_norm: Any, total_norm: Any) -> None:
    for ledger in patching.attached:
        try:
            is_host = type(total_norm) is HOST and total_norm.is_cpu and not total_norm.ndim
            norm = total_norm.item() if is_host else read(total_norm, "norm")
            if norm is None:
                continue
            clip = max_norm
            if type(clip) is not float:
                clip = float(max_norm) if isinstance(max_norm, (int, float)) else None
            params = parameters
            if type(params) is not list and isinstance(params, Tensor):
                params = [params]
            if ledger.manual is not None:
                ledger.manual.clipped(norm, clip)
            only, layers = ledger.only, ledger.layers
            vector = (
                _caught.vector if _caught.total is total_norm else None
            )  # else torch did not compute both
            if type(vector) is not HOST:
                vector = getattr(vector, "_local_tensor", vector)
            for tracker in ledger.owner(params) if only is None or ledger.members else (only,):
                if ledger.clipped(tracker, norm, clip) and layers is not None and vector is not None:
                    scale = tracker.losses[-1].scale if tracker.norm_scaled else None
                    layers.seen(tracker, params, vector, scale, "clip")
        except Exception as error:
            ledger.report_error("clip", error)


def own_norm(ledger: Any, tracker: OptimizerTracker, optimizer: Any, scale: Any) -> None:
    """Compute the total 2-norm of the optimizer's gradients, divided by ``scale`` if they are scaled.

    Args:
        ledger: The run's ledger.
        tracker: State of the optimizer; receives the norm.
        optimizer: The optimizer whose gradients are read.
        scale: The loss scale in the gradients (float or 0-dim tensor), or None.
    """
    made = norms_of(optimizer)
    if made is None:
        return
    norm = read(torch.linalg.vector_norm(made.norms), None)
    if norm is None:
        return
    tracker.look_for_changes()
    tracker.norm = norm if scale is None else norm / scale
    tracker.norm_from, tracker.norm_scaled, tracker.clip = made.source, False, None
    if ledger.layers is not None:
        ledger.layers.seen(tracker, made.params, made.norms, scale, made.source)


def norms_of(optimizer: Any) -> Norms | None:
    """Return the norms of all gradients of an optimizer, float32 on the first one's device, or None."""
    params, grads, local = _grads(optimizer)
    if not grads or not readable(grads[0]):
        return None
    return Norms(params, _norms(grads), "local" if local or fsdp.is_part(params) else "own")


def _grads(optimizer: Any) -> tuple[list[Any], list[Tensor], bool]:
    """Return the parameters with a gradient, the gradients as plain tensors, and whether they are shards.

    Of a sharded gradient (DTensor) this rank's part is returned.
    """
    params, grads, local = [], [], False
    for group in optimizer.param_groups:
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if type(grad) is not Tensor and hasattr(grad, "_local_tensor"):
                grad, local = grad._local_tensor, local or not fsdp.is_whole(grad)
            params.append(param)
            grads.append(grad._values() if grad.is_sparse else grad)
    return params, grads, local


def _norms(grads: list[Tensor]) -> Tensor:
    """Return the norms, float32, in order, without waiting: one foreach call per device and dtype."""
    with torch.no_grad():
        first = grads[0].device
        kinds: dict[Any, list[int]] = {}
        for at, grad in enumerate(grads):
            kinds.setdefault((grad.device, grad.dtype), []).append(at)
        norms: list[Any] = [None] * len(grads)
        if len(kinds) == 1:
            return torch.stack(torch._foreach_norm(grads, 2.0)).to(torch.float32)
        for places in kinds.values():
            for at, norm in zip(places, torch._foreach_norm([grads[at] for at in places], 2.0), strict=True):
                norms[at] = norm.to(first, torch.float32, non_blocking=True)
        return torch.stack(norms)
