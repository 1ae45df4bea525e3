"""Copy values from tensors to the host without waiting for a device.

A tensor in host memory is read immediately. A CUDA scalar is copied on the current stream to float32, so that
later changes in place do not matter and no graph stays alive. Complete records are collected, and all their
values are copied by one stack and one ``non_blocking`` copy to a slot of pinned memory, followed by an event.
This is done at the first record GATHERED_S after the previous copy, or at the BATCH-th record, so slow steps
are copied immediately, and fast ones share the cost. The training thread checks the slots in order after the
next copy, and never waits for an event.

If all slots are in use, the record's device values are dropped and counted in ``dropped``; its host values
are delivered immediately.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, NamedTuple

import torch
from torch import Tensor

SLOTS = 1024
WIDTH = 32
"""The slots: 1024 x 32 float32, 128 KiB of pinned memory."""

BATCH = 8
"""Maximum number of records that share a copy. Vectors of norms are kept longer (layer_norms.py)."""
GATHERED_S = 0.02

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


def read(value: Any) -> Any:
    """Return a Python float, a device scalar that no one else changes, or None.

    Accepts numbers and tensors of one element. Host tensors are read immediately, never kept.
    """
    try:
        if type(value) is Tensor and value.is_cpu:  # the common case first, because this runs at every step
            return float(value.item())
        if isinstance(value, Tensor):
            return _read_tensor(value)
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    except RuntimeError:
        if isinstance(value, Tensor) and value.numel() != 1:
            return None
        raise


def _read_tensor(value: Tensor) -> Any:
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
    return None if capturing() else _copied(value)


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


def _copied(value: Tensor) -> Tensor:
    """Return a float32 0-dim copy on the same device, queued on the current stream."""
    global device_seen
    device_seen = True
    value = value.detach()
    if value.ndim:
        value = value.reshape(())
    return value.clone() if value.dtype is torch.float32 else value.to(torch.float32)


def differ_later(pairs: list[tuple[Tensor, Tensor]]) -> Callable[[], bool | None]:
    """Compare tensors on their device. The returned function returns whether any differ, or None until that
    is known.
    """
    flags = [(one != other).any() for one, other in pairs]
    flag = torch.stack([one.to(flags[0].device, non_blocking=True) for one in flags]).any()
    host = torch.empty((), dtype=torch.bool, pin_memory=True, device="cpu")
    host.copy_(flag, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record(torch.cuda.current_stream(flag.device))
    return lambda: bool(host.item()) if arrived.query() else None


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


class _Slot(NamedTuple):
    """Records that are being copied together: (record, places of its device values, note) each."""

    records: list[tuple[Item, list[int], Any]]
    places: list[tuple[int, int]]
    """(record, place in it) of each value of the slot."""
    row: Tensor
    events: list[tuple[torch.device, Any]]


class Staging:
    """Records with device values on their way to the host, in order.

    ``deliver(item, note)`` is called with each one when all of its values are floats.
    """

    __slots__ = (
        *("_begun", "_clock", "_count", "_deliver", "_event", "_free", "_gathered", "_next", "_ring"),
        *("_room", "_streams", "_waiting", "dropped"),
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
        self._room = WIDTH
        """Values that still fit into the next slot."""
        self._begun = float("-inf")
        """Time of the newest copy."""
        self._gathered: list[tuple[Item, list[int], Any]] = []
        self._streams: dict[torch.device, int] = {}
        """The stream on which the collected values of each device were computed."""
        self._waiting: deque[_Slot] = deque()
        self._free: dict[torch.device, list[Any]] = {}
        """Completed events for reuse, because creating one costs more than recording it."""
        self.dropped = 0

    def __len__(self) -> int:
        return self._count

    def put(self, item: Item, note: Any = None) -> None:
        """Queue a record ``(step, t_ns, names, *values)`` with device scalars among its values."""
        at = [index for index, value in enumerate(item) if isinstance(value, Tensor)]
        full = self._count >= SLOTS
        if at and (full or len(at) > WIDTH):
            self.dropped += 1
            item, at = _without(item, at), []
        if not at and (full or not self._count):
            self._deliver(item, note)  # out of order, so that the queue stays bounded
            self.poll()
            return
        if at and (len(at) > self._room or self._elsewhere(item, at)):
            self._send()
            self._elsewhere(item, at)
        self._gathered.append((item, at, note))
        self._count += 1
        self._room -= len(at)
        due = len(self._gathered) >= BATCH or self._clock() - self._begun >= GATHERED_S
        if due and not capturing():
            self._send()
            self.poll()

    def _elsewhere(self, item: Item, at: list[int]) -> bool:
        """Return whether the values were computed on another stream than the collected ones. They are copied
        separately, because a copy must run after the computation of its values.
        """
        found = False
        for index in at:
            device = item[index].device
            stream = current_stream(device)
            found |= self._streams.setdefault(device, stream) != stream
        return found

    def _send(self) -> None:
        """Copy what was collected: one stack, one copy and one event per device."""
        records, self._gathered, self._room = self._gathered, [], WIDTH
        streams, self._streams = self._streams, {}
        if not records:
            return
        self._begun = self._clock()
        by_device: dict[torch.device, list[tuple[int, int]]] = {}
        for k, (item, at, _) in enumerate(records):
            for index in at:
                by_device.setdefault(item[index].device, []).append((k, index))
        row = self._memory()[self._next % SLOTS]
        self._next += 1
        places: list[tuple[int, int]] = []
        events = []
        for device, some in by_device.items():
            into = row[len(places) : len(places) + len(some)]
            values = [records[k][0][index] for k, index in some]
            with on_stream(device, streams[device]):
                events.append((device, self._copy(device, values, into)))
            places += some
        kept = [(_hollow(item) if at else item, at, note) for item, at, note in records]
        self._waiting.append(_Slot(kept, places, row, events))

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
        self._gathered, self._count, self._room = [], 0, WIDTH
        for item, at, note in lost:
            self.dropped += bool(at)
            self._deliver(_without(item, at), note)

    def _arrive(self, slot: _Slot) -> None:
        values = slot.row[: len(slot.places)].tolist() if slot.places else ()
        items = [list(item) if at else item for item, at, _ in slot.records]
        for (k, index), value in zip(slot.places, values, strict=True):
            items[k][index] = value  # type: ignore[index]
        for device, event in slot.events:
            self._free.setdefault(device, []).append(event)
        self._count -= len(slot.records)
        for item, (_, _, note) in zip(items, slot.records, strict=True):
            self._deliver(tuple(item), note)


def _hollow(item: Item) -> Item:
    """Return the record without its tensors, so that their memory is freed."""
    return tuple(None if isinstance(value, Tensor) else value for value in item)


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
