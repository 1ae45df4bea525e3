"""Copy values from a device to the host without waiting for it.

Complete records are collected, and all their values (``reading.py``) are copied by one stack and one
``non_blocking`` copy to a slot of pinned memory, followed by an event. This is done at
the first record GATHERED_S after the previous copy, or at the BATCH-th record, so slow steps are copied
immediately, and fast ones share the cost. The training thread checks the slots in order after the next copy,
and never waits for an event.

A tensor whose version counter has increased until then was changed by the script: its value is absent from
the record, and later ones of the same source are copied when they are read.

If all slots are in use, the record's device values are dropped and counted in ``dropped``; its host values
are delivered immediately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import reading
from .device_values import Checked, DeviceValue, Held, settle, unqueued

SLOTS = 1024
WIDTH = 64
"""The slots: 1024 x 64 float32, 256 KiB of pinned memory."""
BATCH = 16
"""Maximum number of records that share a copy. Vectors of norms are kept longer (layer_norms.py)."""
GATHERED_S = 0.08
DRAIN_S = 1.0
Item = tuple[Any, ...]
Deliver = Callable[[Item, Any], None]
_Entry = tuple[Held, Tensor, bool]
"""What is copied: the value, its tensor, and whether this is the original of a copy."""


def new_ring(*, pinned: bool) -> Tensor:
    """Return host memory for the copies. Only copies to pinned memory are asynchronous.

    The device is explicit, because scripts may set another default (``torch.set_default_device``).
    """
    return torch.empty((SLOTS, WIDTH), dtype=torch.float32, pin_memory=pinned, device="cpu")


def new_vectors(count: int, length: int) -> Tensor:
    """Return pinned host memory for ``count`` vectors of norms (layer_norms.py)."""
    return torch.empty((count, length), dtype=torch.float32, pin_memory=True, device="cpu")


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
        self._event = event or reading._new_event
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
        if due and not reading.capturing():
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
            with reading.on_stream(device, stream):
                some = self._copy_group(device, some, row[len(values) :], events)
            values += [(one, is_original) for one, _, is_original in some]
        self._uncompared = [one for one in held if one.original is not None and not one.is_over()]
        for one in held:
            one.tensor = None
            if one.is_over():
                one.original = None
        reading.forget_copied()
        self._waiting.append(_Slot(records, values, checked, row, events))

    def _copy_group(
        self, device: torch.device, some: list[_Entry], row: Tensor, events: list[tuple[torch.device, Any]]
    ) -> list[_Entry]:
        """Copy the values of one device; return those that still have memory."""
        if reading._Graphs.seen:
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
        if not waiting or reading.capturing():
            return
        while waiting and all(event.query() for _, event in waiting[0].events):
            self._arrive(waiting.popleft())

    def drain(self, limit_s: float = DRAIN_S) -> None:
        """At the end of a run, wait for the device, at most ``limit_s``.

        Values that do not arrive in time are dropped.
        """
        until = monotonic() + limit_s
        if not reading.capturing():
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
    return Held(value.reshape(()) if value.ndim else value, reading.current_stream(value.device))


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
        if not reading.has_memory(entry[1]):
            entry[0].lose()
        else:
            kept.append(entry)
    return kept


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
