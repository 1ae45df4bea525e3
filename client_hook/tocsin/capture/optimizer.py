"""Capture optimizer steps: learning rates, what was stepped, and gradients cleared without a step.

torch's global step hooks run for every optimizer, also for those made before. A scaled step that is skipped
does not reach them (see ``scaler.py``). A subclass that calls ``super().step()`` runs them twice; if a step
raises, the hook after it does not run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ..lifecycle.first_training import running_hook
from . import compiler, compiler_use, evaluation, patching, process_group, step_hooks, zero_steps
from .backward_steps import depth
from .compiler import is_compiling as _is_compiling
from .compiler import leave_out, switch
from .gradients import install_deepspeed, install_sharded, kept_norm, own_norm
from .optimizer_tracker import BEFORE, OptimizerTracker
from .reading import read
from .restored_steps import allocates_state, loaded
from .wrappers import is_whole


def install() -> None:
    """Watch every optimizer of the process."""
    _sweep()
    patching.undo_later(_sweep_unless_within)
    compiler_use.install()
    step_hooks.install()
    zero_steps.install()
    _handles.append(_register(_eager(_before_step)))
    _handles.append(register_optimizer_step_post_hook(_eager(_after_step)))
    patching.replace_in_all(torch.optim.Optimizer, "zero_grad", _watch_zero_grad)
    patching.replace(torch.nn.Module, "zero_grad", _watch_module_zero_grad)
    patching.replace(torch.optim.Optimizer, "__init__", _watch_init)
    evaluation.install()
    process_group.install()
    patching.replace_in_all(torch.optim.Optimizer, "load_state_dict", _watch_load)


def _register(hook: Callable[..., None]) -> Any:
    """Register a hook before each step, the one that runs included; return its handle."""
    handle = running_hook()
    if handle is None:
        return register_optimizer_step_pre_hook(hook)
    handle.hooks_dict_ref()[handle.id] = hook
    return handle


def _sweep_unless_within() -> Any:
    """Remove the hooks, but not during a step, because torch iterates over them then."""
    return patching.LATER if _within else _sweep()


def _sweep() -> None:
    while _handles:
        _handles.pop().remove()


_clears = torch.optim.Optimizer.zero_grad
"""torch's own function, which clears the gradients of any object with parameter groups."""
_handles: list[Any] = []
_within: list[int] = []
"""One entry for each of our hooks that may end a run now, on any thread. Hooks are removed only when it is
empty."""


def _eager(hook: Callable[..., None]) -> Any:
    """Return ``hook`` excluded from compilation, because a traced hook would not run."""
    try:
        return leave_out(hook)
    except Exception:
        return hook


# -- step


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    before = switch(None) if compiler.used else None
    for ledger in patching.attached:
        try:
            tracker = ledger.only
            if tracker is None or tracker.ref() is not optimizer:
                tracker = ledger.tracker(optimizer)
            if tracker is not None:
                _enter(ledger, tracker, optimizer, args, kwargs)
        except Exception as error:
            _within.append(0)  # the last error detaches the ledger
            ledger.report_error("before step", error)
            _within.pop()
    if before is not None:
        switch(before)


def _enter(ledger: Any, tracker: OptimizerTracker, optimizer: Any, args: Any, kwargs: Any) -> None:
    if tracker.deferred:
        # A step began although another one has not ended: that one raised.
        tracker.deferred, tracker.depth = False, 0
        ledger.record(tracker, 1.0, 0.0, True)
    if tracker.depth and not tracker.closure and tracker.entered != depth.begun:
        tracker.depth = 0  # a backward since a step began that has no closure: that step raised
    tracker.depth += 1
    if tracker.depth > 1:
        return
    tracker.entered = depth.begun
    tracker.thread = get_ident()
    if ledger.only is None and ledger.is_within_another(tracker):
        tracker.nested = True
        _lend_rates(ledger, tracker, optimizer)
        return
    if not tracker.number and not tracker.losses and allocates_state():
        tracker.nested = True
        return
    given = args[1] if len(args) > 1 else kwargs.get("closure") if kwargs else None
    tracker.closure = given is not None and callable(given)
    if not tracker.number and not (depth.threads and ledger.primary is not None):
        ledger.first_step(tracker)
    if not tracker.in_scaler:
        tracker.read_rates(optimizer, read)
    if tracker.norm is not None:
        return
    if tracker.sample:
        tracker.look_for_changes()
    if not tracker.closure and ledger.norm_due(tracker):
        grad_scale = getattr(optimizer, "grad_scale", None)
        own_norm(ledger, tracker, optimizer, None if grad_scale is None else read(grad_scale))


def _lend_rates(ledger: Any, tracker: OptimizerTracker, optimizer: Any) -> None:
    """Give the rates of an inner optimizer to an outer one whose parameter groups have none."""
    for outer in ledger.trackers.values():
        if outer.depth and not outer.lr_groups and outer is not tracker and tracker.params <= outer.params:
            tracker.read_rates(optimizer, read)
            outer.lrs, outer.lr_groups = tracker.lrs, tracker.lr_groups


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    before = switch(None) if compiler.used else None
    _within.append(0)
    for ledger in patching.attached:
        try:
            tracker = ledger.only
            if tracker is None or tracker.ref() is not optimizer:
                tracker = ledger.tracker(optimizer)
            if tracker is not None and tracker.depth:
                _leave(ledger, tracker, optimizer)
        except Exception as error:
            ledger.report_error("after step", error)
    _within.pop()
    if before is not None:
        switch(before)


def _leave(ledger: Any, tracker: OptimizerTracker, optimizer: Any) -> None:
    tracker.depth -= 1
    if tracker.depth:
        tracker.deferred = True
        return
    tracker.deferred = False
    if tracker.nested:
        tracker.nested = False
        tracker.reset()
        return
    if tracker.in_scaler:
        tracker.fired = True
        return
    if tracker.closure and ledger.norm_due(tracker):
        own_norm(ledger, tracker, optimizer, None)
    if tracker.outer != () and tracker.norm_from != "clip":
        norm = kept_norm(tracker, optimizer)
        if norm is not None:
            tracker.norm, tracker.norm_from, tracker.norm_timing = norm, "clip", BEFORE
    ledger.record(tracker, 1.0, 0.0)


# -- zero_grad


def _watch_zero_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    """Watch ``zero_grad``, except that of a wrapper, which calls that of its optimizer."""
    passes_on = original is not _clears

    @functools.wraps(original)
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_compiled = compiler.used and _is_compiling()
        if not is_compiled and patching.attached and not (passes_on and not is_whole(self)):
            before = switch(None) if compiler.used else None
            for ledger in patching.attached:
                try:
                    tracker = ledger.only
                    if tracker is None or tracker.losses or tracker.open or tracker.ref() is not self:
                        _zeroed(ledger, self)
                    else:
                        tracker.thread = get_ident()
                except Exception as error:
                    ledger.report_error("zero_grad", error)
            if before is not None:
                switch(before)
        return original(self, *args, **kwargs)

    return zero_grad


def _zeroed(ledger: Any, optimizer: Any) -> None:
    tracker = ledger.tracker(optimizer)
    if tracker is None:
        return
    tracker.thread = get_ident()
    if tracker.losses or tracker.open:
        ledger.cleared(tracker)


def _watch_module_zero_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (compiler.used and _is_compiling()) and patching.attached:
            before = switch(None) if compiler.used else None
            for ledger in patching.attached:
                try:
                    first = next(iter(self.parameters()), None)
                    for tracker in ledger.owner([first]) if first is not None else ():
                        optimizer = tracker.ref()
                        if optimizer is not None and id(first) in tracker.params:
                            _zeroed(ledger, optimizer)
                except Exception as error:
                    ledger.report_error("zero_grad", error)
            if before is not None:
                switch(before)
        return original(self, *args, **kwargs)

    return zero_grad


# -- new optimizers


def _watch_init(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        for ledger in patching.attached:
            try:
                install_sharded()
                install_deepspeed()
                zero_steps.install()
                ledger.tracker(self)
            except Exception as error:
                ledger.report_error("new optimizer", error)

    return initialize


def _watch_load(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, state_dict, *args, **kwargs)
        for ledger in patching.attached:
            try:
                loaded(ledger, self, state_dict)
            except Exception as error:
                ledger.report_error("load_state_dict", error)
        return result

    return load_state_dict
