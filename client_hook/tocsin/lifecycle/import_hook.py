"""Capture that waits for torch: a script may call ``watch`` first and import torch later, or never.

A process that does not use torch (JAX, NumPy) must not pay for it: seconds and hundreds of megabytes.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(name: str, call: Callable[[], None]) -> Callable[[], None]:
    """Call ``call`` once, right after module ``name`` has been imported; returns what takes that back.

    Args:
        name: a top-level module that is not imported yet.
        call: must not raise.
    """
    finder = _Finder(name, call)
    sys.meta_path.insert(0, finder)
    return finder.remove


class _Finder(importlib.abc.MetaPathFinder):
    """First in the search for modules, and gone from it as soon as the awaited one is searched for."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name = name
        self._call = call

    def remove(self) -> None:
        """Search as before."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the awaited module as the others do, and call back behind its execution."""
        if fullname != self._name:
            return None
        found = None
        for finder in tuple(sys.meta_path):
            search = getattr(finder, "find_spec", None)
            found = search(fullname, path, target) if search is not None and finder is not self else None
            if found is not None:
                break
        if found is not None and found.loader is not None and self in sys.meta_path:
            _follow(found.loader, self._executed)
        return found

    def _executed(self) -> None:
        if self in sys.meta_path:
            self.remove()
            self._call()


def _follow(loader: Any, executed: Callable[[], None]) -> None:
    """Call ``executed`` when this loader, which is this module's only, has executed it."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        loader.__dict__.pop("exec_module", None)
        execute(module)
        executed()

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return  # a loader of another kind: capture begins with the next watch
