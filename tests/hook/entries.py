"""The entry points of the hook, found in its code: what is called in a ``try`` that reports errors."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

MODULES = [
    *("capture.loss", "capture.optimizer", "capture.scaler", "capture.gradients", "capture.ledger"),
    *("api.run", "api.reporter"),
]
CLASSES = [("capture.ledger", "Ledger"), ("api.reporter", "RunReporter"), ("api.run", "Run")]
PUBLIC = {"log", "event", "take", "step", "check", "evaluate"}


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"tocsin.{name}")


def guarded() -> list[tuple[Any, str]]:
    """Return (module or class, name) of each callback, sorted by name."""
    found: dict[tuple[str, str], tuple[Any, str]] = {}
    for name in MODULES:
        module = _module(name)
        for call in _guarded_calls(ast.parse(inspect.getsource(module))):
            owner = _owner(module, call)
            if owner is not None and _name(call) not in PUBLIC:
                found[owner.__name__, _name(call)] = (owner, _name(call))
    return [found[key] for key in sorted(found)]


def _guarded_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(_tells_trouble(handler) for handler in node.handlers):
            for statement in node.body:
                yield from (call for call in ast.walk(statement) if isinstance(call, ast.Call))


def _tells_trouble(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(one, ast.Call) and _name(one) == "report_error" for one in ast.walk(handler))


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", None) or getattr(call.func, "id", ""))


def _owner(module: ModuleType, call: ast.Call) -> Any:
    """Return where the called function is looked up: the module or one of our classes; None for others.

    The script's own calls (``run.log``) are not callbacks: they contain the guards.
    """
    name = _name(call)
    if isinstance(call.func, ast.Name):
        known = inspect.isfunction(vars(module).get(name))
        return module if known and vars(module)[name].__module__.startswith("tocsin") else None
    if not isinstance(call.func, ast.Attribute):
        return None
    classes = [getattr(_module(place), cls) for place, cls in CLASSES]
    return next((cls for cls in classes if inspect.isfunction(vars(cls).get(name))), None)
