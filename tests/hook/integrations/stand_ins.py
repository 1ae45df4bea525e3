"""Stand-ins for frameworks: versions with every module, class and hook except those that a test names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ALSO = {"optax": "jax"}
"""A further package that an integration imports."""


class Lenient(type):
    """Class of the stand-ins for classes: they have every attribute except those in ``lacking``."""

    lacking: Sequence[str] = ()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or name in cls.lacking:
            raise AttributeError(f"there is no {name}")
        return lenient(name, cls.lacking)

    def __contains__(cls, _: Any) -> bool:
        return False


def lenient(name: str, lacking: Sequence[str]) -> Any:
    """Return a class that can be called like a function too. fastai reads ``order``."""
    return Lenient(name, (), {"lacking": lacking, "__init__": lambda *_, **__: None, "order": 50})


class Module(ModuleType):
    """A module that has every class except those in ``lacking``."""

    def __init__(self, name: str, lacking: Sequence[str]) -> None:
        super().__init__(name)
        self.__path__ = []
        self.lacking = lacking

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.lacking:
            raise AttributeError(f"there is no {name}")
        setattr(self, name, lenient(name, self.lacking))
        return vars(self)[name]


class Finder:
    """Finds every module of some packages."""

    def __init__(self, packages: Sequence[str], lacking: Sequence[str]) -> None:
        self.packages, self.lacking = packages, lacking

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """Return how to import a module."""
        return ModuleSpec(name, self) if name.partition(".")[0] in self.packages else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a stand-in."""
        return Module(spec.name, self.lacking)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


@contextmanager
def installed(integration: str, *lacking: str) -> Iterator[Any]:
    """Import an integration where a version of its framework is installed that lacks these names."""
    name, packages = f"tocsin.integrations.{integration}", (integration, ALSO.get(integration, ""))
    before = set(sys.modules)
    finder: Any = Finder(packages, lacking)
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(name)
    finally:
        sys.meta_path.remove(finder)
        for one in sys.modules.keys() - before:
            if one == name or one.partition(".")[0] in packages:
                del sys.modules[one]
