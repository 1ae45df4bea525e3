"""Join the JavaScript modules of the pages into one script, because a file on disk cannot import modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b(?!\().*", re.MULTILINE)
_ADDRESS = re.compile(r'import\.meta|\bimport\("')
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


class BundleError(Exception):
    """A module uses a form of import or export that cannot be joined, or imports itself in a circle."""


@cache
def bundle(entry: Path) -> str:
    """Return a script that runs the module ``entry`` and all modules that it imports.

    Raises:
        BundleError: A module cannot be joined, or needs its own address.
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

    def imported(address: str) -> str:
        return _add((path.parent / address).resolve(), names, parts, (*importers, path))

    text = path.read_text("utf-8")
    address = _ADDRESS.search(_COMMENT.sub("", text))
    if address is not None:
        raise BundleError(f"{path}: cannot join {address[0]!r}")
    imports = {each: imported(each) for each in imports_of(text)}
    names[path] = f"module{len(names)}"
    parts.append(as_function(path, text, names[path], imports))
    return names[path]


def imports_of(text: str) -> list[str]:
    """Return the addresses from which a module imports."""
    return [found[2] for found in _IMPORT.finditer(text)]


def as_function(path: Path, text: str, name: str, imports: Mapping[str, str]) -> str:
    """Return a module as the definition of ``name``: the result of a function, which has its exports.

    Only named imports and exports are supported; the pages use no others.

    Args:
        path: Of the module, for errors.
        text: Of the module.
        name: A word that no module uses.
        imports: The names of the modules that it imports, by the address in its import.

    Raises:
        BundleError: The module imports or exports in another way.
    """

    def imported(found: re.Match[str]) -> str:
        return f"const {{{found[1].replace(' as ', ': ')}}} = {imports[found[2]]};"

    exports = ", ".join(found[1] for found in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(imported, text))
    left = _LEFT.search(_COMMENT.sub("", body))
    if left is not None:
        raise BundleError(f"{path}: cannot join {left[0]!r}")
    return f"const {name} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"
