"""Start capture when torch is imported: a script may call ``watch`` first and import torch later, or never.

Importing torch takes seconds and hundreds of megabytes, which a process that does not use it (JAX, NumPy)
must not spend.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # keep this module small: under ``tocsin run``, every Python process imports it
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def when_imported(name: str, call: Callable[[], None]) -> Callable[[], None]:
    """Call ``call`` once, right after the module ``name`` has been imported.

    Args:
        name: A module that is not imported yet.
        call: Must not raise.

    Returns:
        A function that undoes it.
    """
    finder = next((each for each in sys.meta_path if isinstance(each, _Finder) and each.name == name), None)
    if finder is None:
        finder = _Finder(name)
        sys.meta_path.insert(0, finder)
    own = functools.partial(call)
    finder.calls.append(own)

    def undo() -> None:
        if own in finder.calls:
            finder.calls.remove(own)
        if not finder.calls:
            finder.remove()

    return undo


class _Finder:
    """Meta path finder that is removed as soon as its module is found. There is one for each module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[Callable[[], None]] = []

    def remove(self) -> None:
        """Remove this finder."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module with the other finders, and call back after its execution."""
        if fullname != self.name:
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
            for call in self.calls:
                call()


def _follow(loader: Any, executed: Callable[[], None]) -> None:
    """Call ``executed`` after this loader has executed its module."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        loader.__dict__.pop("exec_module", None)
        execute(module)
        executed()

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return  # another kind of loader: capture starts with the next watch
