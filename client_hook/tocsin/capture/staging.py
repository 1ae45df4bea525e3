"""How a number gets from a tensor to the host without waiting for a device.

A tensor in host memory is read at once. A CUDA scalar is copied on the current stream into
float32 (so later changes in place do not matter and no graph stays alive), and when its
record is complete all of them go by one stack and one ``non_blocking`` copy into a slot of a
pinned ring, followed by an event. Slots are looked at oldest first on the training thread at
the next record; a slot whose event has not happened yet is left alone, never waited for.

Policy: a full ring drops the record's device values, counted in ``dropped``; its host values go
out at once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

import torch
from torch import Tensor

SLOTS = 1024
WIDTH = 32
"""The ring: 1024 x 32 float32, 128 KiB of pinned memory."""

DRAIN_S = 1.0

LOG = logging.getLogger("tocsin")

CUDA = torch.version.cuda is not None or torch.version.hip is not None
"""A build without CUDA raises when asked whether it captures a graph."""

device_seen = False
"""Whether any value was ever left on a device: until then no record is looked through for one."""

_initialized: Callable[[], bool] = torch.cuda.is_initialized
_new_event: Callable[[], Any] = torch.cuda.Event

Item = tuple[Any, ...]
Deliver = Callable[[Item, Any], None]


def read(value: Any) -> Any:
    """A Python float, a device scalar that nobody else changes, or None for what is neither.

    Takes numbers and tensors of one element. Host tensors are read at once, never kept.
    """
    try:
        if type(value) is Tensor and value.is_cpu:  # the common case first: this runs every step
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
        _say_unread(value.device.type)
        return None
    return None if capturing() else _copied(value)


def readable(value: Tensor) -> bool:
    """Whether this is a device the hook may give work to: on others (XLA, say) it would change the graph."""
    return value.is_cpu or value.is_cuda


_unread: set[str] = set()


def _say_unread(device: str) -> None:
    if device not in _unread:
        _unread.add(device)
        LOG.warning(
            "tocsin: values on a device of type %s are never read by themselves, because training would "
            "wait for them: report each step with run.step(loss=...) and floats, read where that is cheap",
            device,
        )


def _copied(value: Tensor) -> Tensor:
    """A float32 0-dim copy on the same device, made by work queued on the current stream."""
    global device_seen
    device_seen = True
    return value.detach().reshape(()).to(torch.float32, copy=True)


def capturing() -> bool:
    """True while a CUDA graph is being captured: hooks run once then, not at replay."""
    return CUDA and _initialized() and torch.cuda.is_current_stream_capturing()


def new_ring(*, pinned: bool) -> Tensor:
    """Host memory for the copies; only pinned memory lets a copy go on without the host."""
    return torch.empty((SLOTS, WIDTH), dtype=torch.float32, pin_memory=pinned)


def new_vectors(count: int, length: int) -> Tensor:
    """Pinned host memory for ``count`` vectors of single norms (layers.py)."""
    return torch.empty((count, length), dtype=torch.float32, pin_memory=True)


class Staging:
    """Records with device values, on their way to the host in the order they were made.

    ``deliver(item, note)`` gets each one with every value a float.
    """

    __slots__ = ("_deliver", "_event", "_next", "_ring", "_waiting", "dropped")

    def __init__(
        self, deliver: Deliver, *, ring: Tensor | None = None, event: Callable[[], Any] | None = None
    ) -> None:
        self._deliver = deliver
        self._ring = ring
        self._event = event or _new_event
        self._next = 0
        self._waiting: deque[tuple[Item, list[int], Any, int, list[Any]]] = deque()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, item: Item, note: Any = None) -> None:
        """Queues one record ``(step, t_ns, names, *values)`` some of whose values are device scalars."""
        at = [index for index, value in enumerate(item) if isinstance(value, Tensor)]
        full = len(self._waiting) >= SLOTS
        if at and (full or len(at) > WIDTH):
            self.dropped += 1
            item, at = _without(item, at), []
        if at:
            self._send(item, at, note)
        elif full:
            self._deliver(item, note)  # out of order rather than without a bound
        else:
            self._waiting.append((item, at, note, -1, []))
        self.poll()

    def _send(self, item: Item, at: list[int], note: Any) -> None:
        """One stack and one copy a device, then an event a device."""
        slot = self._next % SLOTS
        self._next += 1
        row = self._memory()[slot]
        by_device: dict[torch.device, list[int]] = {}
        for index in at:
            by_device.setdefault(item[index].device, []).append(index)
        order: list[int] = []
        events = []
        for device, places in by_device.items():
            start = len(order)
            order.extend(places)
            events.append(self._copy(device, [item[place] for place in places], row[start : len(order)]))
        held = tuple(None if isinstance(value, Tensor) else value for value in item)
        self._waiting.append((held, order, note, slot, events))

    def _copy(self, device: torch.device, values: list[Tensor], into: Tensor) -> Any:
        with on_device(device):
            into.copy_(torch.stack(values), non_blocking=True)
            event = self._event()
            event.record()
        return event

    def _memory(self) -> Tensor:
        if self._ring is None:
            self._ring = new_ring(pinned=True)
        return self._ring

    def poll(self) -> None:
        """Delivers what has arrived, oldest first. Asks, never waits."""
        waiting = self._waiting
        if not waiting or capturing():
            return
        while waiting and all(event.query() for event in waiting[0][4]):
            self._arrive(waiting.popleft())

    def drain(self, limit_s: float = DRAIN_S) -> None:
        """At the end of a run only: waits for the device, but no longer than ``limit_s``.

        What a device that hangs still owes is left out, as where the ring is full.
        """
        until = monotonic() + limit_s
        self.poll()
        while self._waiting and monotonic() < until:
            sleep(0.0005)
            self.poll()
        while self._waiting:
            item, order, note, _, _ = self._waiting.popleft()
            self.dropped += bool(order)
            self._deliver(_without(item, order), note)

    def _arrive(self, entry: tuple[Item, list[int], Any, int, list[Any]]) -> None:
        item, order, note, slot, _ = entry
        if order:
            values = list(item)
            for index, value in zip(order, self._memory()[slot].tolist(), strict=False):
                values[index] = value
            item = tuple(values)
        self._deliver(item, note)


def _without(item: Item, at: list[int]) -> Item:
    """The record without the values at ``at`` (positions in the item) and without their names."""
    gone = {index - 3 for index in at}
    names = tuple(name for place, name in enumerate(item[2]) if place not in gone)
    values = tuple(value for index, value in enumerate(item) if index > 2 and index not in at)
    return (item[0], item[1], names, *values)


def on_device(device: torch.device) -> Any:
    """What is queued inside goes to ``device``."""
    return torch.cuda.device(device) if _initialized() else _NoDevice()


class _NoDevice:
    """Where no CUDA context exists there is no device to choose."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None
