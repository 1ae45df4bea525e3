"""Patch torch's classes for all attached ledgers, and undo it.

A patch replaces a function by a wrapper. The wrapper reads ``attached`` at each call, so it only calls the
original while nothing is attached. If someone else has wrapped our wrapper, undoing leaves it in place.
"""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from .compiler import keep_out
from .ledger import Ledger

Undo = Callable[[], Any]
LATER = object()
"""Result of an undo that has to be repeated later."""
Install = Callable[[], None]

attached: tuple[Ledger, ...] = ()
"""The ledgers to report to. This tuple is replaced, never changed, so that callbacks can read it without a
lock."""

_undo: list[Undo] = []
_signals: dict[str, str] = {}
_lock = threading.RLock()
"""Held while attaching and detaching, never by a callback."""


def replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace ``owner.name`` by ``make(original)``.

    Raises:
        AttributeError: There is no such attribute.
    """
    original = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if original is None:
        where = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", repr(owner))
        raise AttributeError(f"{where} has no {name} in this version of torch")
    wrapper = make(original)
    keep_out(wrapper)
    setattr(owner, name, wrapper)

    def undo() -> None:
        current = vars(owner).get(name)
        if current is wrapper:
            setattr(owner, name, original)

    _undo.append(undo)


def undo_later(undo: Undo) -> None:
    """Call ``undo`` when the last ledger is detached, and again at the next one if it returns LATER."""
    _undo.append(undo)


def replace_within(function: Any, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace what ``function`` does by ``make(original)``, also under names that were imported before.

    Of a decorator's wrapper, the inner function is replaced. Otherwise the function's code is replaced by
    code that calls the wrapper, which stays in the module's namespace.
    """
    inner = getattr(function, "__wrapped__", None)
    holders = [cell for cell in function.__closure__ or () if cell.cell_contents is inner]
    if inner is None or not holders:
        _replace_code(function, make)
        return
    holders[0].cell_contents = wrapper = make(inner)
    keep_out(wrapper)
    _undo.append(lambda: setattr(holders[0], "cell_contents", inner))


def _replace_code(function: Any, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    code, known = function.__code__, function.__globals__
    original = FunctionType(code, known, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__
    name = f"{_relay.__code__.co_names[0]}_{function.__name__}"  # a module may have several
    known[name] = wrapper = make(original)
    keep_out(wrapper)
    function.__signature__ = inspect.signature(function)
    function.__code__ = _relay.__code__.replace(co_names=(name,))

    def undo() -> None:
        function.__code__ = code
        vars(function).pop("__signature__", None)

    _undo.append(undo)


def _relay(*args: Any, **kwargs: Any) -> Any:
    """Template: its code is changed to look up the wrapper by another name."""
    return _tocsin_watched(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def replace_in_all(base: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Call ``replace`` for ``base`` and every known subclass that overrides ``name``.

    Args:
        base: The class.
        name: Name of the method.
        make: Returns the wrapper of an original method.
    """
    replace(base, name, make)
    for cls in subclasses_with(base, name):
        if cls is not base:
            replace(cls, name, make)


def subclasses_with(base: type, name: str) -> list[type]:
    """Return ``base`` and every known subclass that define ``name`` themselves."""
    found, seen = [], {base}
    waiting = [base]
    while waiting:
        cls = waiting.pop()
        if name in vars(cls):
            found.append(cls)
        subs: list[type] = cls.__subclasses__()
        fresh = [sub for sub in subs if sub not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return found


def join(ledger: Ledger, installs: Mapping[str, Install]) -> dict[str, str]:
    """Attach ``ledger``. The first one installs the patches.

    Returns:
        Signal -> ``"ok"``, or why it is missing.
    """
    global attached
    with _lock:
        if not attached:
            _take_back()  # in a forked child: the parent's patches are still in place
            _bring(installs)
        attached = (*attached, ledger)
        return dict(_signals)


def detach(ledger: Ledger) -> None:
    """Detach ``ledger``. The last one removes the patches. May be called again."""
    global attached
    with _lock:
        attached = tuple(one for one in attached if one is not ledger)
        if not attached:
            _take_back()


def install_late(install: Install) -> None:
    """Add a patch of a module that was imported after attaching, if something is still attached."""
    with _lock:
        begun = len(_undo)
        try:
            if attached:
                install()
        except Exception as error:
            _take_back(begun)
            report_error("patch", error)


def report_error(where: str, error: Exception) -> None:
    """Report an internal error to all ledgers. Never raises."""
    for ledger in attached:
        ledger.report_error(where, error)


def _bring(installs: Mapping[str, Install]) -> None:
    for signal, install in installs.items():
        begun = len(_undo)
        try:
            install()
            _signals[signal] = "ok"
        except Exception as error:
            _take_back(begun)
            _signals[signal] = f"missing: {error}"
            warnings.warn(f"tocsin: {signal} is not captured: {error}", RuntimeWarning, stacklevel=5)


def _take_back(keep: int = 0) -> None:
    later = []
    while len(_undo) > keep:
        undo = _undo.pop()
        try:
            if undo() is LATER:
                later.append(undo)
        except Exception:
            pass
    _undo.extend(later)


def _silence_in_child() -> None:
    """In a forked child (a DataLoader worker): detach all, and leave the patches in place."""
    global attached, _lock
    attached = ()
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence_in_child)
