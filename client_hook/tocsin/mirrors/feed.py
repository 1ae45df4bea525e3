"""Pass what a script logs to a tracker on to the active run.

The tracker's method is called first, with the arguments as given. Its result is returned and its exceptions
are raised unchanged. Only numbers and arrays of one element are passed on, by reference: media are never
touched, and a tensor on a device is read as ``run.log`` reads it, without waiting for the device.
"""

from __future__ import annotations

import functools
import logging
import numbers
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..core.process_state import active_runs, auto_start
from ..core.values import step_of
from .options import chosen
from .own_values import OwnValues

HELD = 1000
"""Maximum number of rows that wait for the run to begin, or for its thread; the oldest are dropped."""
NAMES = 4096
"""Maximum number of names whose first tracker is remembered."""
DEEP = 8
"""Maximum depth of nested mappings."""
NUMBERS = "?biufV"
"""Kinds of NumPy types that are numbers. V: bfloat16 and other types of ml_dtypes."""

LOG = logging.getLogger("tocsin")


class Row(NamedTuple):
    """What one call logs."""

    values: Mapping[str, Any]
    step: Any = None
    """The step that the script gave; None: the current one."""
    counted: int | None = None
    """The step that the tracker itself has counted, for a run in which nothing else counts steps."""


Read = Callable[..., Iterable[Row]]
"""Called with the arguments of the tracker's method. Returns what the call has logged."""


def follow(tracker: str, owner: type, name: str, read: Read) -> Callable[..., Any]:
    """Pass on what each call of ``owner.name`` logs.

    Args:
        tracker: Name of the tracker.
        owner: A class of the tracker.
        name: Name of its method, which may be that of a base class.
        read: Returns the rows of a call.

    Returns:
        The original method.

    Raises:
        AttributeError: The class has no such method in this version.
    """
    holder = next((cls for cls in owner.__mro__ if name in vars(cls)), None)
    if holder is None:
        version = getattr(sys.modules.get(owner.__module__.partition(".")[0]), "__version__", "?")
        raise AttributeError(f"{owner.__name__} of version {version} has no method {name}")
    original = vars(holder)[name]

    @functools.wraps(original)
    def logged(*args: Any, **kwargs: Any) -> Any:
        if getattr(_inside, "tracker", None) is not None:
            return original(*args, **kwargs)  # called by a mirrored method, whose values are passed on
        _inside.tracker = tracker
        try:
            result = original(*args, **kwargs)
        finally:
            _inside.tracker = None
        try:
            for row in read(*args, **kwargs):
                feed.take(tracker, row)
        except Exception as error:
            feed.report_error(tracker, error)
        return result

    setattr(holder, name, logged)
    return original  # type: ignore[no-any-return]


_inside = threading.local()


def flat(values: Mapping[Any, Any], separator: str = "/", deep: int = DEEP) -> Iterator[tuple[str, Any]]:
    """Yield names and values, those of nested mappings with joined names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and deep:
            for inner, one in flat(value, separator, deep - 1):
                yield f"{name}{separator}{inner}", one
        else:
            yield str(name), value


def is_number(value: Any) -> bool:
    """Return whether a value is a number, or an array or tensor of one number. Reads no element."""
    if type(value) in (float, bool):
        return True
    if hasattr(value, "dtype") and hasattr(value, "item"):
        if getattr(value.dtype, "kind", "f") not in NUMBERS or getattr(value.dtype, "is_complex", False):
            return False
        size = value.numel() if callable(getattr(value, "numel", None)) else getattr(value, "size", 0)
        return bool(size == 1)
    return isinstance(value, numbers.Real) and _is_float(value)


def _is_float(value: Any) -> bool:
    try:
        float(value)
    except OverflowError:  # an integer beyond the largest float
        return False
    return True


class Feed:
    """Rows on their way to the active run. There is one for the process."""

    def __init__(self) -> None:
        self._held: deque[tuple[str, Row]] = deque(maxlen=HELD)
        """Rows before the run, oldest first."""
        self._elsewhere: deque[tuple[str, Row]] = deque(maxlen=HELD)
        """Rows of other threads than that of the run."""
        self._owners: dict[str, str] = {}
        """Name -> the tracker that logged it first in this run."""
        self._own = OwnValues(self._give_one)
        """What the script itself logs in this run."""
        self._giving = 0
        """The thread on which a tracker's values are given to the run."""
        self._run: Any = None
        self._thread = 0
        """Weak reference to the run that the rows go to, and the thread that began it."""
        self._process = os.getpid()
        self._failed: set[str] = set()
        self._warned = False

    def begin(self, run: Any) -> None:
        """Give ``run`` the rows that were logged before it began. Called on its thread."""
        self._check_process()
        self._run, self._thread = weakref.ref(run), threading.get_ident()
        self._owners.clear()
        self._own = OwnValues(self._give_one)
        run.on_log = self.keep_own
        while self._held:
            self._give(run, *self._held.popleft())

    def take(self, tracker: str, row: Row) -> None:
        """Pass on one row of a tracker."""
        values = {name: value for name, value in flat(row.values) if is_number(value)}
        if not values:
            return
        row = row._replace(values=values)
        self._check_process()
        run = active_runs[-1] if active_runs else None
        if run is None:
            self._hold(tracker, row)
            return
        if self._run is None or self._run() is not run:
            self.begin(run)
        if threading.get_ident() == self._thread:
            self._give(run, tracker, row)
        else:
            self._elsewhere.append((tracker, _settled(row)))
            if len(self._elsewhere) == 1:
                run.call_later(self.deliver)

    def keep_own(self, step: int, names: Iterable[Any], values: Iterable[Any]) -> None:
        """Keep what the script itself gives the run, for comparison with what it gives to trackers."""
        if self._giving != threading.get_ident():
            found = flat(dict(zip(names, values, strict=True)))
            self._own.log(step, [(name, value) for name, value in found if is_number(value)])

    def end(self) -> None:
        """Give the run what is left. Called on its thread, before it ends."""
        self.deliver()
        self._own.end()

    def deliver(self) -> None:
        """Give the run the rows of other threads. Called on its thread."""
        run = self._run() if self._run is not None else None
        while self._elsewhere:
            tracker, row = self._elsewhere.popleft()
            if run is not None:
                self._give(run, tracker, row)

    def report_error(self, tracker: str, error: Exception) -> None:
        """Warn once that a tracker's values could not be read."""
        if tracker not in self._failed:
            self._failed.add(tracker)
            LOG.warning("tocsin: values logged to %s are not mirrored: %r", tracker, error)

    def _give(self, run: Any, tracker: str, row: Row) -> None:
        is_own = tracker not in chosen or chosen[tracker].steps == "tracker"
        step = row.step if is_own else None
        if step is None and row.counted is not None and run.counts_by_log:
            step = row.counted
        at = run.current_step
        given = None if step is None else whole_step(step)
        values = {
            self._name(tracker, name): value
            for name, value in row.values.items()
            if not self._own.takes(tracker, name, given, value, at)
        }
        if values:
            self._log(run, values, step)

    def _give_one(self, tracker: str, name: str, step: int, value: Any) -> None:
        """Give the run a value that has waited for the script's own."""
        run = self._run() if self._run is not None else None
        if run is not None:
            self._log(run, {f"{tracker}/{name}": value}, step)

    def _log(self, run: Any, values: dict[str, Any], step: Any) -> None:
        self._giving = threading.get_ident()
        try:
            run.log(values, step=step)
        finally:
            self._giving = 0

    def _name(self, tracker: str, name: str) -> str:
        """Return the name under which a value is sent: with the tracker's if another one owns it."""
        if len(self._owners) < NAMES:
            owner = self._owners.setdefault(name, tracker)
        else:
            owner = self._owners.get(name, tracker)
        is_first = owner == tracker and not self._own.is_moved(tracker, name)
        return name if is_first else f"{tracker}/{name}"

    def _hold(self, tracker: str, row: Row) -> None:
        """Keep a row until the run begins. Under ``tocsin run`` without torch, a series begins it."""
        if len(self._held) == HELD and not auto_start and not self._warned:
            self._warned = True
            LOG.warning(
                "tocsin: %s has logged %d rows and no run has begun, so older rows are left out. "
                'Call tocsin.watch("project") before the training.',
                tracker,
                HELD,
            )
        repeats = any(not row.values.keys().isdisjoint(one.values) for _, one in self._held)
        self._held.append((tracker, _settled(row)))
        if repeats and auto_start and "torch" not in sys.modules:
            auto_start[0]()

    def _check_process(self) -> None:
        """In a forked child: forget the parent's rows and run."""
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]


def _settled(row: Row) -> Row:
    """Return the row without references to an autograd graph."""
    detached = {
        name: value.detach() if hasattr(value, "detach") else value for name, value in row.values.items()
    }
    return row._replace(values=detached)


def whole_step(value: Any) -> int | None:
    """Return a number as a step if it is whole, else None. A tensor on a device is not read."""
    if type(value) is int:
        return step_of(value)
    if not is_number(value) or getattr(getattr(value, "device", None), "type", "cpu") not in ("cpu",):
        return None
    try:
        number = float(value)
        return step_of(number) if number.is_integer() else None
    except (TypeError, ValueError, OverflowError):
        return None


feed = Feed()
