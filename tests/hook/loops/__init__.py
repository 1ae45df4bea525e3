"""Training loops as scripts and frameworks write them. Each records its ground truth.

A module's public functions are its loops: each takes a ``Truth`` to note its steps in, and returns the model
that it has trained.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.hook.loops import framework, scaled, several, single, unusual, wrapped
from tests.hook.truth import Truth


def _of(module: ModuleType) -> dict[str, Callable[[Truth], Any]]:
    return {
        name: loop
        for name, loop in vars(module).items()
        if inspect.isfunction(loop) and loop.__module__ == module.__name__ and not name.startswith("_")
    }


LOOPS: dict[str, Callable[[Truth], Any]] = {
    name: loop
    for module in (single, scaled, several, wrapped, framework, unusual)
    for name, loop in _of(module).items()
}
