"""Read numbers from Python, NumPy and tensors, without waiting for a CUDA device."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

LEAVES = 256
"""Maximum number of tensors of a nested batch that are examined."""


def number(value: Any, name: str = "value") -> Any:
    """Return a float, a ``DeviceValue``, or None if ``value`` is not a single number.

    Values of other libraries (NumPy, JAX) are converted immediately.

    Args:
        value: What the script passed.
        name: Its name, under which the hook learns whether the script changes such tensors later.
    """
    if type(value) is _plain and value.is_cpu:  # the common case first, because this runs at every step
        try:
            return float(value.item())
        except (RuntimeError, TypeError):  # several elements, or a complex number
            return None
    if isinstance(value, _tensor):
        return _read(value, name)
    if not _tensor and "torch" in sys.modules:
        _learn_torch()
        return number(value, name)
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except Exception:  # whatever the script's own ``__float__`` raises
        return None


_plain: Any = None
_tensor: tuple[type, ...] = ()
_read: Any = None
"""torch's tensor type and the function that reads one, once the script has imported torch."""


def _learn_torch() -> None:
    global _plain, _tensor, _read
    from ..capture.reading import read

    _plain = sys.modules["torch"].Tensor
    _tensor, _read = (_plain,), read


def nonfinite(batch: Any) -> Any:
    """Return 1.0 if anything in ``batch`` is NaN or infinite, else 0.0; for device tensors a scalar on the
    device.
    """
    flags = [flag for leaf in _leaves(batch) if (flag := _flag(leaf)) is not None]
    host = max((flag for flag in flags if type(flag) is float), default=0.0)
    if host:
        return host
    if any(flag is _UNSEEN for flag in flags):
        return None
    device = [flag for flag in flags if type(flag) is not float]
    if not device:
        return host
    found = device[0]
    for flag in device[1:]:
        found = found.maximum(flag.to(found.device, non_blocking=True))
    return found


_UNSEEN: Any = object()
"""Stands for values that cannot be read without waiting for a device, or during a graph capture."""


def _flag(leaf: Any) -> Any:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(leaf, torch.Tensor):
        return _tensor_flag(torch, leaf)
    if numpy is not None and isinstance(leaf, numpy.ndarray):
        return float(not numpy.isfinite(leaf).all()) if leaf.dtype.kind in "fc" else None
    if isinstance(leaf, float):
        return float(not math.isfinite(leaf))
    return _UNSEEN if hasattr(leaf, "shape") and hasattr(leaf, "dtype") else None  # JAX: on its device


def _tensor_flag(torch: Any, leaf: Any) -> Any:
    """Check a tensor in one pass without a copy: its extremes times zero are NaN if it is not finite."""
    from ..capture.reading import capturing, readable

    if not leaf.is_floating_point() or not leaf.numel():
        return None
    if not readable(leaf) or capturing():
        return _UNSEEN
    low, high = torch.aminmax(leaf.detach())
    ends = low * 0 + high * 0
    flag = ends != ends
    return float(flag) if flag.is_cpu else flag


def _leaves(batch: Any) -> Iterator[Any]:
    """Yield up to LEAVES tensors of nested lists, tuples and mappings."""
    waiting, left = [batch], LEAVES
    while waiting and left:
        one = waiting.pop()
        left -= 1
        if isinstance(one, Mapping):
            waiting.extend(list(one.values())[:LEAVES])
        elif isinstance(one, (list, tuple)):
            waiting.extend(one[:LEAVES])
        else:
            yield one
