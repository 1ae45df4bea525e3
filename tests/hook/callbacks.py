"""Every function of the hook that runs on the training thread, found in its modules, and how to break one.

New functions are found automatically. The tests that use this list fail until a training reaches each of
them, so none stays untested.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import tocsin.capture
import tocsin.preflight

PACKAGES: tuple[ModuleType, ...] = (tocsin.capture, tocsin.preflight)
MODULES = (
    *("api.run", "api.reporter", "api.server_requests", "api.batches", "api.nonfinite_inputs", "api.scalars"),
    *("api.step_count", "core.values", "transport.encoding"),
)

THE_SCRIPTS = {
    name for name in vars(importlib.import_module("tocsin.api.run").Run) if not name.startswith("_")
}
"""What the script calls: no callbacks, they are what the guards stand in."""
NETS = (
    *(".report_error", ".Run.__enter__", ".Run.__exit__", ".Run.__aenter__", ".Run.__aexit__"),
    *("optimizer._before_step", "optimizer._after_step"),
)
"""The guards themselves."""

reached: list[str] = []
"""Calls of the function that is broken."""


def _broken(*args: Any, **kwargs: Any) -> Any:
    import tests.hook.callbacks  # its globals are those of the function whose code is replaced

    tests.hook.callbacks.reached.append("called")
    raise RuntimeError("injected")


@contextmanager
def broken(function: FunctionType) -> Iterator[list[str]]:
    """Make ``function`` raise during the block, under whatever name it is called; yield its calls."""
    code = function.__code__
    reached.clear()
    function.__code__ = _broken.__code__
    try:
        yield reached
    finally:
        function.__code__ = code


def callbacks() -> dict[str, FunctionType]:
    """Return each function by its place, such as ``capture.ledger.Ledger.record``."""
    found: dict[str, FunctionType] = {}
    for module in _modules():
        place = module.__name__.removeprefix("tocsin.")
        for name, value in vars(module).items():
            if _is_class(value, module.__name__):
                found.update({f"{place}.{name}.{method}": one for method, one in _methods(value)})
            elif _is_ours(value, module.__name__):
                found[f"{place}.{name}"] = value
    return {place: found[place] for place in sorted(found) if not place.endswith(NETS)}


def _modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        yield package
        for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(one.name)
    yield from (importlib.import_module(f"tocsin.{name}") for name in MODULES)


def _is_class(value: Any, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module and not getattr(value, "_is_protocol", False)


def _is_ours(value: Any, module: str) -> bool:
    """Return whether it is written in the module; methods that a dataclass generates are not."""
    ours = isinstance(value, FunctionType) and value.__module__ == module and not value.__closure__
    return ours and not value.__code__.co_filename.startswith("<")


def _methods(cls: type) -> Iterator[tuple[str, FunctionType]]:
    for name, value in vars(cls).items():
        function: Any = value.fget if isinstance(value, property) else value
        if _is_ours(function, cls.__module__) and not (cls.__name__ == "Run" and name in THE_SCRIPTS):
            yield name, function
