"""The imports between the modules of one package, late and guarded ones included."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Import:
    """One imported name. ``late``: in a function, under a condition or in a ``try``."""

    name: str
    late: bool


def modules(package: Path) -> dict[str, Path]:
    """Return dotted name -> file of every module under a package's folder."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def imports(name: str, path: Path) -> tuple[Import, ...]:
    """Return what a module imports as dotted names: for ``from a import b`` both ``a`` and ``a.b``."""
    return tuple(_imports(name, path))


def _imports(name: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text("utf-8"))
    parts = name.split(".")
    base = parts if path.stem == "__init__" else parts[:-1]
    immediate = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        late = id(node) not in immediate
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = base[: len(base) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield Import(source, late)
            yield from (Import(f"{source}.{alias.name}", late) for alias in node.names)


def graph(package: Path) -> Graph:
    """Return module -> the modules of the same package that it imports.

    ``from a import b`` is an import of the module ``a.b`` if there is one, else of ``a``.
    """
    known = modules(package)
    found = {}
    for name, path in known.items():
        names = {one.name for one in imports(name, path) if one.name in known}
        prefixes = {one.rpartition(".")[0] for one in names if one.rpartition(".")[0] in names}
        plain = {one for one in names if one not in prefixes or _has_symbols(name, path, one, known)}
        found[name] = frozenset(plain - {name})
    return found


def _has_symbols(name: str, path: Path, source: str, known: Mapping[str, Path]) -> bool:
    """Return whether a module imports more of ``source`` than its submodules."""
    names = [one.name for one in imports(name, path)]
    return any(one.rpartition(".")[0] == source and one not in known for one in names)


def cycle(graph: Graph) -> list[str]:
    """Return the modules of one import cycle, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def upward(graph: Graph, order: Sequence[str]) -> list[str]:
    """Return the imports of a package that comes later in ``order``, as ``a.b -> a.c``.

    Args:
        graph: the imports of the modules.
        order: names of packages and modules below the top package; the top package itself is its own name.
    """
    place = {name: at for at, name in enumerate(order)}
    return [
        f"{module} -> {other}"
        for module, others in graph.items()
        for other in sorted(others)
        if place[package_of(other)] > place[package_of(module)]
    ]


def package_of(module: str) -> str:
    """Return the package that a module belongs to: ``core`` for ``tocsin.core.values``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]
