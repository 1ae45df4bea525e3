"""Every regular expression of the Python sources is listed with the text that it is applied to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = "docs/internals/regular-expressions.md"
SOURCES = ("server/tocsin_server", "client_hook/tocsin")
ROW = re.compile(r"^\| `([\w./]+\.py)` \| ([^|]+) \|", re.MULTILINE)


def listed() -> dict[str, set[str]]:
    """Return the listed names of each module."""
    found: dict[str, set[str]] = {}
    for path, names in ROW.findall((ROOT / LIST).read_text("utf-8")):
        found.setdefault(path, set()).update(re.findall(r"`([^`]+)`", names))
    return found


def sites(tree: ast.Module) -> Iterator[str]:
    """Yield the names of compiled patterns, and of functions that use ``re`` or ``re2`` directly."""
    for top in tree.body:
        for node in ast.walk(top):
            if isinstance(node, ast.Call) and ast.unparse(node.func).partition(".")[0] in ("re", "re2"):
                yield name_of(top, node)


def name_of(top: ast.stmt, call: ast.Call) -> str:
    if isinstance(top, ast.Assign):
        return ast.unparse(top.targets[0])
    if isinstance(top, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return f"{top.name}()"
    if isinstance(top, ast.ClassDef):
        within = [each for each in top.body if call in ast.walk(each)]
        return name_of(within[0], call) if within else top.name
    return ast.unparse(top)


def modules() -> list[Path]:
    return [path for source in SOURCES for path in sorted((ROOT / source).rglob("*.py"))]


def in_sources(path: Path) -> set[str]:
    return set(sites(ast.parse(path.read_text("utf-8"))))


USING = [path for path in modules() if "re" in path.read_text("utf-8").split() and in_sources(path)]


@pytest.mark.parametrize("path", USING, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_lists_its_regular_expressions(path: Path) -> None:
    """The row states which text each pattern is applied to and what limits its length."""
    name = str(path.relative_to(ROOT))
    assert listed().get(name) == in_sources(path), f"{LIST} does not name the patterns of {name}"


def test_the_list_names_nothing_that_is_gone() -> None:
    """Every listed module and pattern exists."""
    assert listed().keys() - {str(path.relative_to(ROOT)) for path in USING} == set()
