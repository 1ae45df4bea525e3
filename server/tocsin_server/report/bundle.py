"""Join the JavaScript modules of the pages into one script, because a file on disk cannot import modules."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|const|class) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*|import\.meta|\bimport\(\"", re.MULTILINE)


class BundleError(Exception):
    """A module uses a form of import or export that cannot be joined, or imports itself in a circle."""


@cache
def bundle(entry: Path) -> str:
    """Return a script that runs the module ``entry`` and all modules that it imports.

    Each module becomes a function that returns its exports. Only named imports and exports are supported;
    the pages use no others.

    Raises:
        BundleError: A module cannot be joined.
    """
    names: dict[Path, str] = {}
    parts: list[str] = []
    _add(entry.resolve(), names, parts, ())
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


def _add(path: Path, names: dict[Path, str], parts: list[str], importers: tuple[Path, ...]) -> str:
    """Add a module after those that it imports, unless it was added already; return its name."""
    if path in importers:
        raise BundleError(f"{path}: imports itself through {importers[-1]}")
    if path in names:
        return names[path]

    def imported(found: re.Match[str]) -> str:
        module = _add((path.parent / found[2]).resolve(), names, parts, (*importers, path))
        return f"const {{{found[1].replace(' as ', ': ')}}} = {module};"

    text = path.read_text("utf-8")
    exports = ", ".join(found[1] for found in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(imported, text))
    left = _LEFT.search(re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
    if left is not None:
        raise BundleError(f"{path}: cannot join {left[0]!r}")
    names[path] = f"module{len(names)}"
    parts.append(f"const {names[path]} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();")
    return names[path]
