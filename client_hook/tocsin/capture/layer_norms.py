"""Gradient norms of each parameter: in which layer it began.

The vector is there anyway: torch makes it on the way to the total norm of the script's clip, and so does
our own sample. A reference to it is kept for the last HELD steps, unread. It is told as a ``layers``
event with a sample now and then, and with every step that was skipped, is not finite or stands out,
together with those kept from before it. On a device it is copied without waiting and told when it arrives.

Policy: places as in ``layer_names``. Of ordinary samples the first FIRST are told, then one every
ORDINARY_S; of steps in trouble BURST at once, then one every TROUBLE_S. On other ranks than 0 trouble only.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping
from math import isfinite
from time import monotonic, sleep
from typing import Any

import msgspec
import torch
from torch import Tensor

from ..protocol import little_endian
from . import staging
from .gradients import norms_of
from .layer_names import NO_GRADIENT, folded, grouped, plain_names
from .optimizer_tracker import Stepper

HELD = 4 * staging.BATCH
"""Records arrive from a device up to two copies after they were made."""
FIRST = 8
ORDINARY_S, TROUBLE_S = 5.0, 2.0
BURST = 24
STAGED = 32
"""Vectors under way from a device at most; more are left out."""
EVERY = 16
"""A clipping script has a vector at each step: one in so many may be told as an ordinary sample."""
STANDS_OUT = 5.0
"""Times the running level."""
LEARNT = 20
"""Norms after which the level is trusted."""
TABLES = 8
"""Different sets of parameters with a gradient that one optimizer may have; later ones are not told."""
BEFORE = 8
"""Of the kept vectors so many go ahead of one in trouble."""


class Vector(msgspec.Struct, eq=False, gc=False):
    """Norms in the order of ``table``, on their device, with the scale that is still in them, or None."""

    table: Table
    norms: Tensor
    scale: Any
    source: str


class Table:
    """Whose norm stands at which place. Holds no parameter, only identities."""

    __slots__ = ("ids", "names", "number", "places")

    def __init__(self, ids: tuple[int, ...], number: int) -> None:
        self.ids = ids
        self.number = number
        self.names: list[str] = []
        """Empty until they were told."""
        self.places: list[int] = []


class State:
    """What is remembered of one optimizer."""

    __slots__ = ("bad", "held", "latest", "level", "sampled", "seen", "tables", "told")

    def __init__(self) -> None:
        self.level = 0.0
        self.seen = self.told = 0
        self.sampled = -1
        """Step of the newest ordinary sample that was told."""
        self.bad = False
        """Whether the step before was in trouble too: then there is nothing to tell from before it."""
        self.held: deque[tuple[int, Vector]] = deque(maxlen=HELD)
        self.latest: tuple[Any, Table] | None = None
        self.tables: dict[tuple[int, ...], Table] = {}


class Layers:
    """Keeps the newest vectors of a run and tells those that matter."""

    def __init__(self, reporter: Any, *, rank: int = 0, clock: Callable[[], float] = monotonic) -> None:
        self._reporter = reporter
        self._rank = rank
        self._clock = clock
        self._names: Mapping[int, str] | None = None
        self._unnamed: list[tuple[Stepper, int, Vector, str, list[float]]] = []
        self._staged: deque[tuple[Stepper, int, Vector, str, Tensor, Any]] = deque()
        self._credit = float(BURST)
        self._credit_at = clock()
        self._ordinary_at = float("-inf")
        self._looking = False
        self._room: Tensor | None = None
        self._next = 0
        self._steppers: dict[str, Stepper] = {}

    # -- on the way

    def seen(self, stepper: Stepper, params: list[Any], norms: Tensor, scale: Any, source: str) -> None:
        """``norms``: of the gradients of those of ``params`` that have one, of the coming record."""
        count = norms.numel()
        latest = _state(stepper).latest
        if latest is not None and latest[0] == (id(params[0]), id(params[-1]), len(params), count, source):
            stepper.vector = Vector(latest[1], norms, scale, source)
            return
        table = self._table(stepper, params, count, source)
        if table is not None:
            stepper.vector = Vector(table, norms, scale, source)

    def recorded(self, stepper: Stepper, step: int, stepped: Any, skipped: Any) -> None:
        """A record of ``step`` is about to be made: whether its vector is told. Costs the record nothing."""
        try:
            self._recorded(stepper, step, skipped)
        except Exception as error:
            self._reporter.trouble("layers", error)

    def _recorded(self, stepper: Stepper, step: int, skipped: Any) -> None:
        state, vector = stepper.layers or _state(stepper), stepper.vector
        if vector is not None:
            state.held.append((step, vector))
        if self._staged:
            self._poll()
        norm = stepper.norm
        if type(skipped) is not float or (type(norm) is not float and norm is not None):
            self._await(stepper)
        else:
            loss = stepper.losses[-1].value if stepper.losses else 0.0
            why = _why(state, norm, skipped, loss if type(loss) is float else 0.0)
            if why:
                self._trouble(stepper, state, step, why, vector or self._measured(stepper))
                return
            state.bad = False
        if vector is None or (stepper.user_clips and stepper.number % EVERY != 1):
            return
        if self._is_due(state):
            state.told, state.sampled = state.told + 1, step
            self._send(stepper, step, vector, "sample")

    def arrived(self, item: tuple[Any, ...]) -> None:
        """A record came from the device: only now it is known whether it was in trouble."""
        values = dict(zip(item[2], item[3:], strict=True))
        for suffix, stepper in self._steppers.items():
            if f"stepped{suffix}" not in values:
                continue
            state = _state(stepper)
            skipped, loss = values.get(f"skipped{suffix}", 0.0), values.get(f"loss{suffix}", 0.0)
            why = _why(state, values.get(f"grad_norm{suffix}"), skipped, loss)
            if why:
                self._trouble(stepper, state, item[0], why, dict(state.held).get(item[0]))
            else:
                state.bad = False

    def named(self, names: Mapping[int, str]) -> None:
        """id of a parameter -> its name; what waited for it is told."""
        self._names = names
        waiting, self._unnamed = self._unnamed, []
        for one in waiting:
            self._tell(*one)

    # -- what is worth telling

    def _await(self, stepper: Stepper) -> None:
        self._steppers[stepper.suffix] = stepper
        if not self._looking:
            self._looking = True
            self._reporter.look_at(self.arrived)

    def _trouble(self, stepper: Stepper, state: State, step: int, why: str, vector: Vector | None) -> None:
        began, state.bad = not state.bad, True
        if began:
            before = [one for one in state.held if state.sampled < one[0] < step]
            for at, kept in before[-BEFORE:]:
                if self._may_tell():
                    self._send(stepper, at, kept, "before")
            state.held.clear()
        if vector is not None and self._may_tell():
            self._send(stepper, step, vector, why)

    def _measured(self, stepper: Stepper) -> Vector | None:
        """The vector of the step that is being recorded, where nothing made one: at trouble only."""
        if not self._may_tell(0.0):
            return None
        made = None if stepper.ref() is None else norms_of(stepper.ref())
        if made is None:
            return None
        table = self._table(stepper, made.params, made.norms.numel(), made.source)
        scale = None if stepper.unscaled else stepper.scale
        return None if table is None else Vector(table, made.norms, scale, made.source)

    def _is_due(self, state: State) -> bool:
        """An ordinary sample; ranks above 0 have the same to say."""
        if self._rank:
            return False
        now = self._clock()
        if state.told >= FIRST and now - self._ordinary_at < ORDINARY_S:
            return False
        self._ordinary_at = now
        return True

    def _may_tell(self, cost: float = 1.0) -> bool:
        now = self._clock()
        self._credit = min(BURST, self._credit + (now - self._credit_at) / TROUBLE_S)
        self._credit_at = now
        if self._credit < 1.0:
            return False
        self._credit -= cost
        return True

    # -- telling

    def _send(self, stepper: Stepper, step: int, vector: Vector, why: str) -> None:
        norms = vector.norms
        if norms.is_cpu:
            self._tell(stepper, step, vector, why, _read(norms, vector.scale))
        elif norms.is_cuda and not staging.capturing() and len(self._staged) < STAGED:
            self._stage(stepper, step, vector, why)

    def _stage(self, stepper: Stepper, step: int, vector: Vector, why: str) -> None:
        """A copy on the current stream and an event behind it; looked at with the next record."""
        norms = vector.norms.detach()
        with torch.no_grad(), staging.on_device(norms.device):
            ready = norms.to(torch.float32)
            if vector.scale is not None:
                ready = ready / vector.scale
            host = self._slot(ready.numel())
            host.copy_(ready, non_blocking=True)
            event = staging._new_event()
            event.record()
        self._staged.append((stepper, step, vector, why, host, event))

    def _slot(self, length: int) -> Tensor:
        """Room in pinned memory, made once, and anew only where a vector is longer than all before."""
        if self._room is None or self._room.shape[1] < length:
            self._room = staging.new_vectors(STAGED, length)
        self._next = (self._next + 1) % STAGED
        return self._room[self._next, :length]

    def drain(self) -> None:
        """At the end of a run only: waits for what is under way, at most ``staging.DRAIN_S``."""
        until = monotonic() + staging.DRAIN_S
        self._poll()
        while self._staged and monotonic() < until:
            sleep(0.0005)
            self._poll()

    def _poll(self) -> None:
        if staging.capturing():
            return
        while self._staged and self._staged[0][5].query():
            stepper, step, vector, why, host, _ = self._staged.popleft()
            self._tell(stepper, step, vector, why, host.tolist())

    def _tell(self, stepper: Stepper, step: int, vector: Vector, why: str, norms: list[float]) -> None:
        if self._names is None:
            if len(self._unnamed) < STAGED:
                self._unnamed.append((stepper, step, vector, why, norms))
            return
        table, series = vector.table, stepper.suffix.removeprefix("/")
        if not table.names:
            self._tell_names(stepper, table, series, step)
        data = {
            "series": series,
            "table": table.number,
            "why": why,
            "source": vector.source,
            "norms": _packed(folded(norms, table.places, len(table.names))),
        }
        self._reporter.put_event("layers", data, step)

    def _tell_names(self, stepper: Stepper, table: Table, series: str, step: int) -> None:
        known, own = self._names or {}, _own_names(stepper.ref())
        full = plain_names([known.get(key) or own.get(key) or "a parameter" for key in table.ids])
        table.names, table.places = grouped(full)
        data = {
            "series": series,
            "table": table.number,
            "names": table.names,
            "parameters": [table.places.count(place) for place in range(len(table.names))],
        }
        self._reporter.put_event("layer-names", data, step)

    # -- whose norm it is

    def _table(self, stepper: Stepper, params: list[Any], count: int, source: str) -> Table | None:
        """By its members; the ends of a list all of which has gradients are remembered (``latest``)."""
        state = _state(stepper)
        whole = len(params) == count
        with_gradient = params if whole else [one for one in params if one.grad is not None]
        if len(with_gradient) != count or not count:
            return None
        if source == "clip":  # torch's order; our own is that of the parameters
            with_gradient = [with_gradient[at] for at in _order([one.grad for one in with_gradient])]
        ids = tuple(map(id, with_gradient))
        table = state.tables.get(ids)
        if table is None:
            if len(state.tables) >= TABLES:
                return None
            table = state.tables[ids] = Table(ids, len(state.tables))
        if whole and count:
            state.latest = ((id(params[0]), id(params[-1]), count, count, source), table)
        return table


def _state(stepper: Stepper) -> State:
    if stepper.layers is None:
        stepper.layers = State()
    state: State = stepper.layers
    return state


def _why(state: State, norm: float | None, skipped: float, loss: float) -> str:
    """Why this step is in trouble, or nothing; learns the level of norms that are not."""
    if norm is not None and not isfinite(norm):
        return "nonfinite"
    if skipped:
        return "skipped"
    if not isfinite(loss):
        return "nonfinite"
    if norm is None:
        return ""
    high = STANDS_OUT * state.level
    state.seen += 1
    if state.seen > LEARNT and norm > high:
        state.level += 0.1 * (high - state.level)
        return "outlier"
    state.level += (norm - state.level) * max(0.05, 1.0 / state.seen)
    return ""


def _order(grads: list[Tensor]) -> list[int]:
    """The order in which torch puts the norms of these gradients: by device and dtype."""
    first = grads[0]
    if all(one.dtype is first.dtype and one.device == first.device for one in grads):
        return list(range(len(grads)))
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

    groups = _group_tensors_by_device_and_dtype([grads], with_indices=True)  # type: ignore[list-item]
    return [at for _, indices in groups.values() for at in indices]


def _own_names(optimizer: Any) -> dict[int, str]:
    """Names that the optimizer was given with its parameters, else places in its groups."""
    out: dict[int, str] = {}
    for k, group in enumerate(optimizer.param_groups if optimizer is not None else ()):
        names = group.get("param_names") or ()
        for i, param in enumerate(group["params"]):
            shape = "x".join(map(str, param.shape))
            out[id(param)] = str(names[i]) if i < len(names) else f"group{k}.param{i} [{shape}]"
    return out


def _read(norms: Tensor, scale: Any) -> list[float]:
    """Norms in host memory as floats of float32, without the scale."""
    norms = norms.detach().to(torch.float32)
    values: list[float] = (norms if scale is None else norms / scale).tolist()
    return values


def _packed(norms: list[float]) -> dict[str, str]:
    """As Plotly takes it: little-endian float32 in base64, so that a NaN is just a value."""
    return {"dtype": "f4", "bdata": base64.b64encode(little_endian("f", norms)).decode("ascii")}


__all__ = ["NO_GRADIENT", "Layers"]
