"""Find the modules that a page of ``web/`` imports, so that a browser loads them at once.

Otherwise it learns of each module from the one that imports it: on a run's page, through ten round trips.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

_IMPORT = re.compile(r"""^(?:import|export)\b[^;"'()]*?["'](\.[^"']+)["'];""", re.MULTILINE)
"""A static import or export, which prettier begins at the start of a line; ``import(...)`` is none."""
PAGES = {"": "fleet", "runs": "run", "incidents": "incident"}
"""Modules of pages whose address begins with another word."""


class ModuleGraph:
    """The static imports of ``web/``; modules are read once for a version."""

    def __init__(self, web: Path) -> None:
        self._web = web
        self._version = ""
        self._imports: dict[str, Sequence[str]] = {}

    def modules_of(self, version: str, address: str) -> list[str]:
        """Return the modules of a page, as paths relative to ``web/``, those needed first at the beginning.

        Args:
            version: The version of ``web/``; what was read of another one is forgotten.
            address: Path of the page, such as ``/runs/r_1``.
        """
        if version != self._version:
            self._version, self._imports = version, {}
        word = address.strip("/").partition("/")[0]
        found = dict.fromkeys(("main.js", f"pages/{PAGES.get(word, word)}.js"))
        waiting = list(found)
        for module in waiting:
            fresh = [each for each in self._imported(module) if each not in found]
            found.update(dict.fromkeys(fresh))
            waiting += fresh
        return [module for module in found if self._imports[module] or (self._web / module).is_file()]

    def _imported(self, module: str) -> Sequence[str]:
        """Return what a module imports; a missing one imports nothing."""
        known = self._imports.get(module)
        if known is None:
            try:
                text = (self._web / module).read_text("utf-8")
            except FileNotFoundError:
                text = ""
            folder = posixpath.dirname(module)
            known = tuple(posixpath.normpath(posixpath.join(folder, path)) for path in _IMPORT.findall(text))
            self._imports[module] = known
        return known


def preloads(modules: Sequence[str], base: str) -> str:
    """Return the elements of ``index.html`` that load modules in advance, from addresses below ``base``."""
    return "".join(f'<link rel="modulepreload" href="{base}{module}" />' for module in modules)
