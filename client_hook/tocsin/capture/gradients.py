"""Gradient norms: the script's own clip where it clips, a sampled one of ours where it does not."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad

from . import patching
from .staging import read
from .stepper import Stepper

_is_compiling = torch.compiler.is_compiling


def install() -> None:
    """Watches every clip of the process, also through names imported before."""
    if not hasattr(clip_grad, "_clip_grads_with_norm_"):
        _install_public()
        return
    inner = clip_grad._clip_grads_with_norm_
    patching.replace(clip_grad, "_clip_grads_with_norm_", _watch_clip)
    if getattr(torch.nn.utils, "clip_grads_with_norm_", None) is inner:
        patching.replace(torch.nn.utils, "clip_grads_with_norm_", _watch_clip)


def _install_public() -> None:
    """torch before 2.6 has no inner function: a clip imported by name earlier is not seen."""
    warnings.warn(
        "tocsin: this torch has no torch.nn.utils.clip_grad._clip_grads_with_norm_: clips are seen only "
        "where they are called as torch.nn.utils.clip_grad_norm_",
        RuntimeWarning,
        stacklevel=6,
    )
    patching.replace(torch.nn.utils, "clip_grad_norm_", _watch_public_clip)


def _watch_clip(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def clip_grads_with_norm_(
        parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if patching.attached and not _is_compiling():
            if not isinstance(parameters, (Tensor, list)):
                parameters = list(parameters)  # an iterator can be gone through once only
            try:
                _clipped(parameters, max_norm, total_norm)
            except Exception as error:
                patching.trouble("clip", error)
        return original(parameters, max_norm, total_norm, *args, **kwargs)

    return clip_grads_with_norm_


def _watch_public_clip(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def clip_grad_norm_(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, Tensor):
            parameters = list(parameters)
        norm = original(parameters, max_norm, *args, **kwargs)
        if patching.attached and not _is_compiling():
            try:
                _clipped(parameters, max_norm, norm)
            except Exception as error:
                patching.trouble("clip", error)
        return norm

    return clip_grad_norm_


def _clipped(parameters: Any, max_norm: Any, total_norm: Any) -> None:
    for ledger in patching.attached:
        try:
            norm = read(total_norm)
            if norm is None:
                continue
            params = [parameters] if isinstance(parameters, Tensor) else parameters
            clip = float(max_norm) if isinstance(max_norm, (int, float)) else None
            for stepper in ledger.owner(params):
                ledger.clipped(stepper, norm, clip)
        except Exception as error:
            ledger.trouble("clip", error)


def own_norm(stepper: Stepper, optimizer: Any, scale: Any) -> None:
    """The total 2-norm of the optimizer's gradients, divided by ``scale`` where they are still scaled."""
    grads, local = _grads(optimizer)
    if not grads:
        return
    norm = read(_total_norm(grads))
    if norm is None:
        return
    stepper.norm = norm if scale is None else norm / scale
    stepper.norm_from, stepper.norm_scaled, stepper.clip = ("local" if local else "own"), False, None


def _grads(optimizer: Any) -> tuple[list[Tensor], bool]:
    """Gradients as plain tensors; of a sharded one (DTensor) this rank's part, and that it is a part."""
    out, local = [], False
    for group in optimizer.param_groups:
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if type(grad) is not Tensor and hasattr(grad, "_local_tensor"):
                grad, local = grad._local_tensor, True
            out.append(grad._values() if grad.is_sparse else grad)
    return out, local


def _total_norm(grads: list[Tensor]) -> Tensor:
    """Norm of the norms, in float32, without waiting: one foreach call a device."""
    with torch.no_grad():
        by_kind: dict[Any, list[Tensor]] = {}
        for grad in grads:
            by_kind.setdefault((grad.device, grad.dtype), []).append(grad)
        first = grads[0].device
        norms = []
        for same in by_kind.values():
            norms += [
                norm.to(first, torch.float32, non_blocking=True) for norm in torch._foreach_norm(same, 2.0)
            ]
        total: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return total
