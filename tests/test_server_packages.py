"""The packages of the server import in one direction, and each imports only what it may use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture_page import drawn, listed, section
from tests.import_graph import ROOT, Graph, cycle, graph, imports, modules, upward

SERVER = ROOT / "server" / "tocsin_server"
PACKAGES = (
    "core < store < detect < notify < rules < runs < offline < transfer < jobs < delivery < report < http"
    " < app < demo < cli"
)
"""The packages of the server: one imports only itself and those to its left."""
ORDER = ("tocsin_server", *PACKAGES.split(" < "), "__main__")
CLOCKS_AND_SOCKETS = {"asyncio", "socket", "sqlalchemy", "threading", "time", "datetime", "random"}
PURE = ("detect.", "runs.alert_state", "runs.run_summary", "runs.validation")
"""Packages and modules that take data and time as arguments."""
NOTIFY_WITH_SOCKETS = {"address", "http", "apprise", "email", "push", "sandbox"}
"""Modules of ``notify`` that may talk to the outside; all others of it are pure."""
SQL = re.compile(r"\s*(SELECT|INSERT INTO|DELETE FROM|UPDATE \w+ SET|PRAGMA|(CREATE|ALTER|DROP) TABLE)\b")
VAGUE = {"utils", "util", "manager", "helpers", "helper", "misc", "common"}


def used(name: str, path: Path) -> set[str]:
    """Return the top-level packages that a module imports."""
    return {one.name.partition(".")[0] for one in imports(name, path)}


def below(prefixes: Iterable[str]) -> dict[str, Path]:
    """Return the modules whose name below ``tocsin_server`` begins with one of ``prefixes``."""
    started = tuple(f"tocsin_server.{prefix}" for prefix in prefixes)
    return {name: path for name, path in modules(SERVER).items() if name.startswith(started)}


def is_sql(node: ast.AST) -> bool:
    """Return whether a node of a syntax tree is the text of an SQL statement or a call that runs one."""
    if isinstance(node, ast.Attribute):
        return node.attr in {"execute", "exec_driver_sql", "scalars"}
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value) is not None
    )


def members(found: Graph, package: str) -> Graph:
    """Return what the modules and subpackages directly in ``package`` import of each other."""
    result: dict[str, frozenset[str]] = {}
    prefix = f"{package}."
    for name, others in found.items():
        if not name.startswith(prefix):
            continue
        member = name.removeprefix(prefix).partition(".")[0]
        inside = {one.removeprefix(prefix).partition(".")[0] for one in others if one.startswith(prefix)}
        result[member] = result.get(member, frozenset()) | (inside - {member})
    return result


def test_every_package_has_a_place() -> None:
    """Every package is listed in the order, and there are no modules next to the packages."""
    found = {path.name for path in SERVER.iterdir() if (path / "__init__.py").exists()}
    assert found == set(PACKAGES.split(" < "))
    assert {path.stem for path in SERVER.glob("*.py")} == {"__init__", "__main__"}


def test_a_package_imports_only_packages_before_it() -> None:
    """Without exceptions: an import that breaks this means that something is in the wrong package."""
    assert upward(graph(SERVER), ORDER) == []


def test_no_modules_or_subpackages_import_each_other() -> None:
    """Neither the modules of the server nor the members of any one package."""
    found = graph(SERVER)
    packages = {name.rpartition(".")[0] for name in found} - {""}
    assert cycle(found) == []
    assert {
        package: cycle(members(found, package)) for package in packages if cycle(members(found, package))
    } == {}


def test_a_cycle_of_subpackages_is_found() -> None:
    """Tests the check: no module imports itself, but the two folders import each other."""
    found = {"t.a.x": frozenset({"t.b.x"}), "t.b.y": frozenset({"t.a.y"})}
    assert cycle(found) == []
    assert set(cycle(members(found, "t"))) == {"a", "b"}


def test_the_architecture_page_has_the_list() -> None:
    """The list word for word, and the same packages in the same order in the picture and in the table."""
    text = section("The server's packages")
    assert f"`{PACKAGES}`" in text
    assert drawn(text) == listed(text) == PACKAGES.split(" < ")


def test_detection_uses_no_clock_and_no_database() -> None:
    """Rules, alert states, run summaries and validation take data and time as arguments."""
    found = {name: used(name, path) & CLOCKS_AND_SOCKETS for name, path in below(PURE).items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_routing_uses_no_clock_and_no_database() -> None:
    """Routes, silences, groups, limits and messages take data and time as arguments."""
    pure = {name: path for name, path in below(["notify"]).items() if path.stem not in NOTIFY_WITH_SOCKETS}
    found = {name: used(name, path) & (CLOCKS_AND_SOCKETS - {"datetime"}) for name, path in pure.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_only_the_store_imports_sqlalchemy() -> None:
    """SQL is written in one package; the others get types and errors from ``store.connection``."""
    found = {name for name, path in modules(SERVER).items() if "sqlalchemy" in used(name, path)}
    assert {name for name in found if not name.startswith("tocsin_server.store.")} == set()


def test_only_the_store_writes_sql() -> None:
    """Neither statements in text nor calls that run one: ``connection.execute(...)`` and the like."""
    found = {
        f"{name}: {ast.unparse(node)}"
        for name, path in modules(SERVER).items()
        if not name.startswith("tocsin_server.store.")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if is_sql(node)
    }
    assert found == set()


@pytest.mark.parametrize("source", ["connection.execute(x)", "connection.exec_driver_sql(x)", "'SELECT 1'"])
def test_sql_is_found(source: str) -> None:
    """Tests the check."""
    assert any(map(is_sql, ast.walk(ast.parse(source))))


def test_only_the_trainings_of_the_demo_import_torch() -> None:
    """The server itself runs without it."""
    found = {path.parent for name, path in modules(SERVER).items() if "torch" in used(name, path)}
    assert found == {SERVER / "demo" / "trainings"}


def test_modules_have_specific_names() -> None:
    """In the server, the hook, the pages and the tests."""
    python = [
        path
        for top in (SERVER, ROOT / "client_hook" / "tocsin", ROOT / "tests")
        for path in top.rglob("*.py")
    ]
    assert [path for path in (*python, *(ROOT / "web").rglob("*.js")) if path.stem in VAGUE] == []
