"""What one run knows of its optimizers, and the records made of it.

The capture files call this with values already read (floats, or device scalars). It decides
what belongs to which optimizer, what is a step, and what its record says. It never waits for
a device.

Which optimizer a loss belongs to is seen at backward: it is the one whose gradients changed.
A few parameters of each optimizer (its probes) are looked at before and after. A loss that
changed no known optimizer's is an orphan: the next optimizer without a loss ever seen takes
it, else it is reported as ``loss/<i>``.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping
from math import isfinite
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Protocol

from torch.nn import Module

from . import staging
from .appointments import Appointments, norm_every
from .compiling import traced
from .inside import Gathered, close, depth
from .labels import labels
from .restored import steps_of
from .shares import BATCH, DIVIDED, ITEMS, total_share, why_parts
from .staging import CUDA, capturing, read
from .stepper import (
    BEFORE,
    HAS_DATA,
    HAS_FOUND_INF,
    HAS_LOSS,
    HAS_NORM,
    HAS_SCALE,
    HAS_SUM,
    HAS_TIME,
    UNKNOWN,
    Loss,
    Marks,
    Stepper,
    fold,
    total_of,
)
from .wrapping import inner_of, is_whole

ORPHANS = 64
LOSSES = 4096
"""More losses waiting for one step are folded into one sum."""
BACKWARDS, MICRO_STEPS = 40, 200
"""Backward passes without a step before this is reported: without a known optimizer, and with one."""
LOOKED_AT = 8
"""Steps of an optimizer at whose clips it is looked whether the script had changed the gradients before."""
DOUBTS = 3
"""So many steps in a row whose losses come from one batch, before whole ones are called parts."""
LABELLED = 8
"""So many optimizers are named after what they train: each time all living objects are looked through."""
IN_TURN = 8
"""At most so many steps of an optimizer between two of the one that leads are taken in turn with it (a critic
that is trained five times as often); more are a stretch of its own, with steps of its own."""
CLIP_CHANGES = 8
"""A clip threshold that changes more often is adaptive: its changes are no events any more."""

if TYPE_CHECKING:
    from .layers import Layers
    from .manual import Manual

Seen = list[tuple[Stepper, Marks]]
Inspector = Callable[[Any, bool], None]


class Reporter(Protocol):
    """Where records and events go: the run's Watch."""

    offset_ns: int
    paused_ns: int
    phases: list[str]
    inbox: deque[Any]

    put: Callable[[tuple[Any, ...]], None]

    def stage(self, item: tuple[Any, ...], note: str | None) -> None: ...

    def taken(self, names: tuple[str, ...]) -> None: ...

    def ride(self, values: Mapping[str, float]) -> None: ...

    def put_event(self, kind: str, data: dict[str, Any], step: int | None = None) -> None: ...

    def trouble(self, where: str, error: Exception) -> None: ...

    def say(self, text: str) -> None: ...

    def hear(self) -> None: ...


class Ledger:
    """Optimizers of one run, its step count, and the making of records."""

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
        self.steppers: dict[int, Stepper] = {}
        self.members: dict[int, Stepper] = {}
        """Optimizers whose steps, made inside a backward, are part of another one's."""
        self.gathered: Gathered = {}
        self.wrappers: dict[int, tuple[Any, Any]] = {}
        """id of a wrapper -> weak references to it and to the optimizer behind it."""
        self.only: Stepper | None = None
        self.orphans: list[Loss] = []
        self.primary: Stepper | None = None
        self.lead: Stepper | None = None
        """Whose steps are counted: the primary's, or those of another one while it trains alone."""
        self.step = (start_step or 0) - 1
        """Step of the primary's newest record; ``start_step - 1`` before the first."""
        self.coming = start_step or 0
        """Step of a value logged now: the coming one while a backward waits for it, else the newest."""
        self.start_known = start_step is not None
        self.quiet = False
        """Set where the script reports its steps itself (``run.step``)."""
        self.norm_every = norm_every(grad_norm)
        self.norm_adapts = grad_norm == "auto"
        self.appointments = Appointments()
        self.data_ns, self.loads = 0, 0
        """Waited for data since the newest record; batches that came out of DataLoaders."""
        self.layers: Layers | None = None
        """Told of each record and of the vectors of norms before it."""
        self.weights: Any = None
        self.hushed: Callable[[], None] = lambda: None
        self.alive: list[Any] | None = None
        self.backwards = 0
        """Backward passes before the first step of any optimizer."""
        self.unstepped: Callable[[int], None] = lambda backwards: None
        """Called when there were many of them."""
        self.finished: Callable[[], None] = lambda: None
        """Called when the run ends without an error."""
        self.inspectors: tuple[Inspector, ...] = ()
        """Called before each backward with its losses and whether a scaler scaled them."""
        self.manual: Manual | None = None
        """Recognizes steps that no torch optimizer makes, while there may be any."""
        self._wished = primary if isinstance(primary, str) else inner_of(primary) or primary
        self._named = 0
        self._given = {id(inner_of(one) or one): name for name, one in (optimizers or {}).items()}
        self.scales_on_device: dict[str, Any] = {}  # scaler -> its scale, which updates write in place
        self.scaler_names = {id(one): name for name, one in (scalers or {}).items()}
        self._only_given = bool(optimizers)
        for one in (optimizers or {}).values():
            self.stepper(one)

    # -- who there is

    def stepper(self, optimizer: Any) -> Stepper | None:
        """State of ``optimizer``; None where ``optimizers=`` names others only."""
        known = self.steppers.get(id(optimizer)) or self.members.get(id(optimizer))
        if known is not None and known.ref() is optimizer:
            return known
        if not is_whole(optimizer):
            inner = self._behind(optimizer)
            return None if inner is None else self.stepper(inner)
        if self._only_given and id(optimizer) not in self._given:
            return None
        return self.enroll(optimizer)

    def enroll(self, optimizer: Any) -> Stepper:
        """Return the new state of an optimizer, or of what stands in for one."""
        key = id(optimizer)
        fresh = Stepper(weakref.ref(optimizer, lambda _: self._forget(key)))
        fresh.look()
        self.steppers[key] = fresh
        self.recount()
        return fresh

    def inspected_by(self, inspector: Inspector) -> None:
        """Call ``inspector`` before each backward from now on."""
        self.inspectors += (inspector,)

    def uninspected(self, inspector: Inspector) -> None:
        """Call ``inspector`` no more; twice is once."""
        self.inspectors = tuple(one for one in self.inspectors if one != inspector)

    def _behind(self, wrapper: Any) -> Any:
        """The optimizer behind a wrapper, looked for once."""
        key = id(wrapper)
        known = self.wrappers.get(key)
        if known is not None and known[0]() is wrapper:
            return known[1]()
        inner = inner_of(wrapper)
        if inner is not None:
            gone = weakref.ref(wrapper, lambda _: self.wrappers.pop(key, None))
            self.wrappers[key] = gone, weakref.ref(inner)
        return inner

    def peers_of(self, stepper: Stepper) -> tuple[Stepper, ...]:
        """Other optimizers of some of its parameters: one around it or inside it, or one that it replaces."""
        if stepper.peers is None:
            stepper.peers = tuple(
                one
                for one in self.steppers.values()
                if one is not stepper and not one.params.isdisjoint(stepper.params)
            )
        return stepper.peers

    def recount(self) -> None:
        """``only``: the one optimizer with probes, where there is no other and torch makes its steps."""
        steppers = list(self.steppers.values())
        for one in steppers:
            one.peers = None
        is_one = len(steppers) == 1 and self.manual is None
        self.only = steppers[0] if is_one and steppers[0].probes else None

    def _forget(self, key: int) -> None:
        for known in (self.steppers, self.members):
            gone = known.get(key)
            if gone is not None and gone.ref() is None:
                gone.probes, gone.params = (), frozenset()
                del known[key]
                self.recount()

    def enlist(self, stepper: Stepper, lead: Stepper) -> int:
        """One of those that step inside a backward under ``lead``; returns its place among them."""
        if stepper is lead:
            return -1
        key = id(stepper.ref())
        if self.members.get(key) is not stepper:
            self.steppers.pop(key, None)
            self.members[key] = stepper
            self.recount()
            stepper.place = len(self.members)
        return stepper.place

    def scaler_name(self, scaler: Any) -> str:
        """Name of ``scaler`` as given, else ``scaler1``, ``scaler2`` in the order of first use."""
        name = self.scaler_names.get(id(scaler))
        if name is None:
            name = f"scaler{len(self.scaler_names) + 1}"
            self.scaler_names[id(scaler)] = name
        return name

    def is_within_another(self, stepper: Stepper) -> bool:
        """Whether a step of its parameters is under way already: ZeRO, Lookahead and the like wrap it.

        What such an inner optimizer does is part of the outer one's step, no step of its own.
        """
        return any(
            one.depth and one is not stepper and stepper.params <= one.params
            for one in self.steppers.values()
        )

    def name_of(self, stepper: Stepper) -> str:
        """Its name; the first call makes the first to step the primary, if none was wished for."""
        if stepper.name:
            return stepper.name
        optimizer = stepper.ref()
        self._named += 1
        stepper.name = self._given.get(id(optimizer)) or self._label(stepper) or f"opt{self._named}"
        if self._is_primary(stepper, optimizer):
            if self.primary is not None:
                self.primary.append(f"/{self.primary.name}")
            self.primary = stepper
        else:
            stepper.append(f"/{stepper.name}")
        return stepper.name

    def _label(self, stepper: Stepper) -> str:
        """What it trains (``generator``): looked for where there are others, or where one was asked for."""
        if (self.primary is None and not isinstance(self._wished, str)) or self._named > LABELLED:
            return ""
        try:
            from .census import living

            known = {key: one.ref() for key, one in self.steppers.items()}
            alive = [one for one in known.values() if one is not None]
            label = labels(alive, living((Module,))).get(id(stepper.ref()), "")
        except Exception as error:
            self.trouble("label", error)
            return ""
        return "" if any(one.name == label for one in self.steppers.values()) else label

    def _is_primary(self, stepper: Stepper, optimizer: Any) -> bool:
        """The wished one, else the first to step; an optimizer made anew for its parameters takes over."""
        if self._wished is not None:
            return self._wished is optimizer or self._wished == stepper.name
        first = self.primary
        if first is None or first.ref() is None:
            return True
        return not first.depth and not first.in_scaler and not stepper.params.isdisjoint(first.params)

    def first_step(self, stepper: Stepper, optimizer: Any) -> None:
        """Names it; a primary restored from a checkpoint continues its count of steps, approximately."""
        self.name_of(stepper)
        if stepper is not self.primary or self.start_known:
            return
        self.start_known = True
        done = steps_of(optimizer) or stepper.restored
        if done > 0:
            self.step, self.coming = done - 1, done
            self.reporter.put_event("start-step", {"step": done, "approximate": True}, done)

    def trouble(self, where: str, error: Exception) -> None:
        """An internal error of a callback; never raises."""
        self.reporter.trouble(where, error)

    def continue_at(self, step: int) -> None:
        """The newest step was ``step``: a checkpoint was loaded."""
        self.step, self.coming, self.start_known = step, max(step, 0), True

    @property
    def untouched(self) -> bool:
        """No backward and no step was seen yet."""
        return not self.orphans and not any(one.number or one.losses for one in self.steppers.values())

    # -- losses

    def before_backward(self) -> Seen:
        """What every optimizer's gradients are before a backward; notices those cleared by hand."""
        seen = [(stepper, stepper.marks()) for stepper in self.steppers.values()]
        for stepper, marks in seen:
            if stepper.losses and stepper.reached and all(grad is None for grad in marks[0]):
                self.cleared(stepper, amid=True)
        return seen

    def count_backward(self, reached: bool) -> None:
        """One more without a step so far. ``reached``: it gave gradients to a known optimizer.

        Those may be micro-steps of a large step; others will never lead to a step.
        """
        self.backwards += 1
        if self.backwards == (MICRO_STEPS if reached else BACKWARDS) and not self.quiet:
            self.unstepped(self.backwards)

    def after_one(self, stepper: Stepper, marks: Marks | None, loss: Loss) -> None:
        """``after_backward`` for the one optimizer that there is."""
        if self.gathered:
            close(self, [loss])
            return
        reached = stepper.changed(marks)
        if self.lead is None:
            self.count_backward(reached)
        if not reached:
            self.orphans.append(loss)
            del self.orphans[:-ORPHANS]
            return
        if stepper.open or len(stepper.losses) >= LOSSES:
            self._reach(stepper, [loss])
        else:
            stepper.reached = True
            stepper.losses.append(loss)
        stepper.weights = stepper.probes[0]._version
        self.coming = self.step + 1

    def after_backward(self, seen: Seen, losses: list[Loss]) -> None:
        """Gives the losses to the optimizers whose gradients this backward changed."""
        if self.gathered:
            close(self, losses)
            return
        reached = [stepper for stepper, marks in seen if stepper.changed(marks)]
        if self.lead is None and not any(one.number for one in self.steppers.values()):
            self.count_backward(bool(reached))
        for stepper in reached:
            stepper.backward = depth.begun
            self._reach(stepper, losses)
        if self.manual is not None:
            self.manual.after_backward()
        if not reached:
            self.orphans.extend(losses)
            del self.orphans[:-ORPHANS]
        elif self.lead is None or reached == [self.lead]:
            self.coming = self.step + 1

    def _reach(self, stepper: Stepper, losses: list[Loss]) -> None:
        if stepper.open and not stepper.depth:
            self.abandon(stepper, amid=True)
        stepper.reached = True
        if stepper.probes:
            stepper.weights = stepper.probes[0]._version
        waiting = stepper.losses
        waiting.extend(losses)
        if len(waiting) > LOSSES:
            fold(waiting)

    def cleared(self, stepper: Stepper, amid: bool = False) -> None:
        """Its gradients were zeroed: an abandoned step, unless another optimizer used the loss."""
        if id(stepper) in self.gathered:
            return
        if self.manual is not None and self.manual.stepper is stepper:
            self.manual.boundary()
            return
        if stepper.depth or stepper.in_scaler:
            # A closure's own zero_grad: what counts is what comes after it.
            stepper.losses, stepper.norm, stepper.norm_from = [], None, ""
        elif stepper.is_perturbed():
            # SAM's first pass: its gradient moved the weights on purpose, and is dropped.
            for one in self.steppers.values():
                if not one.params.isdisjoint(stepper.params):
                    one.reset()
        elif self._is_abandoned(stepper):
            self.abandon(stepper, amid)
        else:
            stepper.reset()
            if stepper is self.lead or self.lead is None:
                self.coming = max(self.step, 0)

    def abandon(self, stepper: Stepper, amid: bool = False) -> None:
        """An attempt that ends without ``step`` is a record too, with ``stepped`` 0."""
        stepper.read_rates(stepper.ref(), read)
        stepper.settle()
        self.record(stepper, 0.0, 0.0, amid)

    def _is_abandoned(self, stepper: Stepper) -> bool:
        """Whether a step was under way: clipped or unscaled, or of a loss that is known to be not finite.

        A backward alone does not count (an evaluation that needs gradients of its inputs), nor does one whose
        loss an optimizer of the same parameters has used.
        """
        mine = [loss for loss in stepper.losses if not loss.used]
        if stepper.open:
            return bool(mine) or not self.peers_of(stepper)
        return any(
            type(loss.value) is float
            and not isfinite(loss.value)
            and not any(loss in one.losses for one in self.steppers.values() if one is not stepper)
            for loss in mine
        )

    # -- norms

    def clipped(self, stepper: Stepper, norm: Any, clip: Any) -> bool:
        """The first clip after a backward; a clip without one (a norm logged late) says nothing.

        Whether it was that first one.
        """
        stepper.user_clips = True
        if stepper.norm_from == "clip" or (not stepper.losses and stepper.reached):
            return False
        stepper.open = stepper.depth == 0
        if stepper.number < LOOKED_AT and stepper.taken == BEFORE and stepper.is_altered():
            stepper.taken = UNKNOWN
        scaled = bool(stepper.losses) and stepper.losses[-1].scaler is not None and not stepper.unscaled
        stepper.norm = norm / stepper.losses[-1].scale if scaled else norm
        stepper.norm_from, stepper.norm_scaled, stepper.clip = "clip", scaled, clip
        return True

    def norm_due(self, stepper: Stepper) -> bool:
        """Whether this attempt's norm is to be computed by us: sampled by step, never beside a clip."""
        every = self.norm_every
        if traced.clipped:
            self._clip_is_compiled()
        if not every or stepper.user_clips or stepper.norm is not None:
            return False
        leads = stepper is self.primary or self.primary is None or depth.inside
        number = self.step + 1 if leads else stepper.number
        return number % every == 0 and not (CUDA and capturing())

    def _clip_is_compiled(self) -> None:
        """A compiled clip hides the norm, and the gradients it leaves are clipped: ours would be wrong."""
        traced.clipped = False
        for stepper in self.steppers.values():
            stepper.user_clips = True
        self.reporter.say(
            "tocsin: the gradients are clipped inside a compiled function: their norm is not seen. "
            "Clip outside it, or report the norm with run.log(grad_norm=...)"
        )

    def owner(self, params: Any) -> list[Stepper]:
        """The optimizers that own the first or the last of ``params`` (a list of parameters)."""
        if self.only is not None and not self.members:
            return [self.only]
        steppers = [*self.steppers.values(), *self.members.values()]
        if len(steppers) == 1:
            return steppers
        ends = {id(params[0]), id(params[-1])} if params else set()
        for stepper in steppers:
            stepper.look()
        return [stepper for stepper in steppers if not ends.isdisjoint(stepper.params)]

    # -- records

    def record(
        self, stepper: Stepper, stepped: Any, skipped: Any, amid: bool = False, at: int | None = None
    ) -> None:
        """One attempted step of ``stepper`` becomes a record, and nothing waits for it any more.

        ``amid``: noticed in the next attempt's backward, where the script is not to be called. ``at``: when
        it was made, if not now (ns of the monotonic clock). In one piece, because it runs cold after torch's
        own work: each call more is felt.
        """
        if depth.inside and not stepper.losses:
            self.gathered[id(stepper)] = (stepper, stepped, skipped)
            return
        if CUDA and capturing():
            stepper.reset()  # what runs at capture runs once, and not when the graph is replayed
            return
        now, reporter = monotonic_ns() if at is None else at, self.reporter
        if not stepper.number:
            self.first_step(stepper, stepper.ref())
        stepper.number += 1
        if stepper is self.primary or self._leads(stepper):
            self.lead = stepper
            self.step += 1
        step = self.coming = self.step if self.step > 0 else 0
        if self.orphans:
            self._take_orphans(stepper)
        values: list[Any] = []
        flags = self._loss_values(stepper, values) if stepper.losses else 0
        if stepper.norm is not None:
            flags |= HAS_NORM
            values.append(stepper.norm)
            if (stepper.norm_from, stepper.norm_scaled, stepper.taken, stepper.clip) != stepper.told:
                self._tell_source(stepper)
        if stepper.scale is not None:
            flags |= HAS_SCALE
            values.append(stepper.scale)
        if stepper.found_inf is not None:
            flags |= HAS_FOUND_INF
            values.append(stepper.found_inf)
        values += (skipped, stepped)
        began = now - reporter.paused_ns
        if stepper.began:
            flags |= HAS_TIME
            values.append((began - stepper.began) * 1e-9)
        stepper.began = began
        if self.data_ns and stepper is self.lead:
            flags |= HAS_DATA
            values.append(self.data_ns * 1e-9)
            self.data_ns = 0
        if self.layers is not None and not self.quiet:
            self.layers.recorded(stepper, step, stepped, skipped)
        names = stepper.names.get((flags, stepper.lr_groups)) or self._new_names(stepper, flags)
        if not self.quiet:
            item = (step, now + reporter.offset_ns, names, *values, *stepper.lrs)
            if staging.device_seen and _on_device(item):
                reporter.stage(item, None if type(stepper.scale) is float else stepper.scaler)
            else:
                reporter.put(item)
        if self.orphans and stepper is self.lead:
            self._tell_orphans(now)
        stepper.fetched = self.loads
        stepper.reset()
        for peer in self.peers_of(stepper) if stepper.peers is None else stepper.peers:
            peer.left = (peer.params if peer.left is None else peer.left) - stepper.params
            if not peer.left:
                peer.reset()
        if stepper is self.primary and stepper.number >= self.appointments.next:
            self._keep_appointments(stepper.number)
        if reporter.inbox and not amid and not self.quiet:
            reporter.hear()

    def _leads(self, stepper: Stepper) -> bool:
        """Whether this optimizer, not the primary, trains alone: its steps are counted then."""
        lead = self.lead
        if lead is None or stepper is lead:
            stepper.turns += 1
            return lead is not None
        now = (id(lead), lead.number)
        if stepper.turn != now:
            stepper.most, stepper.turn, stepper.turns = max(stepper.most, stepper.turns), now, 0
        stepper.turns += 1
        usual = stepper.most if stepper.most <= IN_TURN else 0
        return stepper.turns > max(1, 2 * usual)

    def _keep_appointments(self, number: int) -> None:
        for call in self.appointments.keep(number):
            try:
                call()
            except Exception as error:
                self.trouble("appointment", error)

    def _loss_values(self, stepper: Stepper, values: list[Any]) -> int:
        """Adds loss and count of what was backpropagated, and where no step said it, the scale."""
        losses = stepper.losses
        newest = losses[-1]
        if stepper.scale is None:
            stepper.scale, stepper.scaler = newest.scale, newest.scaler
        if len(losses) == 1 and stepper.meaning is None:
            newest.used = True
            values.append(newest.value)
            values.append(newest.count)
            return HAS_LOSS
        for loss in losses:
            loss.used = True
        total, count = total_of(losses), sum(loss.count for loss in losses)
        if len(losses) > 1:
            self._read_meaning(stepper, losses)
        if not stepper.meaning:
            values += (total / count, count)
            if count == 1:
                return HAS_LOSS
            values.append(total)
            return HAS_LOSS | HAS_SUM
        part = total_share([loss.share for loss in losses], stepper.meaning)
        whole = not 0.0 < part < 0.999 or stepper.meaning not in (DIVIDED, ITEMS)
        values += (total if whole else total / part, count)
        return HAS_LOSS

    def _read_meaning(self, stepper: Stepper, losses: list[Loss]) -> None:
        """Decides what several losses of a step are, at the first such step; later only against evidence."""
        why = why_parts(losses, self.loads - stepper.fetched)
        known = stepper.meaning
        if known or known == why:
            stepper.doubts = 0
            return
        stepper.doubts += known is not None
        if known is None or why != BATCH or stepper.doubts >= DOUBTS:
            stepper.meaning, stepper.doubts = why, 0
            said = {"count": len(losses), "loss": "sum" if why else "mean", "why": why}
            series = stepper.suffix.removeprefix("/")
            self.reporter.put_event("accumulation", {"series": series, **said}, max(self.step, 0))

    def _new_names(self, stepper: Stepper, flags: int) -> tuple[str, ...]:
        names = stepper.record_names(flags)
        self.reporter.taken(names)
        return names

    def _take_orphans(self, stepper: Stepper) -> None:
        """Losses of no known optimizer are those of one that is new, or whose gradients torch hides."""
        if not stepper.reached and not stepper.losses:
            stepper.losses, self.orphans = self.orphans, []

    def _tell_orphans(self, now: int) -> None:
        """What no optimizer was seen to use goes beside the primary's record as ``loss/<i>``."""
        orphans = [loss for loss in self.orphans if not loss.used]
        self.orphans = []
        if orphans and not self.quiet:
            names = tuple(f"loss/{i}" for i in range(len(orphans)))
            values = [loss.value for loss in orphans]
            self.reporter.stage((max(self.step, 0), now + self.reporter.offset_ns, names, *values), None)

    def _tell_source(self, stepper: Stepper) -> None:
        """An event where the norm comes from elsewhere than before, or is clipped elsewhere."""
        clip = stepper.clip
        source = (stepper.norm_from, stepper.norm_scaled, stepper.taken, clip)
        told = stepper.told
        if told is not None and source[:3] == told[:3]:
            stepper.clips_told += 1
            if stepper.clips_told > CLIP_CHANGES:
                return
        stepper.told = source
        series = stepper.suffix.removeprefix("/")
        data = {"optimizer": stepper.name, "series": series, "source": stepper.norm_from, "clip": clip}
        data["taken"] = stepper.taken
        if stepper.norm_scaled:
            data["scaled"] = True
        self.reporter.put_event("grad-norm-source", data, max(self.step, 0))

    def scale_changed(self, scaler: str, before: float, after: float) -> None:
        """A scaler event: growth or backoff, at the step after which it happened."""
        change = "growth" if after > before else "backoff"
        data = {"scaler": scaler, "change": change, "from": before, "to": after}
        self.reporter.put_event("scaler", data, self.coming)


def _on_device(item: tuple[Any, ...]) -> bool:
    """Whether any value still lies on a device."""
    return any(type(value) is not float for value in item[3:])
