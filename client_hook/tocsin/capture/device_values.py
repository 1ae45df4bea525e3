"""Numbers that are still on a device, without a copy of them there.

``Held`` refers to a scalar tensor that the script or torch may still change. Its version counter shows
whether it was changed before it was copied to the host; its value is then lost. ``Computed``
follows from other numbers, and is computed on the host when they have arrived, so it needs no kernel.

Not every write increases the counter (``Source``). A script that writes to its losses through ``.data`` at
every step from the start is detected in time. One that starts in the middle of a run is detected by the next
comparison; until then, what it wrote is reported. A single such write is not detected.

Nothing here touches a device: ``staging`` reads the tensors and sends the values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import copysign, inf, nan
from typing import Any

from torch import Tensor

TRUSTED = 8
"""Comparisons of a copy with its original that must agree before a source is read without a copy."""
COMPARE_EVERY = 64
"""One read in so many is compared again later."""


class Source:
    """What is known about tensors that are read at one place, such as the losses.

    Some writers do not increase the version counter (``x.data.mul_``, NumPy, DLPack, ``untyped_storage()``,
    kernels of other libraries), and torch does not record that a script has such an alias. A training loop
    repeats itself, so the first values are copied, and each copy is compared with its original after a later
    value was read. Only if they agree are values read without a copy.
    """

    __slots__ = ("changes", "newest", "reads", "trusted")

    def __init__(self) -> None:
        self.reads = self.trusted = 0
        self.changes = False
        """Whether one of its tensors was changed after it was read: they are copied from then on."""
        self.newest: Held | None = None

    def must_copy(self, value: Tensor) -> bool:
        """Return whether the next value must be copied when it is read. Counts the read."""
        newest = self.newest
        if newest is not None and (newest.is_changed() or newest.shares_memory(value)):
            self.changes = True
        self.reads += 1
        return self.changes or self.trusted < TRUSTED or self.reads % COMPARE_EVERY == 0


class DeviceValue:
    """A number that arrives later. Arithmetic gives a ``Computed`` number."""

    __slots__ = ("__weakref__", "is_lost", "is_queued", "value")
    is_cuda = True

    def __init__(self) -> None:
        self.value: Any = None
        """The number, once it has arrived."""
        self.is_lost = False
        self.is_queued = False
        """Whether its tensors are on their way to the host, or wait for the next copy."""

    def __add__(self, other: Any) -> Computed:
        return Computed(operator.add, self, other)

    def __radd__(self, other: Any) -> Computed:
        return Computed(operator.add, other, self)

    def __rsub__(self, other: Any) -> Computed:
        return Computed(operator.sub, other, self)

    def __mul__(self, other: Any) -> Computed:
        return Computed(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Computed:
        return Computed(operator.mul, other, self)

    def __pow__(self, other: Any) -> Computed:
        return Computed(operator.pow, self, other)

    def __truediv__(self, other: Any) -> Computed:
        return Computed(divided, self, other)

    def __rtruediv__(self, other: Any) -> Computed:
        return Computed(divided, other, self)


class Held(DeviceValue):
    """A reference to a detached scalar and its version, or a copy that no one else changes.

    Args:
        tensor: The scalar, on its device.
        stream: Address of the stream on which it was computed.
        source: Where it was read; None if no one changes it.
        original: The tensor that ``tensor`` is a copy of, if they are to be compared.
        version: Version of the script's tensor when it was read; None for a copy alone.
    """

    __slots__ = ("original", "source", "stream", "tensor", "version")

    def __init__(
        self,
        tensor: Tensor,
        stream: int,
        source: Source | None = None,
        original: Tensor | None = None,
        version: int | None = None,
    ) -> None:
        super().__init__()
        self.tensor: Tensor | None = tensor
        self.original = original
        self.version = version
        self.stream = stream
        self.source = source

    def is_changed(self) -> bool:
        """Return whether the script's tensor was changed since it was read, as far as torch counts it."""
        theirs = self.original if self.original is not None else self.tensor
        return self.version is not None and theirs is not None and theirs._version != self.version

    def shares_memory(self, tensor: Tensor) -> bool:
        """Return whether ``tensor`` is in the same memory, so that the script writes to it again."""
        mine = self.original if self.original is not None else self.tensor
        return mine is not None and mine.untyped_storage()._cdata == tensor.untyped_storage()._cdata

    def is_over(self) -> bool:
        """Return whether a later value of its source was read, so that the script is done with this one."""
        return self.source is None or self.source.newest is not self

    def lose(self) -> None:
        """Give up the value: its tensor was changed before it was copied."""
        self.is_lost, self.tensor = True, None
        if self.source is not None:
            self.source.changes = True

    def compare(self, original: float) -> None:
        """Compare the arrived copy with what its original contained when both were sent to the host."""
        source = self.source
        if source is None:
            return
        if self.value == original or (self.value != self.value and original != original):
            source.trusted += 1
        else:
            source.changes = True


class Computed(DeviceValue):
    """A number that ``function`` computes from ``parts``: other device values, or constants."""

    __slots__ = ("function", "parts")

    def __init__(self, function: Callable[..., Any], *parts: Any) -> None:
        super().__init__()
        self.function = function
        self.parts = parts


class Checked(Computed):
    """A computed number that also exists on the device, as long as ``tensor`` has this version.

    ``staging`` compares the newest one of each copy with the device's value.
    """

    __slots__ = ("check", "tensor", "version")

    def __init__(self, tensor: Tensor, function: Callable[..., Any], *parts: Any) -> None:
        super().__init__(function, *parts)
        self.tensor = tensor
        self.version = tensor._version
        self.check: Held | None = None
        """The device's value on its way to the host."""

    def failed(self) -> None:
        """Handle that the computation was wrong or impossible."""


def divided(one: Any, other: Any) -> Any:
    """Return ``one / other`` as a device computes it: a division by zero gives infinity or NaN."""
    try:
        return one / other
    except ZeroDivisionError:
        return nan if one == 0 or one != one else copysign(inf, one) * copysign(1.0, other)


def unqueued(values: list[DeviceValue]) -> list[DeviceValue]:
    """Return those of ``values`` and their parts that are not queued and have not arrived."""
    found: dict[int, DeviceValue] = {}
    waiting = list(values)
    while waiting:
        one = waiting.pop()
        if one.is_queued or one.is_lost or one.value is not None or id(one) in found:
            continue
        found[id(one)] = one
        if isinstance(one, Computed):
            waiting += [part for part in one.parts if isinstance(part, DeviceValue)]
    return list(found.values())


def settle(value: DeviceValue) -> Any:
    """Return the number of ``value``, or None if it is lost or has not arrived."""
    waiting = [value]
    while waiting:
        one = waiting[-1]
        if one.value is not None or one.is_lost:
            waiting.pop()
            continue
        if not isinstance(one, Computed):
            return None
        parts = [part for part in one.parts if isinstance(part, DeviceValue)]
        if any(part.is_lost for part in parts):
            one.is_lost, one.parts = True, ()
            continue
        open_parts = [part for part in parts if part.value is None]
        if open_parts:
            waiting.extend(open_parts)
            continue
        one.value = one.function(
            *(part.value if isinstance(part, DeviceValue) else part for part in one.parts)
        )
        one.parts = ()
    return value.value
