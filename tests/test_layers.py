"""Imports run one way, as the table in docs/architecture.md says."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "server" / "tocsin_server"
HOOK = ROOT / "client_hook" / "tocsin"
FOREIGN_TO_THE_HOOK = {"torch", "numpy", "psutil", "pynvml"}
"""What belongs to the host or to an extra: the hook may import it late or guarded, never at once."""
CLOCKS_AND_SOCKETS = {"asyncio", "socket", "sqlalchemy", "threading", "time", "datetime", "random"}
PURE = ("detect", "alerts", "fleet", "intake")
NOTIFY_WITH_SOCKETS = {"address", "http", "apprise", "confinement"}
"""What of ``notify/`` may talk to the outside: all else of it is pure."""


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@pytest.fixture(autouse=True, scope="module")
def _no_trees_left() -> Iterator[None]:
    """Half a million objects would slow down every later test that searches the process."""
    yield
    tree.cache_clear()


def package_of(path: Path, source: Path) -> list[str]:
    return list(path.relative_to(source).parts[:-1])


def imported(path: Path, nodes: Iterator[ast.AST]) -> Iterator[str]:
    """Dotted names of all modules that ``nodes`` import; relative ones made absolute."""
    source = ROOT / path.relative_to(ROOT).parts[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package_of(path, source)[: -(node.level - 1) or None] if node.level else []
            prefix = [*base, *(node.module or "").split(".")] if node.module else base
            yield ".".join(prefix)
            yield from (".".join([*prefix, alias.name]) for alias in node.names)


def all_imports(path: Path) -> set[str]:
    return set(imported(path, ast.walk(tree(path))))


def immediate_imports(path: Path) -> set[str]:
    """What is imported at once with the module: not in a function, not under a condition or ``try``."""
    return set(imported(path, iter(tree(path).body)))


@cache
def rows() -> dict[str, int]:
    """Room or module -> row, read from the table in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    found = {}
    for row, cell in re.findall(r"^\| (\d) \| (.+?) \|", text, re.MULTILINE):
        for names in re.findall(r"`([^`]+)`", cell):
            for name in names.split():
                found[name.removesuffix("/").removesuffix(".py")] = int(row)
    return found


def room(path: Path) -> str:
    """The first part of a module's path below the package: ``store`` or ``pipeline``."""
    return path.relative_to(SERVER).parts[0].removesuffix(".py")


def rooms_used(path: Path) -> set[str]:
    """Rooms of the server that a module imports, its own left out."""
    names = {name.split(".")[1] for name in all_imports(path) if name.startswith("tocsin_server.")}
    return (names & rows().keys()) - {room(path)}


SERVER_MODULES = [path for path in modules(SERVER) if path.parent != SERVER or path.name != "__init__.py"]


def of(folder: Path) -> Callable[[Path], str]:
    """How a test names its module: by its path below ``folder``."""
    return lambda path: str(path.relative_to(folder))


@pytest.mark.parametrize("path", SERVER_MODULES, ids=of(SERVER))
def test_every_module_has_a_row(path: Path) -> None:
    """A module of the server belongs to a room of the table."""
    assert room(path) in rows(), f"{room(path)} is in no row of docs/architecture.md"


@pytest.mark.parametrize("path", SERVER_MODULES, ids=of(SERVER))
def test_imports_run_one_way(path: Path) -> None:
    """A module imports lower rows only; row 0 also its own row, higher rows than 1 too, row 1 never."""
    own = rows()[room(path)]
    wrong = {r for r in rooms_used(path) if rows()[r] > own or (rows()[r] == own == 1)}
    assert not wrong, f"row {own} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", [p for p in SERVER_MODULES if room(p) in PURE], ids=of(SERVER))
def test_judging_knows_no_clock_and_no_database(path: Path) -> None:
    """Detection, alerts and the fleet rows take data and time as arguments."""
    used = {name.split(".")[0] for name in all_imports(path)}
    assert not used & CLOCKS_AND_SOCKETS


NOTIFY = [p for p in SERVER_MODULES if room(p) == "notify" and p.stem not in NOTIFY_WITH_SOCKETS]


@pytest.mark.parametrize("path", NOTIFY, ids=of(SERVER))
def test_routing_knows_no_clock_and_no_database(path: Path) -> None:
    """Routes, silences, groups, limits and messages take data and time as arguments."""
    used = {name.split(".")[0] for name in all_imports(path)}
    assert not used & (CLOCKS_AND_SOCKETS - {"datetime"})


@pytest.mark.parametrize("path", SERVER_MODULES, ids=of(SERVER))
def test_the_server_needs_no_torch(path: Path) -> None:
    """Only the demo's trainings import torch."""
    used = {name.split(".")[0] for name in all_imports(path)}
    assert "torch" not in used or path.parent == SERVER / "demo" / "trainings"


@pytest.mark.parametrize("path", modules(HOOK), ids=of(HOOK))
def test_the_hook_never_imports_the_server(path: Path) -> None:
    """Not even late or guarded."""
    assert not {name for name in all_imports(path) if name.split(".")[0] == "tocsin_server"}


@pytest.mark.parametrize("path", modules(HOOK), ids=of(HOOK))
def test_the_hook_brings_little_along(path: Path) -> None:
    """At once it imports the standard library, websockets and msgspec; capture/ torch too, and comes late."""
    host = {"torch"} if in_capture(path) else set()
    allowed = {"tocsin", "websockets", "msgspec"} | sys.stdlib_module_names
    assert {name.split(".")[0] for name in immediate_imports(path)} <= allowed | host
    assert {name.split(".")[0] for name in all_imports(path)} <= allowed | FOREIGN_TO_THE_HOOK
    assert in_capture(path) or not any(n.startswith("tocsin.capture") for n in immediate_imports(path))


def in_capture(path: Path) -> bool:
    return HOOK / "capture" in path.parents


def test_relative_imports_are_seen() -> None:
    """The test itself: ``from .run import Run`` in the hook counts as ``tocsin.run``."""
    names = set(imported(HOOK / "x.py", iter(ast.parse("from .run import Run").body)))
    assert "tocsin.run" in names


SOURCES = [*modules(SERVER), *modules(HOOK), *sorted((ROOT / "web").rglob("*.js"))]


@pytest.mark.parametrize("path", [*SOURCES, *modules(ROOT / "tests")], ids=of(ROOT))
def test_modules_are_called_after_something(path: Path) -> None:
    """A module's name is a noun of the field."""
    assert path.stem not in {"utils", "util", "manager", "helpers", "helper", "misc", "common"}
