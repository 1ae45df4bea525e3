"""Names that a script logs both to tocsin and to a tracker.

The script's own value is recorded under the name. The tracker's value is left out where it is equal at the
same step. At the first difference, the tracker's values get the name ``<tracker>/<name>`` from then on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

KEPT = 8
"""Newest values of each name that are compared."""
NAMES = 4096
"""Maximum number of names that are compared."""

LOG = logging.getLogger("tocsin")


class DeviceValue(NamedTuple):
    """A tensor on a device, which is not read here."""

    tensor: Any
    version: int | None
    """Counts the changes in place; None in inference mode, where torch does not count them."""


class Waiting(NamedTuple):
    """A tracker's value to which the script's own may follow."""

    step: int | None
    """The step that the script gave the tracker; None: any."""
    value: Any
    at: int
    """The current step of the run."""


class OwnValues:
    """The newest values that the script itself logs in one run, and the trackers' that wait for them."""

    def __init__(self, give: Callable[[str, str, int, Any], None]) -> None:
        """Compare nothing yet.

        Args:
            give: Records a tracker's value under the tracker's name; called with tracker, name, step, value.
        """
        self._give = give
        self._recent: dict[str, deque[tuple[int, Any]]] = {}
        self._count: dict[str, int] = {}
        self._compared: dict[tuple[str, str], int] = {}
        """Tracker and name -> number of the script's own value that was last compared."""
        self._waiting: dict[str, dict[str, Waiting]] = {}
        """Name -> tracker -> its value."""
        self._moved: set[tuple[str, str]] = set()
        self._warned: set[str] = set()

    def log(self, step: int, values: Iterable[tuple[str, Any]]) -> None:
        """Keep what the script logs; decide about the trackers' values that wait for it."""
        for name, value in values:
            if is_foreign(value) or (name not in self._recent and len(self._recent) >= NAMES):
                continue
            self._recent.setdefault(name, deque(maxlen=KEPT)).append((step, settled(value)))
            self._count[name] = self._count.get(name, 0) + 1
            for tracker, one in tuple(self._waiting.get(name, {}).items()):
                is_equal = self._is_equal(tracker, name, one, is_last=True)
                if is_equal is not None:
                    del self._waiting[name][tracker]
                    if not is_equal:
                        self._move(tracker, name, one)

    def takes(self, tracker: str, name: str, step: int | None, value: Any, at: int) -> bool:
        """Return whether a tracker's value needs no record now: it is left out, or waits.

        Args:
            tracker: Name of the tracker.
            name: Name of the value.
            step: The step that the script gave the tracker, or None.
            value: The value.
            at: The current step of the run.
        """
        if name not in self._recent or self.is_moved(tracker, name) or is_foreign(value):
            return False
        earlier = self._waiting.get(name, {}).pop(tracker, None)
        if earlier is not None:
            self._move(tracker, name, earlier)
            return False
        one = Waiting(step, settled(value), at)
        is_equal = self._is_equal(tracker, name, one, is_last=False)
        if is_equal is None:
            self._waiting.setdefault(name, {})[tracker] = one
        elif not is_equal:
            self._move(tracker, name, one, is_given=False)
        return is_equal is not False

    def is_moved(self, tracker: str, name: str) -> bool:
        """Return whether the values of a tracker have its name before theirs."""
        return (tracker, name) in self._moved

    def end(self) -> None:
        """Record the values that still wait, under the trackers' names."""
        waiting, self._waiting = self._waiting, {}
        for name, found in waiting.items():
            for tracker, one in found.items():
                self._record(tracker, name, one)

    def _is_equal(self, tracker: str, name: str, one: Waiting, *, is_last: bool) -> bool | None:
        """Return whether the value equals the script's own; None if that may still follow.

        Args:
            tracker: Name of the tracker.
            name: Name of the value.
            one: The tracker's value.
            is_last: Whether a value without a step is compared with the newest own value only.
        """
        recent, count = self._recent[name], self._count[name]
        if one.step is not None:
            own = [value for step, value in recent if step == one.step]
            if not own:
                return False if recent[-1][0] > one.step else None
            return any(is_same(value, one.value) for value in own)
        if is_last or self._compared.get((tracker, name)) != count:
            if is_same(recent[-1][1], one.value):
                self._compared[tracker, name] = count
                return True
            return False if is_last else None
        return None

    def _move(self, tracker: str, name: str, one: Waiting, *, is_given: bool = True) -> None:
        """Record the tracker's values under its name from now on, this one included."""
        self._moved.add((tracker, name))
        if tracker not in self._warned:
            self._warned.add(tracker)
            LOG.warning(
                'tocsin: "%s" is logged both to tocsin and to %s, with different values or steps. '
                'The values of %s are recorded as "%s/%s".',
                *(name, tracker, tracker, tracker, name),
            )
        if is_given:
            self._record(tracker, name, one)

    def _record(self, tracker: str, name: str, one: Waiting) -> None:
        """Record a value that has waited, unless the script has changed its memory since."""
        value = one.value
        if isinstance(value, DeviceValue):
            if value.version is not None and value.tensor._version != value.version:
                return
            value = value.tensor
        self._give(tracker, name, one.at if one.step is None else one.step, value)


def settled(value: Any) -> Any:
    """Return a value that no longer changes: a float, or a tensor on a device, which is not read."""
    if is_on_device(value):
        return DeviceValue(value.detach(), None if value.is_inference() else value._version)
    return float(value.item() if hasattr(value, "item") else value)


def is_on_device(value: Any) -> bool:
    """Return whether reading a value would wait for a device."""
    return getattr(getattr(value, "device", None), "type", "cpu") != "cpu"


def is_foreign(value: Any) -> bool:
    """Return whether a value is on a device whose values the hook does not read, such as XLA's."""
    return is_on_device(value) and value.device.type != "cuda"


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, NaN too. On a device, they are if they are the same memory."""
    if isinstance(one, DeviceValue) or isinstance(other, DeviceValue):
        return (
            isinstance(one, DeviceValue)
            and isinstance(other, DeviceValue)
            and (one.tensor.data_ptr(), one.version) == (other.tensor.data_ptr(), other.version)
        )
    return bool(one == other or (one != one and other != other))
