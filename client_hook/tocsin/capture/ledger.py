"""Track the optimizers of one run and create its records.

The capture modules call the ledger with values that are already read (floats or device scalars). The ledger
decides which values belong to which optimizer, what counts as a step, and what its record contains. It never
waits for a device.

A loss belongs to the optimizers whose gradients its backward changed. To detect that, a few parameters of
each optimizer (its probes) are compared before and after the backward. A loss that changed no known
optimizer's gradients is an orphan: it is assigned to the next optimizer that never had a loss, or else
reported as ``loss/<i>``.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping
from math import isfinite
from time import monotonic_ns
from typing import Any, Protocol

from ..system.checkpoints import CheckpointWatch
from . import reading
from .accumulation import BATCH, DIVIDED, ITEMS, total_share, why_parts
from .backward_steps import Gathered, close, depth
from .compiler import traced
from .naming import OptimizerNaming
from .observers import EvaluationObserver, NormObserver, UpdateObserver
from .optimizer_tracker import (
    HAS_DATA,
    HAS_FOUND_INF,
    HAS_LOSS,
    HAS_NORM,
    HAS_SCALE,
    HAS_SUM,
    HAS_TIME,
    LOOK_EVERY,
    LOOKED_AT,
    Loss,
    Marks,
    OptimizerTracker,
    fold,
    total_of,
)
from .reading import CUDA, capturing, read, version_of
from .restored_steps import steps_of
from .step_order import begins, count_turn
from .step_scheduler import StepScheduler, norm_every
from .wrappers import inner_of, is_whole

MAX_UNASSIGNED = 64
LOSSES = 4096
"""If more losses wait for one step, they are folded into one sum."""
BACKWARDS, MICRO_STEPS = 40, 200
"""Backward passes without a step before this is reported: without a known optimizer, and with one."""
DOUBTS = 3
"""Steps in a row whose losses must come from one batch before whole losses are reclassified as parts."""
CLIP_CHANGES = 8
"""A clipping threshold that changes more often is adaptive, and its changes are no longer reported."""

Seen = list[tuple[OptimizerTracker, Marks]]
Inspector = Callable[[Any, bool], None]


class Reporter(Protocol):
    """Destination of records and events: the run's ``RunReporter``."""

    offset_ns: int
    paused_ns: int
    phases: list[str]
    inbox: deque[Any]

    put: Callable[[tuple[Any, ...]], None]

    def stage(self, item: tuple[Any, ...], note: str | None) -> None: ...

    def reserve_names(self, names: tuple[str, ...]) -> None: ...

    def add_to_next_record(self, values: Mapping[str, float]) -> None: ...

    def put_event(self, kind: str, data: dict[str, Any], step: int | None = None) -> None: ...

    def report_error(self, where: str, error: Exception) -> None: ...

    def warn(self, text: str) -> None: ...

    def deliver_messages(self) -> None: ...


class Ledger:
    """The optimizers of one run, its step count, and its records."""

    def __init__(
        self,
        reporter: Reporter,
        *,
        optimizers: Mapping[str, Any] | None = None,
        scalers: Mapping[str, Any] | None = None,
        primary: Any = None,
        grad_norm: str | int | bool = "auto",
        start_step: int | None = None,
    ) -> None:
        self.reporter = reporter
        self.trackers: dict[int, OptimizerTracker] = {}
        self.members: dict[int, OptimizerTracker] = {}
        """Optimizers that step inside a backward and whose steps are part of another optimizer's step."""
        self.gathered: Gathered = {}
        self.wrappers: dict[int, tuple[Any, Any]] = {}
        """id of a wrapper -> weak references to it and to the optimizer inside it."""
        self.only: OptimizerTracker | None = None
        self.unassigned: list[Loss] = []
        self.primary: OptimizerTracker | None = None
        self.lead: OptimizerTracker | None = None
        """The optimizer whose steps are counted: the primary, or another one while it trains alone."""
        self.step = (start_step or 0) - 1
        """Step of the primary's newest record; ``start_step - 1`` before the first."""
        self.coming = start_step or 0
        """Step of a value that is logged now: the next one after a backward, else the newest."""
        self.start_known = start_step is not None
        self._waiting: list[tuple[OptimizerTracker, tuple[Any, ...], str | None]] = []
        """First records, with their scaler, of optimizers that may begin to train alone; see ``release``."""
        self.checkpoints: CheckpointWatch | None = None
        """Reports what the script saves; None where nothing is reported."""
        self.quiet = False
        """Whether the script reports its steps itself (``run.step``)."""
        self.norm_every = norm_every(grad_norm)
        self.norm_adapts = grad_norm == "auto"
        self.step_scheduler = StepScheduler()
        self.data_ns, self.loads = 0, 0
        """Time spent waiting for data since the newest record; batches that DataLoaders returned."""
        self.layers: NormObserver | None = None
        """Receives each record and the vectors of norms before it."""
        self.weights: Any = None
        self.on_explicit_steps: Callable[[bool], None] = lambda is_scaled: None
        self.alive: list[Any] | None = None
        self.backwards = 0
        """Backward passes before the first step of any optimizer."""
        self.on_no_steps: Callable[[int], None] = lambda backwards: None
        """Called when there are BACKWARDS or MICRO_STEPS of them."""
        self.on_finished: Callable[[], None] = lambda: None
        """Called when the run ends without an error."""
        self.inspectors: tuple[Inspector, ...] = ()
        """Called before each backward with its losses and whether a scaler scaled them."""
        self.evaluation: EvaluationObserver | None = None
        self.manual: UpdateObserver | None = None
        """Detects steps without a torch optimizer, as long as there may be any."""
        self._naming = OptimizerNaming(self, primary, optimizers or {})
        self.scales_on_device: dict[str, Any] = {}  # scaler -> its scale, which updates write in place
        self.scaler_names = {id(one): name for name, one in (scalers or {}).items()}
        self._only_given = bool(optimizers)
        for one in (optimizers or {}).values():
            self.tracker(one)

    # -- optimizers

    def tracker(self, optimizer: Any) -> OptimizerTracker | None:
        """Return the state of ``optimizer``, or None if ``optimizers=`` does not include it."""
        known = self.trackers.get(id(optimizer)) or self.members.get(id(optimizer))
        if known is not None and known.ref() is optimizer:
            return known
        if not is_whole(optimizer):
            inner = self._behind(optimizer)
            return None if inner is None else self.tracker(inner)
        if self._only_given and id(optimizer) not in self._naming.given:
            return None
        return self.track(optimizer)

    def track(self, optimizer: Any) -> OptimizerTracker:
        """Return a new state for an optimizer, or for an object that stands in for one."""
        key = id(optimizer)
        fresh = OptimizerTracker(weakref.ref(optimizer, lambda _: self._forget(key)))
        fresh.look()
        self.trackers[key] = fresh
        self.recount()
        return fresh

    def add_inspector(self, inspector: Inspector) -> None:
        """Call ``inspector`` before each backward from now on."""
        self.inspectors += (inspector,)

    def remove_inspector(self, inspector: Inspector) -> None:
        """Stop calling ``inspector``. May be called again."""
        self.inspectors = tuple(one for one in self.inspectors if one != inspector)

    def _behind(self, wrapper: Any) -> Any:
        """Return the optimizer inside a wrapper; the search runs once."""
        key = id(wrapper)
        known = self.wrappers.get(key)
        if known is not None and known[0]() is wrapper:
            return known[1]()
        inner = inner_of(wrapper)
        if inner is not None:
            gone = weakref.ref(wrapper, lambda _: self.wrappers.pop(key, None))
            self.wrappers[key] = gone, weakref.ref(inner)
        return inner

    def peers_of(self, tracker: OptimizerTracker) -> tuple[OptimizerTracker, ...]:
        """Return the other optimizers that share parameters with it: an outer, inner or replaced one."""
        if tracker.peers is None:
            tracker.peers = tuple(
                one
                for one in self.trackers.values()
                if one is not tracker and not one.params.isdisjoint(tracker.params)
            )
        return tracker.peers

    def recount(self) -> None:
        """Set ``only``: the one optimizer, if it has probes and there is no other kind of step."""
        trackers = list(self.trackers.values())
        for one in trackers:
            one.peers = None
        is_one = len(trackers) == 1 and self.manual is None
        self.only = trackers[0] if is_one and trackers[0].probes else None

    def _forget(self, key: int) -> None:
        for known in (self.trackers, self.members):
            gone = known.get(key)
            if gone is not None and gone.ref() is None:
                gone.probes, gone.params = (), frozenset()
                del known[key]
                self.recount()

    def add_member(self, tracker: OptimizerTracker, lead: OptimizerTracker) -> int:
        """Add an optimizer that steps inside a backward as part of ``lead``; return its position."""
        if tracker is lead:
            return -1
        key = id(tracker.ref())
        if self.members.get(key) is not tracker:
            self.trackers.pop(key, None)
            self.members[key] = tracker
            self.recount()
            tracker.place = len(self.members)
        return tracker.place

    def owns(self, scaler: Any) -> bool:
        """Return whether this run has used ``scaler``, or may: one that nothing was scaled with yet."""
        return id(scaler) in self.scaler_names or getattr(scaler, "_scale", None) is None

    def scaler_name(self, scaler: Any) -> str:
        """Return the given name of ``scaler``, else ``scaler1``, ``scaler2`` in the order of first use."""
        name = self.scaler_names.get(id(scaler))
        if name is None:
            name = f"scaler{len(self.scaler_names) + 1}"
            self.scaler_names[id(scaler)] = name
        return name

    def is_within_another(self, tracker: OptimizerTracker) -> bool:
        """Return whether an outer optimizer (ZeRO, Lookahead) is making a step of its parameters.

        The steps of such an inner optimizer are part of the outer one's step.
        """
        return any(
            one.depth and one is not tracker and tracker.params <= one.params
            for one in self.trackers.values()
        )

    def name_of(self, tracker: OptimizerTracker) -> str:
        """Return its name. The first call makes it the primary, unless another one was requested."""
        return self._naming.name_of(tracker)

    def first_step(self, tracker: OptimizerTracker) -> None:
        """Name it. A primary that was restored from a checkpoint continues its step count approximately.

        So does an optimizer that steps before that primary.
        """
        self.name_of(tracker)
        counted = tracker if tracker is self.primary else self._naming.awaited
        if counted is None or self.start_known:
            return
        self.start_known = True
        optimizer = counted.ref()
        done = 0 if optimizer is None else steps_of(optimizer) or counted.restored
        if done > 0:
            self.step, self.coming = done - 1, done
            self.reporter.put_event("start-step", {"step": done, "approximate": True}, done)

    def report_error(self, where: str, error: Exception) -> None:
        """Report an internal error of a callback. Never raises."""
        self.reporter.report_error(where, error)

    def continue_at(self, step: int) -> None:
        """Continue after ``step``, because a checkpoint was loaded."""
        self.release()
        self.step, self.coming, self.start_known = step, max(step, 0), True

    @property
    def untouched(self) -> bool:
        """Return whether neither a backward nor a step has been seen yet."""
        return not self.unassigned and not any(one.number or one.losses for one in self.trackers.values())

    # -- losses

    def before_backward(self) -> Seen:
        """Return this thread's gradients before a backward; detect those that were cleared by hand."""
        mine = [one for one in self.trackers.values() if not depth.belongs_to_another_thread(one)]
        seen = [(one, one.marks()) for one in mine]
        for tracker, marks in seen:
            if tracker.losses and tracker.reached and all(grad is None for grad in marks[0]):
                self.cleared(tracker, in_backward=True)
        return seen

    def count_backward(self, reached: bool) -> None:
        """Count a backward before the first step. ``reached``: it gave gradients to a known optimizer.

        Such backwards may be micro-steps of one large step; others will never lead to a step.
        """
        self.backwards += 1
        if self.backwards == (MICRO_STEPS if reached else BACKWARDS) and not self.quiet:
            self.on_no_steps(self.backwards)

    def after_one(self, tracker: OptimizerTracker, marks: Marks | None, loss: Loss) -> None:
        """Handle a backward like ``after_backward``, for a run with one optimizer.

        Args:
            tracker: State of the only optimizer.
            marks: Its probes' gradients before the backward; None: it had none.
            loss: The loss that was backpropagated.
        """
        if self.gathered:
            close(self, [loss])
            return
        probe = tracker.probes[0]
        if marks is not None or (grad := probe.grad) is None:
            reached = tracker.changed(marks)
        else:
            reached, tracker.gradient_version = True, -1
            if tracker.looks or not tracker.user_clips:  # otherwise changes are not looked for
                tracker.gradient_version, tracker.gradient_id = version_of(grad), id(grad)
        if self.lead is None:
            self.count_backward(reached)
        if not reached:
            self.unassigned.append(loss)
            del self.unassigned[:-MAX_UNASSIGNED]
            return
        losses = tracker.losses
        if tracker.open or len(losses) >= LOSSES:
            self._reach(tracker, [loss])
        else:
            tracker.reached = True
            losses.append(loss)
            if tracker.looks:
                tracker.keep_sample()
        tracker.weights = probe._version
        if self._waiting:
            self.release(tracker)
        self.coming = self.step + 1

    def after_backward(self, seen: Seen, losses: list[Loss]) -> None:
        """Assign the losses to the optimizers whose gradients this backward changed."""
        if self.gathered:
            close(self, losses)
            return
        reached = [tracker for tracker, marks in seen if tracker.changed(marks)]
        if self.lead is None and not any(one.number for one in self.trackers.values()):
            self.count_backward(bool(reached))
        for tracker in reached:
            tracker.backward = depth.begun
            self._reach(tracker, losses)
        if self.manual is not None:
            self.manual.after_backward()
        if not reached:
            self.unassigned.extend(losses)
            del self.unassigned[:-MAX_UNASSIGNED]
        elif self.lead is None or self._has_next_step(reached):
            self.coming = self.step + 1

    def _has_next_step(self, reached: list[OptimizerTracker]) -> bool:
        """Return whether the backward that reached these optimizers belongs to the step after the newest."""
        one = reached[0]
        if len(reached) > 1:
            return False
        if self._waiting:
            self.release(one)
        return one is self.lead or one.is_ahead or begins(one, self.lead)

    def _reach(self, tracker: OptimizerTracker, losses: list[Loss]) -> None:
        if tracker.open and not tracker.depth:
            self.abandon(tracker, in_backward=True)
        tracker.reached = True
        if tracker.probes:
            tracker.weights = tracker.probes[0]._version
            tracker.keep_sample()
        waiting = tracker.losses
        waiting.extend(losses)
        if len(waiting) > LOSSES:
            fold(waiting)

    def cleared(self, tracker: OptimizerTracker, in_backward: bool = False) -> None:
        """Handle zeroed gradients: the step was abandoned, unless another optimizer used the loss."""
        if id(tracker) in self.gathered:
            return
        if self.manual is not None and self.manual.tracker is tracker:
            self.manual.boundary()
            return
        if tracker.depth or tracker.in_scaler:
            # A zero_grad inside a closure: only what follows it counts.
            tracker.losses, tracker.norm, tracker.norm_from = [], None, ""
        elif tracker.is_perturbed():
            # SAM's first pass: its gradient perturbed the weights intentionally and is dropped.
            for one in self.trackers.values():
                if not one.params.isdisjoint(tracker.params):
                    one.reset()
        elif self._is_abandoned(tracker):
            self.abandon(tracker, in_backward)
        else:
            tracker.reset()
            if tracker is self.lead or self.lead is None:
                self.coming = max(self.step, 0)

    def abandon(self, tracker: OptimizerTracker, in_backward: bool = False) -> None:
        """Record an attempt that ends without ``step``, with ``stepped`` 0."""
        tracker.read_rates(tracker.ref(), read)
        tracker.settle()
        self.record(tracker, 0.0, 0.0, in_backward)

    def _is_abandoned(self, tracker: OptimizerTracker) -> bool:
        """Return whether a step was in progress: clipped, unscaled, or with a loss known to be non-finite.

        A backward alone does not count (an evaluation may need gradients of its inputs), nor does one whose
        loss was used by another optimizer of the same parameters.
        """
        mine = [loss for loss in tracker.losses if not loss.used]
        if tracker.open:
            return bool(mine) or not self.peers_of(tracker)
        return any(
            type(loss.value) is float
            and not isfinite(loss.value)
            and not any(loss in one.losses for one in self.trackers.values() if one is not tracker)
            for loss in mine
        )

    def scale_losses(self, factor: Any) -> None:
        """Combine the losses since the last step into their sum, times the factor of the gradients."""
        number = read(factor)
        if number is None:
            return
        for tracker in self.trackers.values():
            losses = tracker.losses
            if losses:
                one = Loss(total_of(losses) * number, losses[-1].scaler, losses[-1].scale)
                if tracker.meaning is None:
                    one.count = sum(loss.count for loss in losses)
                tracker.losses = [one]

    # -- norms

    def clipped(self, tracker: OptimizerTracker, norm: Any, clip: Any) -> bool:
        """Record the norm of a clip; return whether it was the first clip after a backward.

        Others are ignored, such as a norm that is computed again for logging.

        Args:
            tracker: State of the optimizer.
            norm: Total norm before clipping (float or 0-dim tensor).
            clip: The clipping threshold.
        """
        tracker.user_clips = True
        losses = tracker.losses
        if tracker.norm_from == "clip" or (not losses and tracker.reached):
            return False
        tracker.open = tracker.depth == 0
        if tracker.sample or tracker.number < LOOKED_AT:
            tracker.look_for_changes()
        tracker.norm, tracker.norm_from, tracker.norm_scaled, tracker.clip = norm, "clip", False, clip
        if losses and not tracker.unscaled and losses[-1].scaler is not None:
            tracker.norm, tracker.norm_scaled = norm / losses[-1].scale, True
        return True

    def norm_due(self, tracker: OptimizerTracker) -> bool:
        """Return whether to compute the norm of this attempt: at sampled steps, never if there is a clip."""
        if traced.clipped:
            self._clip_is_compiled()
        every = self.norm_every
        if not every or tracker.user_clips or tracker.norm is not None:
            return False
        leads = tracker is self.primary or self.primary is None or bool(depth.threads)
        number = self.step + 1 if leads else tracker.number
        return number % every == 0 and not (CUDA and capturing())

    def _clip_is_compiled(self) -> None:
        """Disable our own norm: a compiled clip hides its norm, and ours would be the norm after clipping."""
        traced.clipped = False
        for tracker in self.trackers.values():
            tracker.user_clips = True
        self.reporter.warn(
            "tocsin: the gradients are clipped inside a compiled function, so their norm cannot be read. "
            "Clip outside of it, or report the norm with run.log(grad_norm=...)."
        )

    def owner(self, params: Any) -> list[OptimizerTracker]:
        """Return the optimizers that own the first or the last of ``params`` (a list of parameters)."""
        if self.only is not None and not self.members:
            return [self.only]
        trackers = [*self.trackers.values(), *self.members.values()]
        if len(trackers) == 1:
            return trackers
        ends = {id(params[0]), id(params[-1])} if params else set()
        for tracker in trackers:
            tracker.look()
        return [tracker for tracker in trackers if not ends.isdisjoint(tracker.params)]

    # -- records

    def record(
        self,
        tracker: OptimizerTracker,
        stepped: Any,
        skipped: Any,
        in_backward: bool = False,
        at: int | None = None,
    ) -> None:
        """Record one attempted step of ``tracker`` and reset its state.

        ``in_backward``: it was detected in the backward of the next attempt, where the script's handlers must
        not be called. ``at``: its time (ns of the monotonic clock), default now. This is one long function
        because it runs with cold caches after torch's own work, so every further call costs time.
        """
        if depth.threads and (not tracker.losses or depth.is_here):
            self.gathered[id(tracker)] = (tracker, stepped, skipped)
            return
        if CUDA and capturing():
            tracker.reset()  # this code runs once, at the capture, and not when the graph is replayed
            return
        now, reporter = monotonic_ns() if at is None else at, self.reporter
        if not tracker.number:
            self.first_step(tracker)
        tracker.number = number = tracker.number + 1
        tracker.looks = number < LOOKED_AT or number % LOOK_EVERY == 0
        if self._waiting:
            self.release(tracker)
        is_primary, must_wait = tracker is self.primary, False
        if is_primary:
            self.lead = tracker
            self.step = step = self.step + 1
        else:
            must_wait, step = self._count(tracker)
        self.coming = step = step if step > 0 else 0
        if self.unassigned:
            self._assign_waiting_losses(tracker)
        values: list[Any] = []
        flags, losses = 0, tracker.losses
        if losses:
            newest = losses[-1]
            if tracker.scale is None:
                tracker.scale, tracker.scaler = newest.scale, newest.scaler
            if newest is losses[0] and tracker.meaning is None:
                newest.used = True
                if tracker is self.only:
                    tracker.spare = newest
                values, flags = [newest.value, newest.count], HAS_LOSS
            else:
                flags = self._loss_values(tracker, values)
        if tracker.norm is not None:
            flags |= HAS_NORM
            values.append(tracker.norm)
            if (
                tracker.norm_from,
                tracker.norm_scaled,
                tracker.norm_timing,
                tracker.clip,
            ) != tracker.reported_source:
                self._report_norm_source(tracker)
        if tracker.scale is not None:
            flags |= HAS_SCALE
            values.append(tracker.scale)
        if tracker.found_inf is not None:
            flags |= HAS_FOUND_INF
            values.append(tracker.found_inf)
        values += (skipped, stepped)
        began = now - reporter.paused_ns
        if tracker.began:
            flags |= HAS_TIME
            values.append((began - tracker.began) * 1e-9)
        tracker.began = began
        if self.data_ns and tracker is self.lead:
            flags |= HAS_DATA
            values.append(self.data_ns * 1e-9)
            self.data_ns = 0
        if not self.quiet:
            if self.layers is not None:
                self.layers.recorded(tracker, step, skipped)
            newest_flags, newest_groups, names = tracker.newest_names
            if flags != newest_flags or tracker.lr_groups is not newest_groups:
                names = self._names_of(tracker, flags)
            item = (step, now + reporter.offset_ns, names, *values, *tracker.lrs)
            if must_wait:
                note = None if type(tracker.scale) is float else tracker.scaler
                self._waiting.append((tracker, item, note))
            elif reading.device_seen and _on_device(item):
                reporter.stage(item, None if type(tracker.scale) is float else tracker.scaler)
            else:
                reporter.put(item)
        if self.unassigned and tracker is self.lead:
            self._report_unassigned(now)
        tracker.fetched = self.loads
        tracker.reset()
        for peer in self.peers_of(tracker) if tracker.peers is None else tracker.peers:
            peer.left = (peer.params if peer.left is None else peer.left) - tracker.params
            if not peer.left:
                peer.reset()
        if is_primary and number >= self.step_scheduler.next:
            self._run_scheduled_calls(number)
        if reporter.inbox and not in_backward and not self.quiet:
            reporter.deliver_messages()

    def _count(self, tracker: OptimizerTracker) -> tuple[bool, int]:
        """Count a step of an optimizer that is not the primary.

        Returns:
            Whether its record must wait, and the step of its record.
        """
        must_wait = begins(tracker, self.lead)
        if count_turn(tracker, self.lead):
            self.lead = tracker
            self.step += 1
        return must_wait, self.step + 1 if tracker.is_ahead and tracker is not self.lead else self.step

    def release(self, tracker: OptimizerTracker | None = None) -> None:
        """Send the waiting first records, once it is known whether their optimizers alternate with the lead.

        ``tracker``: the optimizer that has stepped or got gradients; None at the end of the run. If it is one
        of those that wait, it trains alone, so that its first record is on a new step. If it is the lead or
        the primary, the records share the newest step.
        """
        if tracker is not None and tracker is not self.lead and tracker is not self.primary:
            if all(tracker is not one for one, _, _ in self._waiting):
                return
            self.lead = tracker
            self.step += 1
        waiting, self._waiting = self._waiting, []
        for _, item, note in waiting:
            self._send((max(self.step, 0), *item[1:]), note)

    def _send(self, item: tuple[Any, ...], note: str | None) -> None:
        if reading.device_seen and _on_device(item):
            self.reporter.stage(item, note)
        else:
            self.reporter.put(item)

    def _run_scheduled_calls(self, number: int) -> None:
        for call in self.step_scheduler.take_due(number):
            try:
                call()
            except Exception as error:
                self.report_error("scheduled call", error)

    def _loss_values(self, tracker: OptimizerTracker, values: list[Any]) -> int:
        """Append the loss of several backwards, and their number."""
        losses = tracker.losses
        for loss in losses:
            loss.used = True
        total, count = total_of(losses), sum(loss.count for loss in losses)
        if len(losses) > 1:
            self._read_meaning(tracker, losses)
        if not tracker.meaning:
            values += (total / count, count)
            if count == 1:
                return HAS_LOSS
            values.append(total)
            return HAS_LOSS | HAS_SUM
        part = total_share([loss.share for loss in losses], tracker.meaning)
        whole = not 0.0 < part < 0.999 or tracker.meaning not in (DIVIDED, ITEMS)
        values += (total if whole else total / part, count)
        return HAS_LOSS

    def _read_meaning(self, tracker: OptimizerTracker, losses: list[Loss]) -> None:
        """Decide what several losses of a step are, at the first such step; revise it only on evidence."""
        why = why_parts(losses, self.loads - tracker.fetched)
        known = tracker.meaning
        if known or known == why:
            tracker.doubts = 0
            return
        tracker.doubts += known is not None
        if known is None or why != BATCH or tracker.doubts >= DOUBTS:
            tracker.meaning, tracker.doubts = why, 0
            data = {"count": len(losses), "loss": "sum" if why else "mean", "why": why}
            series = tracker.suffix.removeprefix("/")
            self.reporter.put_event("accumulation", {"series": series, **data}, max(self.step, 0))

    def _names_of(self, tracker: OptimizerTracker, flags: int) -> tuple[str, ...]:
        names = tracker.names.get((flags, tracker.lr_groups))
        if names is None:
            names = tracker.record_names(flags)
            self.reporter.reserve_names(names)
        tracker.newest_names = (flags, tracker.lr_groups, names)
        return names

    def _assign_waiting_losses(self, tracker: OptimizerTracker) -> None:
        """Assign orphaned losses to an optimizer that is new, or whose gradients torch hides."""
        if not tracker.reached and not tracker.losses:
            tracker.losses, self.unassigned = self.unassigned, []

    def _report_unassigned(self, now: int) -> None:
        """Report losses that no optimizer used as ``loss/<i>`` in the primary's record.

        With ``optimizers=``, they belong to the optimizers that were left out.
        """
        unassigned = [loss for loss in self.unassigned if not loss.used]
        self.unassigned = []
        if unassigned and not self.quiet and not self._only_given:
            names = tuple(f"loss/{i}" for i in range(len(unassigned)))
            values = [loss.value for loss in unassigned]
            self.reporter.stage((max(self.step, 0), now + self.reporter.offset_ns, names, *values), None)

    def _report_norm_source(self, tracker: OptimizerTracker) -> None:
        """Send an event if the source of the norm or the clipping has changed."""
        clip = tracker.clip
        source = (tracker.norm_from, tracker.norm_scaled, tracker.norm_timing, clip)
        reported = tracker.reported_source
        if reported is not None and source[:3] == reported[:3]:
            tracker.clips_reported += 1
            if tracker.clips_reported > CLIP_CHANGES:
                return
        tracker.reported_source = source
        series = tracker.suffix.removeprefix("/")
        data = {"optimizer": tracker.name, "series": series, "source": tracker.norm_from, "clip": clip}
        data["taken"] = tracker.norm_timing
        if tracker.norm_scaled:
            data["scaled"] = True
        self.reporter.put_event("grad-norm-source", data, max(self.step, 0))

    def scale_changed(self, scaler: str, before: float, after: float) -> None:
        """Send a scaler event, growth or backoff, at the step after which it happened.

        Args:
            scaler: Name of the scaler.
            before: Scale before the update.
            after: Scale after the update.
        """
        change = "growth" if after > before else "backoff"
        data = {"scaler": scaler, "change": change, "from": before, "to": after}
        self.reporter.put_event("scaler", data, self.coming)


def _on_device(item: tuple[Any, ...]) -> bool:
    """Return whether any value is still on a device."""
    return any(type(value) is not float for value in item[3:])
