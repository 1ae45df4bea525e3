"""Compute the loss scale of a scaler whose scale is on a device.

The scale is read once. What ``update`` does to it follows from the flags of non-finite gradients, which are
kept by reference, so each later scale is computed on the host when they have arrived. The version counter of
the scale shows other writes, after which it is read again, and the newest scale of each copy is compared with
the device's.
"""

from __future__ import annotations

import weakref
from math import copysign, inf, isfinite
from struct import pack, unpack
from typing import Any

from torch import Tensor

from .device_values import Checked, Computed, Held
from .reading import before_write, hold, own_copy, read

UPDATES = 256
"""Updates after which the scale is read again, so that those without a record need little memory."""


class _Scale(Checked):
    """The scale between two updates: the first of the pair (scale, growth tracker)."""

    __slots__ = ("of",)

    def __init__(self, of: DeviceScale, tensor: Tensor) -> None:
        super().__init__(tensor, _first, of.state)
        self.of = weakref.ref(of)

    def failed(self) -> None:
        of = self.of()
        if of is not None:
            of.is_known = False


class DeviceScale:
    """The scale of one scaler on a device, and its growth tracker, as far as they are known on the host."""

    __slots__ = ("__weakref__", "flags", "found", "is_known", "ref", "state", "tensor", "updates", "value")

    def __init__(self, scaler: Any, scale: Tensor) -> None:
        self.ref = weakref.ref(scaler)
        self.tensor = scale
        tracker = getattr(scaler, "_growth_tracker", None)
        self.is_known = True
        """Whether the next scale can be computed."""
        self.state = Computed(
            _pair, own_copy(scale), own_copy(tracker) if isinstance(tracker, Tensor) else None
        )
        self.value = _Scale(self, scale)
        self.flags: dict[int, tuple[Tensor, Held]] = {}
        """id of a flag of non-finite gradients -> the flag and its value, until the next update."""
        self.found: list[Any] | None = None
        """The flags that the running update uses; None if the scale was changed by something else."""
        self.updates = 0

    def is_current(self, scaler: Any, scale: Any) -> bool:
        """Return whether nothing but the known updates has written to the scale."""
        value = self.value
        return (
            self.is_known
            and self.ref() is scaler
            and scale is self.tensor
            and scale._version == value.version
        )

    def flag(self, found: Tensor) -> Held:
        """Return the value of a flag, one for all who need it."""
        known = self.flags.get(id(found))
        if known is None:
            known = self.flags[id(found)] = found, hold(found)
        return known[1]

    def before(self, scaler: Any) -> None:
        """Keep the flags that an update is about to use. It adds several to the first one's tensor."""
        states = getattr(scaler, "_per_optimizer_states", {}).values()
        found = [one for state in states for one in state.get("found_inf_per_device", {}).values()]
        self.found = [self.flag(one) for one in found] if self.is_current(scaler, scaler._scale) else None
        if len(found) > 1:
            before_write(found[0])

    def after(self, scaler: Any, new_scale: Any) -> bool:
        """Compute the scale after an update; return whether that is possible."""
        found, self.found = self.found, None
        self.flags = {}
        self.updates += 1
        scale = scaler._scale
        once = scale is self.tensor and scale._version == self.value.version + 1
        if found is None or not once or self.updates > UPDATES:
            return False
        if new_scale is None:
            factors = (scaler._growth_factor, scaler._backoff_factor, scaler._growth_interval)
            self.state = Computed(updated, self.state, factors, *found)
        else:
            self.state = Computed(_replaced, self.state, read(new_scale, None))
        self.value = _Scale(self, scale)
        return True


def _pair(scale: float, tracker: float | None) -> tuple[float, float | None]:
    return scale, tracker


def _first(state: tuple[float, float | None]) -> float:
    return state[0]


def _replaced(state: tuple[float, float | None], scale: float) -> tuple[float, float | None]:
    return _single(scale), state[1]


def updated(
    state: tuple[float, float | None], factors: tuple[float, float, int], *found: float
) -> tuple[float, float | None]:
    """Return the scale and the growth tracker after an update, as ``torch._amp_update_scale_`` does.

    Args:
        state: Scale and growth tracker before it; a tracker of None is unknown.
        factors: Growth factor, backoff factor, and growth interval.
        found: For each optimizer and device, whether a gradient was not finite: 0.0 if none was.
    """
    scale, tracker = state
    growth, backoff, interval = factors
    if any(found):
        return _single(scale * backoff), 0.0
    if tracker is None:
        return scale, None
    if tracker + 1 != interval:
        return scale, tracker + 1
    grown = _single(scale * growth)
    return (grown if isfinite(grown) else scale), 0.0


def _single(number: float) -> float:
    """Return the nearest float32, or infinity."""
    try:
        return float(unpack("f", pack("f", number))[0])
    except OverflowError:
        return copysign(inf, number)
