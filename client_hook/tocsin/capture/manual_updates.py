"""Capture steps of scripts that update their weights without a torch optimizer.

Examples are ``p.data.add_(p.grad, alpha=-lr)`` and libraries with their own optimizer classes. Nothing
announces such a step, so it is recognized by its effect: a weight that the backward reaches has changed since
the previous backward. A few weights (probes) are compared before each backward, by their version counters and
by samples of their values, because changes through ``p.data`` do not increase the counter. On a device the
comparison is queued there and read when it has arrived. CONFIRM changes are needed before anything is
recorded.

A script with a torch optimizer has almost none of this cost: the search ends at the first weight of a known
optimizer, and is over after its first step.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic, monotonic_ns, sleep
from typing import Any

import torch
from torch import Tensor

from .gradients import own_norm
from .ledger import MAX_UNASSIGNED, Ledger
from .live_objects import has_too_many_objects
from .optimizer_tracker import Loss, OptimizerTracker
from .reading import CUDA, capturing, differ_later, read, version_of
from .staging import DRAIN_S

PLAIN = (Tensor, torch.nn.Parameter)
CONFIRM = 3
PROBES = 4
SAMPLE = 256
"""Elements that are compared of each probe."""
IDLE = 4
"""Unchanged boundaries before other weights are searched for: the first backward may be of something else."""
NODES = 200_000
SEARCHES = 8
"""Searches for probes per run: scripts that make new leaf tensors at each step lose them each time."""
WAITING = 64
"""Boundaries whose comparison has not arrived from a device yet; with more, the oldest counts as no step."""


KEPT = ("norm", "norm_from", "norm_scaled", "clip", "vector", "lrs", "lr_groups")
"""Values of an attempt that are read before it is known to be a step."""


class ManualUpdate:
    """Stand-in for the optimizer that the script does not have."""

    def __init__(self, params: list[Any]) -> None:
        self._params = [weakref.ref(param) for param in params]
        self.state: dict[Any, Any] = {}
        self.defaults: dict[str, Any] = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Return the weights that still exist, as one group."""
        return [{"params": [param for ref in self._params if (param := ref()) is not None]}]


class Boundary:
    """A boundary between two backwards: the attempt before it, and whether the weights changed."""

    def __init__(self, changed: Callable[[], bool | None], is_cleared: bool) -> None:
        self.at = monotonic_ns()
        self.changed = changed
        """None until the result has arrived from a device."""
        self.is_cleared = is_cleared
        self.losses: list[Loss] = []
        self.values: dict[str, Any] = {}


class ManualUpdates:
    """Detect and record the steps of one run that no torch optimizer makes."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._refs: list[Any] = []
        self._marks: list[tuple[int, Tensor]] = []
        self._grads: list[tuple[int, float]] = []
        self._waiting: deque[Boundary] = deque()
        self._confirmed: list[Boundary] = []
        self._optimizer: ManualUpdate | None = None
        self._searches = 0
        self._idle = 0
        """Boundaries in a row without a change."""
        self._draft: OptimizerTracker | None = None
        """Collects norms and rates until it is known that there are steps."""
        self._holder: Any = lambda: None
        """Weak reference to another library's optimizer object that holds these weights."""
        self.tracker: OptimizerTracker | None = None
        ledger.add_inspector(self.see)

    # -- before each backward

    def see(self, tensors: Any, scaled: bool) -> None:
        """Compare the weights with those before the last backward; search for weights to compare first."""
        ledger = self._ledger
        if CUDA and capturing():
            return
        if ledger.quiet or self._is_replaced():
            self.stop()
        elif not self._refs:
            self._search(tensors)
        else:
            self.boundary()
            if self.tracker is None and self._idle >= IDLE:
                self._give_up()
                self._search(tensors)

    def boundary(self) -> None:
        """Check for a step, because the gradients were cleared or the next backward begins."""
        probes = self._probes()
        if probes is None:
            self._give_up()
            return
        found = Boundary(self._compare(probes), self._is_cleared(probes))
        self._take(found)
        self._waiting.append(found)
        self._settle()

    def after_backward(self) -> None:
        """Save the gradients' state after a backward, and compute their norm if one is due."""
        ledger, tracker, probes = self._ledger, self.tracker or self._draft, self._probes()
        self._grads = [_grad_of(probe) for probe in probes or ()]
        if tracker is None or self._optimizer is None:
            return
        if tracker.norm_from != "clip":
            tracker.norm = None
        if not self._confirmed and ledger.norm_due(tracker):
            own_norm(ledger, tracker, self._optimizer, tracker.losses[-1].scale if tracker.losses else None)
        holder = self._holder()
        if holder is not None:
            tracker.read_rates(holder, read)

    def clipped(self, norm: Any, clip: Any) -> None:
        """Record a clip that happens before it is known whether the script makes steps."""
        if self._draft is not None:
            self._ledger.clipped(self._draft, norm, clip)

    # -- the search

    def _search(self, tensors: Any) -> None:
        self._searches += 1
        if self._searches > SEARCHES or self._is_sharded():
            self.stop()
            return
        losses = tensors if isinstance(tensors, (tuple, list)) else [tensors]
        known = {key for one in self._ledger.trackers.values() for key in one.params}
        leaves = leaves_of([getattr(loss, "grad_fn", None) for loss in losses], known)
        if leaves is None:
            self._searches -= 1  # a torch optimizer owns them: the search is cheap and ends at its first step
        elif leaves:
            self._begin(leaves)

    def _is_sharded(self) -> bool:
        """Return whether an optimizer holds parts of weights (FSDP2), so that it does not own a graph's
        leaves.
        """
        probes = [probe for one in self._ledger.trackers.values() for probe in one.probes]
        return any(type(probe) not in PLAIN for probe in probes)

    def _begin(self, leaves: list[Any]) -> None:
        count = min(len(leaves), PROBES)
        places = sorted({k * (len(leaves) - 1) // max(count - 1, 1) for k in range(count)})
        self._refs = [weakref.ref(leaves[place]) for place in places]
        self._marks = [_mark(leaves[place]) for place in places]
        self._optimizer = ManualUpdate(leaves)
        self._draft = OptimizerTracker(weakref.ref(self._optimizer))
        if self._searches == 1:
            self._holder = holder_of(leaves[0])
        self._ledger.manual = self
        self._ledger.recount()

    def _probes(self) -> list[Any] | None:
        """Return the probes, or None if one of them or its memory no longer exists."""
        probes = [ref() for ref in self._refs]
        return probes if all(probe is not None and _is_comparable(probe) for probe in probes) else None

    def _is_replaced(self) -> bool:
        """Return whether a torch optimizer makes the steps after all."""
        trackers = [one for one in self._ledger.trackers.values() if one is not self.tracker]
        if self.tracker is None:
            probes = {id(ref()) for ref in self._refs}
            return any(one.number or not one.params.isdisjoint(probes) for one in trackers)
        mine = self.tracker.params
        return any(one.number and not one.params.isdisjoint(mine) for one in trackers)

    def _give_up(self) -> None:
        """Discard the attempts of these weights, because they no longer exist or others are trained."""
        if self.tracker is not None:
            self.stop()
            return
        self._return_losses()
        self._refs, self._marks, self._grads, self._idle = [], [], [], 0
        self._optimizer = self._draft = None

    def stop(self) -> None:
        """Stop searching and comparing. May be called again."""
        ledger = self._ledger
        ledger.remove_inspector(self.see)
        self._return_losses()
        # also frees the object that performs the steps
        self._refs, self._optimizer, self._draft = [], None, None
        if ledger.manual is self:
            ledger.manual = None
            ledger.recount()

    def _return_losses(self) -> None:
        """Return losses that never became a record to the orphans."""
        ledger = self._ledger
        held = [loss for one in (*self._confirmed, *self._waiting) for loss in one.losses]
        self._confirmed, self._waiting = [], deque()
        if self.tracker is None:
            ledger.unassigned[:0] = held
            del ledger.unassigned[:-MAX_UNASSIGNED]

    # -- detecting a step

    def _compare(self, probes: list[Any]) -> Callable[[], bool | None]:
        before, self._marks = self._marks, [_mark(probe) for probe in probes]
        if any(one[0] != other[0] for one, other in zip(before, self._marks, strict=True)):
            return lambda: True
        pairs = [(one[1], other[1]) for one, other in zip(before, self._marks, strict=True)]
        if any(one.shape != other.shape or one.device != other.device for one, other in pairs):
            return lambda: True
        on_device = [pair for pair in pairs if not pair[0].is_cpu]
        host = any(not torch.equal(one, other) for one, other in pairs if one.is_cpu)
        if host or not on_device:
            return lambda: host
        return differ_later(on_device)

    def _is_cleared(self, probes: list[Any]) -> bool:
        """Return whether the gradients have changed since the end of the last backward."""
        now = [_grad_of(probe) for probe in probes]
        return all(key == 0 for key, _ in now) or bool(self._grads and now != self._grads)

    def _take(self, boundary: Boundary) -> None:
        """Assign the current attempt to the boundary after it."""
        tracker = self.tracker or self._draft
        if self.tracker is None:
            boundary.losses, self._ledger.unassigned = self._ledger.unassigned, []
        if tracker is not None:
            boundary.losses += tracker.losses
            boundary.values = {name: getattr(tracker, name) for name in KEPT}
            tracker.losses = []
            tracker.reset()

    def _settle(self, *, at_end: bool = False) -> None:
        """Record or drop, in order, the attempts whose result has arrived."""
        while self._waiting:
            boundary = self._waiting[0]
            changed = boundary.changed()
            if changed is None:
                if len(self._waiting) <= WAITING:
                    break
                changed = False
            self._waiting.popleft()
            self._idle = 0 if changed else self._idle + 1
            if changed and boundary.losses:
                self._stepped(boundary)
            elif not boundary.is_cleared and not at_end:
                self._carry(boundary)

    def _carry(self, boundary: Boundary) -> None:
        """Treat the attempt as a micro-step: add its loss to the next attempt."""
        if self._waiting:
            following = self._waiting[0].losses
        else:
            following = self._ledger.unassigned if self.tracker is None else self.tracker.losses
        following[:0] = boundary.losses

    def _stepped(self, boundary: Boundary) -> None:
        if self.tracker is None:
            self._confirmed.append(boundary)
            if len(self._confirmed) >= CONFIRM:
                self._confirm()
            return
        self._record(boundary)

    def _confirm(self) -> None:
        ledger = self._ledger
        self.tracker = ledger.track(self._optimizer)
        self.tracker.reached = True
        if self._draft is not None:
            self.tracker.user_clips, self.tracker.layers = self._draft.user_clips, self._draft.layers
            self._draft = None
        confirmed, self._confirmed = self._confirmed, []
        self.tracker.losses, ledger.unassigned = ledger.unassigned, []
        for one in confirmed:
            self._record(one)

    def _record(self, boundary: Boundary) -> None:
        tracker = self.tracker
        assert tracker is not None
        kept = tracker.losses
        tracker.losses = boundary.losses
        for name, value in boundary.values.items():
            setattr(tracker, name, value)
        self._ledger.record(tracker, 1.0, 0.0, at=boundary.at)
        tracker.losses = kept

    def finish(self) -> None:
        """Record the last step at the end of the run, and wait for results from a device."""
        if not self._refs or self._is_replaced():
            return
        self.boundary()
        until = monotonic() + DRAIN_S
        while self._waiting and monotonic() < until:
            sleep(0.001)
            self._settle(at_end=True)


def holder_of(leaf: Any) -> Callable[[], Any]:
    """Return a weak reference to the object that looks like an optimizer and has ``leaf`` in its groups.

    All tracked objects are searched once. Their classes are checked for ``step`` and ``zero_grad`` first,
    because attributes of an object may run code.
    """
    shaped: dict[type, bool] = {}
    for one in () if has_too_many_objects() else gc.get_objects():
        cls = type(one)
        if cls not in shaped:
            defined = {name for base in cls.__mro__ for name in vars(base)}
            shaped[cls] = {"step", "zero_grad"} <= defined and not issubclass(cls, torch.nn.Module)
        if shaped[cls] and _holds(one, leaf):
            return weakref.ref(one)
    return lambda: None


def _holds(one: Any, leaf: Any) -> bool:
    try:
        weakref.ref(one)
        return any(param is leaf for group in one.param_groups for param in group["params"])
    except Exception:
        return False


def leaves_of(roots: Iterable[Any], known: set[int]) -> list[Any] | None:
    """Return the weights that a loss reaches: its parameters, or all leaf tensors if none is one.

    None as soon as one of them is in ``known``, the ids of the known optimizers' weights, or is FSDP1's.
    """
    waiting = [root for root in roots if root is not None]
    seen, found = set(waiting), list[Any]()
    while waiting and len(seen) < NODES:
        node = waiting.pop()
        if node.name().endswith("AccumulateGrad"):
            leaf = node.variable
            if id(leaf) in known or hasattr(leaf, "_is_flat_param"):
                return None
            if _is_comparable(leaf):
                found.append(leaf)
            continue
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)
    parameters = [leaf for leaf in found if isinstance(leaf, torch.nn.Parameter)]
    return parameters or found


def _is_comparable(leaf: Any) -> bool:
    """Return whether its values are in memory, on a device that the hook may use."""
    return type(leaf) in PLAIN and (leaf.is_cpu or leaf.is_cuda) and leaf.untyped_storage().size() > 0


def _mark(probe: Any) -> tuple[int, Tensor]:
    """Return the version counter and a sample of the values."""
    flat = probe.detach().reshape(-1)
    return probe._version, flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].clone()


def _grad_of(probe: Any) -> tuple[int, float]:
    """Return the id of its gradient and its version counter; (0, 0) if it has none."""
    grad = probe.grad
    return (0, 0) if grad is None else (id(grad), version_of(grad))
