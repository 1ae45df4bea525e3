"""Copy a part of an array or tensor of bounded size, without waiting for a device."""

from __future__ import annotations

import sys
from typing import Any


class UnreadableError(TypeError):
    """A value that cannot be shown. Its text says why."""


class Snapshot:
    """A small copy in host memory; ``array`` gives it as a NumPy array once it has arrived."""

    def __init__(self, values: Any, event: Any = None) -> None:
        self._values = values
        self._event = event

    @property
    def is_ready(self) -> bool:
        """Whether the copy from the device has arrived."""
        return self._event is None or bool(self._event.query())

    def array(self) -> Any:
        """Return the copy as a NumPy array; bfloat16 becomes float32."""
        values = self._values
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(values, torch.Tensor):
            return values
        if values.dtype in (torch.bfloat16, torch.float16):
            values = values.float()
        return values.numpy()


def of_picture(given: Any, side: int) -> Snapshot:
    """Return every n-th row and column of a picture, at most ``side`` of each.

    Args:
        given: Rows and columns, with channels first (torch) or last (NumPy).
        side: Maximum number of rows and columns.

    Raises:
        UnreadableError: It is no array or tensor, or has another number of dimensions.
    """
    values = _array(given)
    if values.ndim == 4 and values.shape[0] == 1:
        values = values[0]
    if values.ndim not in (2, 3) or not all(values.shape):
        raise UnreadableError(f"an image has 2 or 3 dimensions, got the shape {tuple(values.shape)}")
    is_first = values.ndim == 3 and values.shape[0] in (1, 3, 4) and values.shape[-1] not in (3, 4)
    if values.ndim == 3 and not is_first and values.shape[-1] not in (1, 3, 4):
        raise UnreadableError(f"an image has 1, 3 or 4 channels, got the shape {tuple(values.shape)}")
    height, width = values.shape[-2:] if is_first or values.ndim == 2 else values.shape[:2]
    by = max(1, -(-max(height, width) // side))
    small = values[..., ::by, ::by] if is_first or values.ndim == 2 else values[::by, ::by]
    if is_first:
        small = small.permute(1, 2, 0) if hasattr(small, "permute") else small.transpose(1, 2, 0)
    return _copied(small)


def of_values(given: Any, most: int) -> Snapshot:
    """Return every n-th value, at most ``most``.

    Raises:
        UnreadableError: It holds no numbers.
    """
    values = _array(given)
    flat = values.reshape(-1) if hasattr(values, "reshape") else values
    return _copied(flat[:: max(1, -(-len(flat) // most))])


def _array(given: Any) -> Any:
    """Return a tensor as it is, without its history, and anything else as a NumPy array of numbers."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        if given.layout is not torch.strided or given.is_quantized or given.is_complex():
            raise UnreadableError(f"a {given.layout} tensor of {given.dtype} cannot be shown")
        if not (given.is_cpu or given.is_cuda):
            raise UnreadableError(f"a tensor on {given.device} cannot be read without waiting for it")
        return given.detach()
    try:
        import numpy
    except ImportError:
        raise UnreadableError("NumPy is needed to show values other than tensors") from None
    array = numpy.asarray(given)
    if array.dtype.kind not in "biuf":
        got = f"values of {array.dtype}" if array.ndim else type(given).__name__
        raise UnreadableError(f"expected an array or tensor of numbers, got {got}")
    return array


def _copied(part: Any) -> Snapshot:
    """Copy a part to host memory; from a device without waiting for it."""
    if not hasattr(part, "is_cuda"):
        return Snapshot(part.copy())
    if not part.is_cuda:
        return Snapshot(part.clone())
    import torch

    if torch.cuda.is_current_stream_capturing():
        raise UnreadableError("nothing can be copied while a CUDA graph is captured")
    host = torch.empty(part.shape, dtype=part.dtype, pin_memory=True)
    host.copy_(part, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(part.device))
    return Snapshot(host, event)
