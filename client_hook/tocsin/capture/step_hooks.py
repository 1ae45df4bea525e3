"""Restore the step hooks of optimizers that Dynamo removes in torch 2.0 and 2.1, when it first compiles
anything.

Without this, the steps of an eager ``optimizer.step()`` next to a compiled model would not be seen. A step
that is itself compiled stays without hooks, so that its graph is not broken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import patching
from .compiler import is_compiling

FIXED = (2, 2)
"""Dynamo does not remove the hooks from this version on."""


def install() -> None:
    """Restore the hooks now, and whenever Dynamo removes them."""
    if tuple(map(int, torch.__version__.split(".")[:2])) >= FIXED:
        return
    from torch._dynamo.eval_frame import TorchPatcher

    put_back()
    patching.replace(TorchPatcher, "patch", _watch_patch)


def _watch_patch(original: Any) -> Any:
    def patch() -> None:
        original.__func__()
        try:
            put_back()
        except Exception as error:
            patching.report_error("hooks", error)

    return staticmethod(patch)


def put_back() -> None:
    """Restore the hooks of every ``step`` that torch marks as hooked and that calls none."""
    base: Any = torch.optim.Optimizer
    theirs = base.profile_hook_step(put_back).__code__
    for cls in patching.subclasses_with(base, "step"):
        step = vars(cls)["step"]
        if getattr(step, "hooked", False) and getattr(step, "__code__", None) not in (theirs, _OURS):
            setattr(cls, "step", _hooked(step))  # noqa: B010 - a type has no such attribute for mypy


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    with_hooks = torch.optim.Optimizer.profile_hook_step(step)

    @functools.wraps(step)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (step if is_compiling() else with_hooks)(self, *args, **kwargs)

    return guarded


_OURS = _hooked(put_back).__code__
