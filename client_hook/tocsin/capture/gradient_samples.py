"""Detect gradients that the script changed after the backward through ``grad.data``.

Such a change does not increase a version counter, so a few values of the probes' gradients are copied after
the backward and compared before the clip or the step. On a device the comparison is queued there, and its
result is read when it has arrived: nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import reading
from .reading import CUDA, capturing, differ_later, readable

EDGE = 8
"""Values that are copied along each dimension of a gradient."""
PENDING = 8
"""Comparisons that may wait for a device; with more, the oldest is dropped."""

KNOWN_HOOKS = ("torch", "wandb")
"""Packages whose gradient hooks do not clip: they log, reduce or step."""

Sample = dict[int, Tensor]
"""Place of a probe -> copies of a few values of its gradient, as bytes; without those that cannot be read."""
Pending = list[Callable[[], bool | None]]


def sample_of(probes: Sequence[Any]) -> Sample:
    """Return a sample of the gradients; none while a CUDA graph is being captured."""
    if CUDA and capturing():
        return {}
    return {place: _copied(probe.grad) for place, probe in enumerate(probes) if _is_plain(probe.grad)}


def _is_plain(grad: Any) -> bool:
    if type(grad) not in reading.PLAIN or grad.layout is not torch.strided:
        return False
    return grad.numel() > 0 and readable(grad)


def _copied(grad: Tensor) -> Tensor:
    every = [-(-size // EDGE) for size in grad.shape]
    sizes = [-(-size // step) for size, step in zip(grad.shape, every, strict=True)]
    strides = [stride * step for stride, step in zip(grad.stride(), every, strict=True)]
    part = grad.detach().as_strided(sizes, strides, grad.storage_offset())
    flat = part.reshape(-1)
    if flat.untyped_storage()._cdata == grad.untyped_storage()._cdata:
        flat = flat.clone()
    return flat.view(torch.uint8)  # as bytes: NaN equals NaN


def differs(before: Sample, now: Sample, pending: Pending) -> bool:
    """Return whether two samples are known to differ; comparisons on a device are added to ``pending``.

    Args:
        before: Sample from after the backward.
        now: Sample from before the clip or the step.
        pending: Receives comparisons that have not finished on a device.
    """
    both = [(one, now[place]) for place, one in before.items() if _are_alike(one, now.get(place))]
    on_device = [(one, other) for one, other in both if not one.is_cpu]
    if on_device and not (CUDA and capturing()):
        pending.append(differ_later(on_device))
    arrived = [one() for one in pending]
    pending[:] = [one for one, answer in zip(pending, arrived, strict=True) if answer is None][-PENDING:]
    return any(arrived) or any(not torch.equal(one, other) for one, other in both if one.is_cpu)


def _are_alike(one: Tensor, other: Tensor | None) -> bool:
    return other is not None and one.shape == other.shape and one.device == other.device


def has_hooks(params: Sequence[Any]) -> bool:
    """Return whether the script's own hooks receive gradients of these parameters, and may change them."""
    return any(
        _package_of(hook) not in KNOWN_HOOKS
        for param in params
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
        for hook in (getattr(param, name, None) or {}).values()
    )


def _package_of(hook: Any) -> str:
    function = getattr(hook, "func", hook)  # of a functools.partial
    return str(getattr(function, "__module__", "")).partition(".")[0]
