"""Call a function once, when training begins in this process. Processes that do not train call nothing.

torch's functions are replaced until then, as soon as torch is imported.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

from .import_hook import when_imported

Point = tuple[str, str]
"""Object in torch and the name of its function, whose first call is the beginning of the training."""
BACKWARD = ("autograd", "backward")
NEW_OPTIMIZER = ("optim.Optimizer", "__init__")
SCALE = ("amp.GradScaler", "scale")
CUDA_SCALE = ("cuda.amp.GradScaler", "scale")
"""The same class or a subclass since torch 2.3."""

_waiting: list[_Waiting] = []
_running: list[Any] = []
"""The handle of the step hook that begins the training now."""


def wait_for(call: Callable[[], None], *points: Point, step: bool = False) -> None:
    """Call ``call`` once, at the first call of one of ``points``.

    Args:
        call: Must not raise.
        points: The functions to wait for; those that this version of torch lacks are ignored.
        step: Wait for the first step of any optimizer too.
    """
    waiting = _Waiting(call)
    _waiting.append(waiting)
    place = functools.partial(waiting.place, points, step)
    if "torch" in sys.modules:
        place()
    else:
        when_imported("torch", place)


def stop_waiting() -> None:
    """Stop waiting, because the script has started a run."""
    for waiting in tuple(_waiting):
        waiting.stop()


def running_hook() -> Any:
    """Return the handle of the step hook that begins the training now, for the caller's own hook; else None.

    torch iterates over its hooks then: one may be replaced, but none added or removed.
    """
    return _running.pop() if _running else None


class _Waiting:
    """One function that waits for the training, and what it has replaced in torch."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._placed: list[tuple[Any, str, Any, Any]] = []
        """Owner, name, original and replacement of each function."""
        self._handles: list[Any] = []
        """Handles of torch's own hooks."""

    def place(self, points: tuple[Point, ...], step: bool) -> None:
        """Replace the functions; ``step``: also hook the steps of all optimizers."""
        if self not in _waiting:
            return
        try:
            for path, name in points:
                with contextlib.suppress(AttributeError, KeyError):
                    owner = functools.reduce(getattr, path.split("."), sys.modules["torch"])
                    original = vars(owner)[name]
                    replacement = self._first_of(owner, name, original)
                    setattr(owner, name, replacement)
                    self._placed.append((owner, name, original, replacement))
            if step:
                from torch.optim.optimizer import register_optimizer_step_pre_hook

                self._handles.append(register_optimizer_step_pre_hook(self._before_step))
        except Exception as error:
            warn("tocsin: training in this process cannot be detected: %s", error)

    def stop(self) -> None:
        """Restore torch's functions, unless someone else has wrapped them since."""
        if self in _waiting:
            _waiting.remove(self)
        while self._handles:
            self._handles.pop().remove()
        while self._placed:
            owner, name, original, replacement = self._placed.pop()
            if getattr(owner, name) is replacement:
                setattr(owner, name, original)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Begin, then call the hook that replaced this one, because the step is the first for it, too."""
        if self not in _waiting or not self._handles:
            return
        handle = self._handles.pop()
        _running.append(handle)
        self._begin()
        if running_hook() is None:
            handle.hooks_dict_ref()[handle.id](optimizer, args, kwargs)

    def _begin(self) -> None:
        self.stop()
        self._call()

    def _first_of(self, owner: Any, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Begin at the first call, then call the function that is installed by then."""

        @functools.wraps(original)
        def first(*args: Any, **kwargs: Any) -> Any:
            if self not in _waiting:
                return original(*args, **kwargs)
            self._begin()
            now = getattr(owner, name)
            return (original if now is first else now)(*args, **kwargs)

        return first


def warn(text: str, *arguments: object) -> None:
    """Log a warning. Imports ``logging`` only now, because a process that trains nothing needs none."""
    import logging

    logging.getLogger("tocsin").warning(text, *arguments)
