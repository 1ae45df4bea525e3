"""Class-level patches that serve all attached ledgers, and their undoing.

A patch puts a wrapper where torch looks a function up; the wrapper asks ``ledgers()`` each
time, so it is a plain pass-through while nobody is attached. Somebody else may wrap our
wrapper: then undoing leaves it in place, as a pass-through.
"""

from __future__ import annotations

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
"""An undo's answer: not now."""
Install = Callable[[], None]

attached: tuple[Ledger, ...] = ()
"""Who is told. A tuple that is replaced, never changed: callbacks read it without a lock."""

_undo: list[Undo] = []
_signals: dict[str, str] = {}
_lock = threading.Lock()
"""Held while joining and leaving only, never by a callback."""


def replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts ``make(original)`` at ``owner.name``. Raises AttributeError where there is no such name."""
    original = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
    if original is None:
        where = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", repr(owner))
        raise AttributeError(f"{where}.{name}: expected a function to watch, got nothing of that name")
    wrapper = make(original)
    keep_out(wrapper)
    setattr(owner, name, wrapper)

    def undo() -> None:
        current = vars(owner).get(name)
        if current is wrapper:
            setattr(owner, name, original)

    _undo.append(undo)


def undo_later(undo: Undo) -> None:
    """What is to be called when the last ledger leaves; again at the next leave where it says LATER."""
    _undo.append(undo)


def replace_within(function: Any, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """What ``function`` does becomes ``make(original)``, through every name it was imported by.

    Where it is a decorator's wrapper, the function inside it is exchanged; else its code is exchanged for
    one that calls the watched function, which stays in its module's namespace as a pass-through.
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
    name = f"{_relay.__code__.co_names[0]}_{function.__name__}"  # of its own: a module may have several
    known[name] = wrapper = make(original)
    keep_out(wrapper)
    function.__code__ = _relay.__code__.replace(co_names=(name,))
    _undo.append(lambda: setattr(function, "__code__", code))


def _relay(*args: Any, **kwargs: Any) -> Any:
    """Never called under this name: its code looks the watched function up where it was put."""
    return _tocsin_watched(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def replace_in_all(base: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """``replace`` on ``base`` and on every known subclass that overrides ``name``."""
    replace(base, name, make)
    for cls in subclasses_with(base, name):
        if cls is not base:
            replace(cls, name, make)


def subclasses_with(base: type, name: str) -> list[type]:
    """``base`` and every known subclass whose own body defines ``name``."""
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
    """Adds ``ledger``; the first one brings the patches. Returns what became of each signal."""
    global attached
    with _lock:
        if not attached:
            _take_back()  # in a forked child: the parent's patches are still in place
            _bring(installs)
        attached = (*attached, ledger)
        return dict(_signals)


def detach(ledger: Ledger) -> None:
    """Takes ``ledger`` away; with the last one torch is as it was. Twice is once."""
    global attached
    with _lock:
        attached = tuple(one for one in attached if one is not ledger)
        if not attached:
            _take_back()


def trouble(where: str, error: Exception) -> None:
    """An internal error that concerns every ledger. The wrappers' last net: nothing gets past it."""
    for ledger in attached:
        ledger.trouble(where, error)


def _bring(installs: Mapping[str, Install]) -> None:
    for signal, install in installs.items():
        begun = len(_undo)
        try:
            install()
            _signals[signal] = "ok"
        except Exception as error:
            _take_back(begun)
            _signals[signal] = f"missing: {error}"
            warnings.warn(f"tocsin: no {signal} signal in this torch: {error}", RuntimeWarning, stacklevel=5)


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
    """A forked child (a DataLoader worker) tells nobody; the patches stay as pass-throughs."""
    global attached, _lock
    attached = ()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_silence_in_child)
