"""Report the gradient norm of each parameter, which shows in which layer a problem started.

The vector of norms exists anyway: torch computes it for the total norm of the script's clip, and so does our
own sample. References to the vectors of the last HELD steps are kept without reading them. A ``layers`` event
is sent with an occasional sample, and with every step that was skipped, is not finite or stands out, together
with the vectors from before it. On a device a vector is copied without waiting, and reported when it arrives.

The first FIRST ordinary samples are reported, then one every ORDINARY_S; of bad steps BURST at once, then one
every TROUBLE_S. Ranks other than 0 report bad steps only.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from time import monotonic, sleep
from typing import Any

import torch
from torch import Tensor

from ..protocol import little_endian
from . import reading, staging
from .device_values import DeviceValue, divided, settle
from .gradients import norms_of
from .layer_names import NO_GRADIENT, folded, grouped, plain_names
from .optimizer_tracker import OptimizerTracker

HELD = 4 * staging.BATCH
"""Vectors that are kept of a device, whose records arrive up to two copies after they were made."""
FIRST = 8
ORDINARY_S, TROUBLE_S = 5.0, 2.0
BURST = 24
STAGED = 32
"""Maximum number of vectors that are being copied from a device; more are dropped."""
EVERY = 16
"""A script that clips has a vector at each step; at most one of this many is reported as an ordinary sample.
"""
STANDS_OUT = 5.0
"""Multiple of the running level."""
LEARNED = 20
"""Number of norms after which the level is used."""
TABLES = 8
"""Maximum number of different parameter sets per optimizer; later ones are not reported."""
BEFORE = 8
"""Maximum number of kept vectors that are reported before a bad one."""


class Table:
    """The parameter of each norm. Contains ids only, so that no parameter is kept alive."""

    __slots__ = ("ids", "names", "number", "places")

    def __init__(self, ids: tuple[int, ...], number: int) -> None:
        self.ids = ids
        self.number = number
        self.names: list[str] = []
        """Empty until they were reported."""
        self.places: list[int] = []


Vector = tuple[Table, Tensor, Any, str]
"""Table, norms in its order on their device, the loss scale in them or None, and their source. It is a plain
tuple because one is made at each step."""


class State:
    """State of one optimizer."""

    __slots__ = ("bad", "held", "latest", "level", "sampled", "seen", "sent", "tables")

    def __init__(self) -> None:
        self.level = 0.0
        self.seen = self.sent = 0
        self.sampled = -1
        """Step of the newest ordinary sample that was reported."""
        self.bad = False
        """Whether the previous step was bad too, so that nothing before it needs to be reported."""
        self.held: deque[tuple[int, Vector]] = deque(maxlen=BEFORE + 1)
        """The newest vectors: few in host memory, because freeing one that is no longer in a cache is slow.
        """
        self.latest: tuple[int, int, str, Table | None] = (0, 0, "", None)
        """ids of the ends of a complete list of parameters, the source of its norms, and its table."""
        self.tables: dict[tuple[int, ...], Table] = {}


class LayerNorms:
    """Keep the newest vectors of a run, and report those that matter."""

    def __init__(self, reporter: Any, *, rank: int = 0, clock: Callable[[], float] = monotonic) -> None:
        self._reporter = reporter
        self._rank = rank
        self._clock = clock
        self._names: Mapping[int, str] | None = None
        self._unnamed: list[tuple[OptimizerTracker, int, Vector, str, list[float]]] = []
        self._staged: deque[tuple[OptimizerTracker, int, Vector, str, Tensor, Any]] = deque()
        self._credit = float(BURST)
        self._credit_at = clock()
        self._ordinary_at = float("-inf")
        self._looking = False
        self._room: Tensor | None = None
        self._next = 0
        self._steppers: dict[str, OptimizerTracker] = {}

    # -- input

    def seen(
        self, tracker: OptimizerTracker, params: list[Any], norms: Tensor, scale: Any, source: str
    ) -> None:
        """Store the norms for the next record: of those ``params`` that have a gradient.

        Args:
            tracker: State of the optimizer.
            params: Parameters in the order of the norms.
            norms: Norms, float32, shape (number of parameters with a gradient,), on any device.
            scale: The loss scale in the norms, or None.
            source: ``clip``, ``own`` or ``local`` (one rank's shard).
        """
        first, last, of, table = (tracker.layers or _state(tracker)).latest
        count = norms.numel()
        is_known = id(params[0]) == first and id(params[-1]) == last and len(params) == count and source == of
        if table is None or not is_known or len(table.ids) != count:
            table = self._table(tracker, params, count, source)
        if table is not None:
            tracker.vector = table, norms, scale, source

    def recorded(self, tracker: OptimizerTracker, step: int, skipped: Any) -> None:
        """Decide whether to report the vector of a record that is about to be made. Never raises.

        Args:
            tracker: State of the optimizer.
            step: Step of the record.
            skipped: 1.0 if a loss scaler skipped the step, else 0.0; may be on a device.
        """
        try:
            state, vector, norm = tracker.layers or _state(tracker), tracker.vector, tracker.norm
            if vector is not None:
                state.held.append((step, vector))
            if self._staged:
                self._poll()
            if type(skipped) is not float or (type(norm) is not float and norm is not None):
                self._await(tracker)
            else:
                loss = tracker.losses[-1].value if tracker.losses else 0.0
                if why := _why(state, norm, skipped, loss if type(loss) is float else 0.0):
                    vector = vector or self._measured(tracker)
                    self._report_bad_step(tracker, state, step, why, vector)
                    return
                state.bad = False
            may_report = vector is not None and (not tracker.user_clips or tracker.number % EVERY == 1)
            if may_report and self._is_due(state):
                state.sent, state.sampled = state.sent + 1, step
                self._send(tracker, step, vector, "sample")
        except Exception as error:
            self._reporter.report_error("layers", error)

    def arrived(self, item: tuple[Any, ...]) -> None:
        """Check a record that has arrived from the device, and report its vector if it was bad."""
        values = dict(zip(item[2], item[3:], strict=True))
        for suffix, tracker in self._steppers.items():
            if f"stepped{suffix}" not in values:
                continue
            state = _state(tracker)
            skipped, loss = values.get(f"skipped{suffix}", 0.0), values.get(f"loss{suffix}", 0.0)
            why = _why(state, values.get(f"grad_norm{suffix}"), skipped, loss)
            if why:
                self._report_bad_step(tracker, state, item[0], why, dict(state.held).get(item[0]))
            else:
                state.bad = False

    def named(self, names: Mapping[int, str]) -> None:
        """Set the names of the parameters by id, and report what was waiting for them."""
        self._names = names
        waiting, self._unnamed = self._unnamed, []
        for one in waiting:
            self._report(*one)

    # -- selection

    def _await(self, tracker: OptimizerTracker) -> None:
        state = _state(tracker)
        if state.held.maxlen != HELD:
            state.held = deque(state.held, HELD)
        self._steppers[tracker.suffix] = tracker
        if not self._looking:
            self._looking = True
            self._reporter.add_observer(self.arrived)

    def _report_bad_step(
        self, tracker: OptimizerTracker, state: State, step: int, why: str, vector: Vector | None
    ) -> None:
        began, state.bad = not state.bad, True
        if began:
            before = [one for one in state.held if state.sampled < one[0] < step]
            for at, kept in before[-BEFORE:]:
                if self._may_report():
                    self._send(tracker, at, kept, "before")
            state.held.clear()
        if vector is not None and self._may_report():
            self._send(tracker, step, vector, why)

    def _measured(self, tracker: OptimizerTracker) -> Vector | None:
        """Return the vector of a bad step whose norms were not computed yet."""
        if not self._may_report(0.0):
            return None
        made = None if tracker.ref() is None else norms_of(tracker.ref())
        if made is None:
            return None
        table = self._table(tracker, made.params, made.norms.numel(), made.source)
        scale = None if tracker.unscaled else tracker.scale
        return None if table is None else (table, made.norms, scale, made.source)

    def _is_due(self, state: State) -> bool:
        """Return whether an ordinary sample is due. Ranks above 0 would report the same."""
        if self._rank:
            return False
        now = self._clock()
        if state.sent >= FIRST and now - self._ordinary_at < ORDINARY_S:
            return False
        self._ordinary_at = now
        return True

    def _may_report(self, cost: float = 1.0) -> bool:
        now = self._clock()
        self._credit = min(BURST, self._credit + (now - self._credit_at) / TROUBLE_S)
        self._credit_at = now
        if self._credit < 1.0:
            return False
        self._credit -= cost
        return True

    # -- output

    def _send(self, tracker: OptimizerTracker, step: int, vector: Vector, why: str) -> None:
        _, norms, scale, _ = vector
        if not reading.is_on_device(norms):
            if norms.is_cpu:
                self._report(tracker, step, vector, why, _read(norms, scale))
        elif not reading.capturing() and len(self._staged) < STAGED:
            self._stage(tracker, step, vector, why)

    def _stage(self, tracker: OptimizerTracker, step: int, vector: Vector, why: str) -> None:
        """Copy a vector on the current stream, followed by an event that is queried with the next record."""
        norms = vector[1].detach()
        with torch.no_grad(), reading.on_device(norms.device):
            ready = norms.to(torch.float32)
            host = self._slot(ready.numel())
            host.copy_(ready, non_blocking=True)
            event = reading._new_event()
            event.record()
        self._staged.append((tracker, step, vector, why, host, event))

    def _slot(self, length: int) -> Tensor:
        """Return room in pinned memory, which is reallocated only for a longer vector."""
        if self._room is None or self._room.shape[1] < length:
            self._room = staging.new_vectors(STAGED, length)
        self._next = (self._next + 1) % STAGED
        return self._room[self._next, :length]

    def drain(self) -> None:
        """At the end of a run, wait for the copies, at most ``staging.DRAIN_S``."""
        until = monotonic() + staging.DRAIN_S
        self._poll()
        while self._staged and monotonic() < until:
            sleep(0.0005)
            self._poll()

    def _poll(self) -> None:
        if reading.capturing():
            return
        while self._staged and self._staged[0][5].query():
            tracker, step, vector, why, host, _ = self._staged[0]
            given = vector[2]
            scale = settle(given) if isinstance(given, DeviceValue) else given
            waits = scale is None and given is not None and not given.is_lost
            if waits and len(self._staged) < STAGED:
                break  # the scale arrives with the record
            self._staged.popleft()
            if scale is not None or given is None:
                norms = host.tolist()
                self._report(
                    tracker,
                    step,
                    vector,
                    why,
                    norms if scale is None else [divided(one, scale) for one in norms],
                )

    def _report(
        self, tracker: OptimizerTracker, step: int, vector: Vector, why: str, norms: list[float]
    ) -> None:
        if self._names is None:
            if len(self._unnamed) < STAGED:
                self._unnamed.append((tracker, step, vector, why, norms))
            return
        table, _, _, source = vector
        series = tracker.suffix.removeprefix("/")
        if not table.names:
            self._send_names(tracker, table, series, step)
        data = {
            "series": series,
            "table": table.number,
            "why": why,
            "source": source,
            "norms": _packed(folded(norms, table.places, len(table.names))),
        }
        self._reporter.put_event("layers", data, step)

    def _send_names(self, tracker: OptimizerTracker, table: Table, series: str, step: int) -> None:
        known, own = self._names or {}, _own_names(tracker.ref())
        full = plain_names([known.get(key) or own.get(key) or "a parameter" for key in table.ids])
        table.names, table.places = grouped(full)
        data = {
            "series": series,
            "table": table.number,
            "names": table.names,
            "parameters": [table.places.count(place) for place in range(len(table.names))],
        }
        self._reporter.put_event("layer-names", data, step)

    # -- parameters of the norms

    def _table(self, tracker: OptimizerTracker, params: list[Any], count: int, source: str) -> Table | None:
        """Return the table of these parameters. The ends of a complete list are cached in ``latest``."""
        state = _state(tracker)
        whole = len(params) == count
        with_gradient = params if whole else [one for one in params if one.grad is not None]
        if len(with_gradient) != count or not count:
            return None
        if source == "clip":  # torch's order; ours is that of the parameters
            with_gradient = [with_gradient[at] for at in _order([one.grad for one in with_gradient])]
        ids = tuple(map(id, with_gradient))
        table = state.tables.get(ids)
        if table is None:
            if len(state.tables) >= TABLES:
                return None
            table = state.tables[ids] = Table(ids, len(state.tables))
        if whole and count:
            state.latest = (id(params[0]), id(params[-1]), source, table)
        return table


def _state(tracker: OptimizerTracker) -> State:
    if tracker.layers is None:
        tracker.layers = State()
    state: State = tracker.layers
    return state


def _why(state: State, norm: float | None, skipped: float, loss: float) -> str:
    """Return why this step is bad, or an empty text. The norms of good steps set the level."""
    if norm is not None and not -inf < norm < inf:
        return "nonfinite"
    if skipped:
        return "skipped"
    if not -inf < loss < inf:
        return "nonfinite"
    if norm is None:
        return ""
    level = state.level
    state.seen = seen = state.seen + 1
    if seen <= LEARNED:
        state.level += (norm - level) / seen
    elif norm > STANDS_OUT * level:
        state.level += 0.1 * (STANDS_OUT * level - level)
        return "outlier"
    else:
        state.level += 0.05 * (norm - level)
    return ""


def _order(grads: list[Tensor]) -> list[int]:
    """Return the order in which torch computes the norms of these gradients: by device and dtype."""
    first = grads[0]
    if all(one.dtype is first.dtype and one.device == first.device for one in grads):
        return list(range(len(grads)))
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

    groups = _group_tensors_by_device_and_dtype([grads], with_indices=True)  # type: ignore[list-item]
    return [at for _, indices in groups.values() for at in indices]


def _own_names(optimizer: Any) -> dict[int, str]:
    """Return the names that the optimizer got with its parameters, or else their positions in its groups."""
    out: dict[int, str] = {}
    for k, group in enumerate(optimizer.param_groups if optimizer is not None else ()):
        names = group.get("param_names") or ()
        for i, param in enumerate(group["params"]):
            shape = "x".join(map(str, param.shape))
            out[id(param)] = str(names[i]) if i < len(names) else f"group{k}.param{i} [{shape}]"
    return out


def _read(norms: Tensor, scale: Any) -> list[float]:
    """Return norms in host memory as floats, divided by the scale."""
    norms = norms.detach().to(torch.float32)
    values: list[float] = (norms if scale is None else norms / scale).tolist()
    return values


def _packed(norms: list[float]) -> dict[str, str]:
    """Return norms in Plotly's format: little-endian float32 in base64, so that NaN is an ordinary value."""
    return {"dtype": "f4", "bdata": base64.b64encode(little_endian("f", norms)).decode("ascii")}


__all__ = ["NO_GRADIENT", "LayerNorms"]
