"""Copy values from tensors to the host without waiting for a device.

A tensor in host memory is read immediately. Of a CUDA scalar, a reference without its graph is kept
(``device_values.py``), which costs no kernel. Complete records are collected, and all their values are copied
by one stack and one ``non_blocking`` copy to a slot of pinned memory, followed by an event. This is done at
the first record GATHERED_S after the previous copy, or at the BATCH-th record, so slow steps are copied
immediately, and fast ones share the cost. The training thread checks the slots in order after the next copy,
and never waits for an event.

A tensor whose version counter has increased until then was changed by the script: its value is absent from
the record, and later ones of the same source are copied when they are read. Values are copied early if
something is about to write to them without increasing the counter (``before_write``, ``before_replay``).

If all slots are in use, the record's device values are dropped and counted in ``dropped``; its host values
are delivered immediately.
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .device_values import Checked, DeviceValue, Held, Source, settle, unqueued

SLOTS = 1024
WIDTH = 64
"""The slots: 1024 x 64 float32, 256 KiB of pinned memory."""

BATCH = 16
"""Maximum number of records that share a copy. Vectors of norms are kept longer (layer_norms.py)."""
GATHERED_S = 0.08

SMALL = 512
"""Bytes of the largest memory that may be kept for one value: what torch allocates at least. A value that is
part of a larger tensor is copied."""
SOURCES = 256
"""Maximum number of sources that are known by name."""
REFERENCES = 4096
"""Maximum number of references that ``before_write`` can find: those of a long accumulation."""

DRAIN_S = 1.0

LOG = logging.getLogger("tocsin")

CUDA = torch.version.cuda is not None or torch.version.hip is not None
"""A build without CUDA raises when asked whether a graph is being captured."""

device_seen = False
"""Whether any value was ever on a device. Until then, records are not searched for one."""

_initialized: Callable[[], bool] = torch.cuda.is_initialized
_new_event: Callable[[], Any] = torch.cuda.Event

Item = tuple[Any, ...]
Deliver = Callable[[Item, Any], None]


PLAIN: tuple[type, ...] = (Tensor,)
"""Types of tensors that are kept by reference. Subclasses may do anything, so their values are copied."""

_sources: dict[str, Source] = {}
_recent: deque[weakref.ref[Held]] = deque(maxlen=REFERENCES)
"""References that are kept without a copy, oldest first."""


class _Graphs:
    """Whether the process replays CUDA graphs. They write to the same tensors again without torch's code, so
    that values are copied as soon as there is one.
    """

    seen = False


def read(value: Any, source: str | None = "value") -> Any:
    """Return a Python float, a ``DeviceValue``, or None.

    Accepts numbers and tensors of one element. Host tensors are read immediately, never kept.

    Args:
        value: What to read.
        source: Where it comes from; None if no one else changes the tensor.
    """
    try:
        if type(value) is Tensor and value.is_cpu:  # the common case first, because this runs at every step
            return float(value.item())
        if isinstance(value, Tensor):
            return _read_tensor(value, source)
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    except RuntimeError:
        if isinstance(value, Tensor) and value.numel() != 1:
            return None
        raise


def _read_tensor(value: Tensor, source: str | None) -> Any:
    local = getattr(value, "_local_tensor", None)
    if local is not None:
        value = local
    if value.numel() != 1 or value.is_complex():
        return None
    if value.is_cpu:
        return float(value.detach().item())
    if not value.is_cuda:
        _warn_unread(value.device.type)
        return None
    return None if capturing() else hold(value, source)


def is_on_device(value: Tensor) -> bool:
    """Return whether reading the tensor would make the host wait for a device."""
    return value.is_cuda


def readable(value: Tensor) -> bool:
    """Return whether the hook may use this device. On others (such as XLA) it would change the graph."""
    return value.is_cpu or value.is_cuda


_unread: set[str] = set()


def _warn_unread(device: str) -> None:
    if device not in _unread:
        _unread.add(device)
        LOG.warning(
            "tocsin: values on %s devices are not read automatically, because training would wait for them. "
            "Report each step with run.step(loss=...) and Python floats.",
            device,
        )


def hold(value: Tensor, source: str | None = None) -> Held:
    """Return the value of a scalar on a device: a reference if that is safe, else a copy.

    Args:
        value: A tensor of one element on a device.
        source: Where it comes from; None if no one else changes it.
    """
    global device_seen
    device_seen = True
    stream = current_stream(value.device)
    known = None if source is None else _source(source)
    is_due = known is not None and known.must_copy(value)
    if _must_copy(value):
        return Held(_copied(value), stream)
    plain = value.detach()
    if plain.ndim:
        plain = plain.reshape(())
    if known is not None and is_due:
        original = None if known.changes else plain
        held = Held(_copied(plain), stream, known, original, None if original is None else plain._version)
    else:
        held = Held(plain, stream, known, version=plain._version)
        _recent.append(weakref.ref(held))
    if known is not None:
        known.newest = held
    return held


def _source(name: str) -> Source:
    known = _sources.get(name)
    if known is None:
        known = Source()
        if len(_sources) >= SOURCES:
            name = "value"
        known = _sources.setdefault(name, known)
    return known


def _must_copy(value: Tensor) -> bool:
    """Return whether a reference would be unsafe, or keep too much memory."""
    return (
        _Graphs.seen
        or type(value) not in PLAIN
        or (value.requires_grad and value.is_leaf)
        or value.is_inference()
        or value.untyped_storage().nbytes() > SMALL
    )


def own_copy(value: Tensor) -> Held:
    """Return a copy of a scalar that is read once, although others write to it in place."""
    return Held(_copied(value), current_stream(value.device))


def _copied(value: Tensor) -> Tensor:
    """Return a float32 0-dim copy on the same device, queued on the current stream."""
    value = value.detach()
    if value.ndim:
        value = value.reshape(())
    return value.clone() if value.dtype is torch.float32 else value.to(torch.float32)


def _keep(held: Held) -> None:
    """Copy a value that is kept by reference, on the current stream; lose it if it has changed."""
    if held.tensor is None or held.original is not None:
        return
    if held.is_changed() or not _has_memory(held.tensor):
        held.lose()
        return
    with on_device(held.tensor.device):
        held.tensor = _copied(held.tensor)
    held.version, held.stream = None, current_stream(held.tensor.device)
    if held.source is not None:
        held.source.changes = True


def before_write(tensor: Any) -> None:
    """Copy the values in the memory of ``tensor``, which is about to be changed without a new version."""
    if not _recent or not isinstance(tensor, Tensor) or tensor.numel() > SMALL or capturing():
        return
    memory = tensor.untyped_storage()._cdata
    for held in _kept():
        if held.tensor is not None and held.tensor.untyped_storage()._cdata == memory:
            _keep(held)


def before_replay() -> None:
    """Copy all values, now and from now on, because a CUDA graph may write to them."""
    if not _Graphs.seen:
        _Graphs.seen = True
        for held in _kept():
            _keep(held)


def _kept() -> list[Held]:
    """Return the values that are kept by reference; forget the others."""
    kept = [held for one in _recent if (held := one()) is not None and held.tensor is not None]
    _recent.clear()
    _recent.extend(map(weakref.ref, kept))
    return kept


def sum_of(values: list[Any]) -> Any:
    """Return the sum of floats and device values, added on their device if they are many.

    A record has room for WIDTH values of a device only.
    """
    alone = [one for one in values if isinstance(one, Held) and one.tensor is not None]
    if len(values) < SUMMED or len(alone) != len(values):
        return sum(values[1:], start=values[0])
    for held in alone:
        if held.original is None and held.is_changed():
            held.lose()
            return held
    device, stream = _place(alone[0])
    if any(_place(held) != (device, stream) for held in alone):
        return sum(values[1:], start=values[0])
    with on_stream(device, stream), torch.no_grad():
        total = torch.stack([one.tensor.to(torch.float32) for one in alone if one.tensor is not None]).sum()
    return Held(total, stream)


SUMMED = 8
"""Number of values from which on they are added on the device."""


def _place(held: Held) -> tuple[Any, int]:
    return (None if held.tensor is None else held.tensor.device), held.stream


def differ_later(pairs: list[tuple[Tensor, Tensor]]) -> Callable[[], bool | None]:
    """Compare tensors on their device. The returned function returns whether any differ, or None until that
    is known.
    """
    device = pairs[0][0].device
    flat = [
        torch.cat([one.to(device, non_blocking=True).reshape(-1) for one in side])
        for side in zip(*pairs, strict=True)
    ]
    with on_device(device):
        host = new_flag()
        host.copy_((flat[0] != flat[1]).any(), non_blocking=True)
        arrived = _new_event()
        arrived.record()
    return lambda: bool(host.item()) if arrived.query() else None


def new_flag() -> Tensor:
    """Return pinned host memory for one boolean."""
    return torch.empty((), dtype=torch.bool, pin_memory=True, device="cpu")


def capturing() -> bool:
    """Return whether a CUDA graph is being captured: hooks run then, but not at replay."""
    return CUDA and _initialized() and torch.cuda.is_current_stream_capturing()


def new_ring(*, pinned: bool) -> Tensor:
    """Return host memory for the copies. Only copies to pinned memory are asynchronous.

    The device is explicit, because scripts may set another default (``torch.set_default_device``).
    """
    return torch.empty((SLOTS, WIDTH), dtype=torch.float32, pin_memory=pinned, device="cpu")


def new_vectors(count: int, length: int) -> Tensor:
    """Return pinned host memory for ``count`` vectors of norms (layer_norms.py)."""
    return torch.empty((count, length), dtype=torch.float32, pin_memory=True, device="cpu")


_Entry = tuple[Held, Tensor, bool]
"""What is copied: the value, its tensor, and whether this is the original of a copy."""


class _Slot(NamedTuple):
    """Records that are being copied together: (record, places of its device values, note) each."""

    records: list[tuple[Item, list[int], Any]]
    values: list[tuple[Held, bool]]
    """The values of the slot, in order; True: the original of a copy, to compare them."""
    checked: list[Checked]
    row: Tensor
    events: list[tuple[torch.device, Any]]


class Staging:
    """Records with device values on their way to the host, in order.

    ``deliver(item, note)`` is called with each one when its values are floats, without those that are lost.
    """

    __slots__ = (
        *("_begun", "_checked", "_clock", "_count", "_deliver", "_event", "_free", "_gathered", "_held"),
        *("_next", "_ring", "_uncompared", "_waiting", "dropped"),
    )

    def __init__(
        self,
        deliver: Deliver,
        *,
        ring: Tensor | None = None,
        event: Callable[[], Any] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._deliver = deliver
        self._ring = ring
        self._event = event or _new_event
        self._clock = clock
        self._next = self._count = 0
        self._begun = float("-inf")
        """Time of the newest copy."""
        self._gathered: list[tuple[Item, list[int], Any]] = []
        self._held: list[Held] = []
        """The values of the collected records."""
        self._checked: list[Checked] = []
        """Computed numbers of the collected records that can be compared with the device's."""
        self._uncompared: list[Held] = []
        """Sent copies whose originals the script may still change: at most one per source."""
        self._waiting: deque[_Slot] = deque()
        self._free: dict[torch.device, list[Any]] = {}
        """Completed events for reuse, because creating one costs more than recording it."""
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def put(self, item: Item, note: Any = None) -> None:
        """Queue a record ``(step, t_ns, names, *values)`` with device values among its values.

        A tensor among them is a scalar that no one else changes.
        """
        at: list[int] = []
        fresh: list[DeviceValue] = []
        for index in range(3, len(item)):
            value = item[index]
            if type(value) is not float:
                if isinstance(value, Tensor):
                    value = _own(value)
                    item = (*item[:index], value, *item[index + 1 :])
                at.append(index)
                fresh.append(value)
        fresh = unqueued(fresh) if at else fresh
        held = [one for one in fresh if type(one) is Held]
        full = self._count >= SLOTS
        if at and (full or len(held) > WIDTH):
            self.dropped += 1
            item, at, fresh, held = _without(item, at), [], [], []
        if not at and (full or not self._count):
            self._deliver(item, note)  # out of order, so that the queue stays bounded
            self.poll()
            return
        if len(self._held) + len(held) > WIDTH:
            self._send()
        self._held += held
        for one in fresh:
            one.is_queued = True
            if type(one) is not Held and isinstance(one, Checked):
                self._checked.append(one)
        self._gathered.append((item, at, note))
        self._count += 1
        due = len(self._gathered) >= BATCH or self._clock() - self._begun >= GATHERED_S
        if due and not capturing():
            self._send()
            self.poll()

    def _send(self) -> None:
        """Copy what was collected: one stack, one copy and one event per device, stream and dtype.

        A stream's values are copied on that stream, because a copy must run after their computation.
        """
        records, self._gathered = self._gathered, []
        held, self._held = self._held, []
        checked, self._checked = self._checked, []
        if not records:
            return
        self._begun = self._clock()
        row = self._memory()[self._next % SLOTS]
        self._next += 1
        values: list[tuple[Held, bool]] = []
        events: list[tuple[torch.device, Any]] = []
        held = _intact([*self._uncompared, *held])
        for (device, stream, _), some in _groups(held, checked).items():
            with on_stream(device, stream):
                some = self._copy_group(device, some, row[len(values) :], events)
            values += [(one, is_original) for one, _, is_original in some]
        self._uncompared = [one for one in held if one.original is not None and not one.is_over()]
        for one in held:
            one.tensor = None
            if one.is_over():
                one.original = None
        while _recent and ((oldest := _recent[0]()) is None or oldest.tensor is None):
            _recent.popleft()
        self._waiting.append(_Slot(records, values, checked, row, events))

    def _copy_group(
        self, device: torch.device, some: list[_Entry], row: Tensor, events: list[tuple[torch.device, Any]]
    ) -> list[_Entry]:
        """Copy the values of one device; return those that still have memory."""
        if _Graphs.seen:
            some = _with_memory(some)
        if not some:
            return some
        try:
            events.append((device, self._copy(device, [tensor for _, tensor, _ in some], row[: len(some)])))
        except RuntimeError:  # the script released the storage of a value
            kept = _with_memory(some)
            if len(kept) == len(some):
                raise
            return self._copy_group(device, kept, row, events)
        return some

    def _copy(self, device: torch.device, values: list[Tensor], into: Tensor) -> Any:
        free = self._free.get(device)
        into.copy_(torch.stack(values), non_blocking=True)
        event = free.pop() if free else self._event()
        event.record()
        return event

    def _memory(self) -> Tensor:
        if self._ring is None:
            self._ring = new_ring(pinned=True)
        return self._ring

    def poll(self) -> None:
        """Deliver what has arrived, oldest first. Never waits."""
        waiting = self._waiting
        if not waiting or capturing():
            return
        while waiting and all(event.query() for _, event in waiting[0].events):
            self._arrive(waiting.popleft())

    def drain(self, limit_s: float = DRAIN_S) -> None:
        """At the end of a run, wait for the device, at most ``limit_s``.

        Values that do not arrive in time are dropped.
        """
        until = monotonic() + limit_s
        if not capturing():
            self._send()
        self.poll()
        while self._waiting and monotonic() < until:
            sleep(0.0005)
            self.poll()
        lost = [record for slot in self._waiting for record in slot.records] + self._gathered
        self._waiting.clear()
        self._gathered, self._held, self._checked, self._uncompared, self._count = [], [], [], [], 0
        for item, at, note in lost:
            self.dropped += bool(at)
            self._deliver(_without(item, at), note)

    def _arrive(self, slot: _Slot) -> None:
        numbers = slot.row[: len(slot.values)].tolist() if slot.values else ()
        for (held, is_original), number in zip(slot.values, numbers, strict=True):
            if not is_original:
                held.value = number
        for (held, is_original), number in zip(slot.values, numbers, strict=True):
            if is_original:
                held.compare(number)
        _check(slot.checked)
        for device, event in slot.events:
            self._free.setdefault(device, []).append(event)
        self._count -= len(slot.records)
        for item, at, note in slot.records:
            self._deliver(_settled(item, at) if at else item, note)


def _own(value: Tensor) -> Held:
    value = value.detach()
    return Held(value.reshape(()) if value.ndim else value, current_stream(value.device))


def _intact(held: list[Held]) -> list[Held]:
    """Return the values that have not changed since they were read; the others are lost."""
    kept = []
    for one in held:
        if one.original is not None:
            if one.is_changed() and one.source is not None:
                one.source.changes, one.original = True, None
        elif one.is_changed():
            one.lose()
        if one.tensor is not None or one.original is not None:
            kept.append(one)
    return kept


def _groups(held: list[Held], checked: list[Checked]) -> dict[Any, list[_Entry]]:
    """Return what to copy by device, stream and dtype: values, then what they are compared with.

    An original is compared only if a later value was read since: it may be changed until then.
    """
    every = [(one, one.tensor, False) for one in held if one.tensor is not None]
    for one in {id(one.tensor): one for one in checked if one.tensor._version == one.version}.values():
        if len(every) < WIDTH:
            one.check = _own(one.tensor)
            every.append((one.check, one.tensor.detach(), False))
    for copy in held:
        if copy.original is not None and copy.is_over() and len(every) < WIDTH:
            every.append((copy, copy.original, True))
    groups: dict[Any, list[_Entry]] = {}
    for entry in every:
        groups.setdefault((entry[1].device, entry[0].stream, entry[1].dtype), []).append(entry)
    return groups


def _with_memory(some: list[_Entry]) -> list[_Entry]:
    """Return the entries whose memory still exists. The compiler's CUDA graphs take theirs back."""
    kept = []
    for entry in some:
        if not _has_memory(entry[1]):
            entry[0].lose()
        else:
            kept.append(entry)
    return kept


def _has_memory(tensor: Tensor) -> bool:
    try:
        return tensor.data_ptr() != 0
    except RuntimeError:
        return False


def _check(checked: list[Checked]) -> None:
    """Compare computed numbers with the device's. If one is wrong, so may be those before it."""
    wrong = set()
    for one in checked:
        number = settle(one)
        real = None if one.check is None else one.check.value
        if real is not None and number != real:
            one.value, one.is_lost = real, False
            one.failed()
            wrong.add(id(one.tensor))
        elif one.is_lost:
            one.failed()
    for one in checked:
        if id(one.tensor) in wrong and one.check is None:
            one.value, one.is_lost = None, True


def _settled(item: Item, at: list[int]) -> Item:
    """Return the record with the numbers that have arrived, without those that are lost."""
    values = list(item)
    for index in at:
        value = item[index]
        values[index] = settle(value) if value.value is None else value.value
    lost = [index for index in at if values[index] is None]
    return _without(tuple(values), lost) if lost else tuple(values)


def _without(item: Item, at: list[int]) -> Item:
    """Return the record without the values at these positions and without their names."""
    gone = {index - 3 for index in at}
    names = tuple(name for place, name in enumerate(item[2]) if place not in gone)
    values = tuple(value for index, value in enumerate(item) if index > 2 and index not in at)
    return (item[0], item[1], names, *values)


def on_device(device: torch.device) -> Any:
    """Return a context in which work is queued on ``device``."""
    if not _initialized() or torch.cuda.current_device() == device.index:
        return _HERE
    return torch.cuda.device(device)


def current_stream(device: torch.device) -> int:
    """Return the address of the current stream of ``device``; 0 without a CUDA context."""
    return int(_raw_stream(device.index)) if _initialized() else 0


def on_stream(device: torch.device, stream: int) -> Any:
    """Return a context in which work is queued on ``device`` after that of ``stream``."""
    if not _initialized() or current_stream(device) == stream:
        return on_device(device)
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))


def _asked(index: int) -> int:
    return int(torch.cuda.current_stream(index).cuda_stream)


_raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _asked)


class _Here:
    """A context that does nothing, for the current device or without a CUDA context."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


_HERE = _Here()
