"""Read values from tensors without waiting for a device.

A tensor in host memory is read immediately. Of a CUDA scalar, a reference without its graph is kept
(``device_values.py``), which costs no kernel; ``staging.py`` copies it to the host with others.

Values are copied early if something is about to write to them without increasing the version counter
(``before_write``, ``before_replay``).
"""

from __future__ import annotations

import logging
import weakref
from collections import deque
from collections.abc import Callable
from math import nan
from typing import Any

import torch
from torch import Tensor

from .device_values import Held, Source

SMALL = 512
"""Bytes of the largest memory that may be kept for one value: what torch allocates at least. A value that is
part of a larger tensor is copied."""
SOURCES = 256
"""Maximum number of sources that are known by name."""
REFERENCES = 4096
"""Maximum number of references that ``before_write`` can find: those of a long accumulation."""
LOG = logging.getLogger("tocsin")
CUDA = torch.version.cuda is not None or torch.version.hip is not None
"""A build without CUDA raises when asked whether a graph is being captured."""
device_seen = False
"""Whether any value was ever on a device. Until then, records are not searched for one."""
_initialized: Callable[[], bool] = torch.cuda.is_initialized
_new_event: Callable[[], Any] = torch.cuda.Event
PLAIN: tuple[type, ...] = (Tensor,)
"""Types of tensors that are kept by reference. Subclasses may do anything, so their values are copied."""
_sources: dict[str, Source] = {}
_recent: deque[weakref.ref[Held]] = deque(maxlen=REFERENCES)
"""References that are kept without a copy, oldest first."""
_unread: set[str] = set()
SUMMED = 8
"""Number of values from which on they are added on the device."""


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


def version_of(value: Tensor) -> float:
    """Return the version counter; NaN, which equals no other, for a tensor of inference mode without one."""
    try:
        return value._version
    except RuntimeError:
        return nan


def readable(value: Tensor) -> bool:
    """Return whether the hook may use this device. On others (such as XLA) it would change the graph."""
    return value.is_cpu or value.is_cuda


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
    if held.is_changed() or not has_memory(held.tensor):
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


def forget_copied() -> None:
    """Forget the oldest references that were copied."""
    while _recent and ((oldest := _recent[0]()) is None or oldest.tensor is None):
        _recent.popleft()


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


def has_memory(tensor: Tensor) -> bool:
    """Return whether ``tensor`` still has memory: the script or a CUDA graph may release its storage."""
    try:
        return tensor.data_ptr() != 0
    except RuntimeError:
        return False


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
