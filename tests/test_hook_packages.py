"""The packages of the hook import in one direction, and bring little into the training process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from tests.architecture_page import drawn, listed, section
from tests.import_graph import ROOT, cycle, graph, imports, modules, package_of, upward

HOOK = ROOT / "client_hook" / "tocsin"
ORDER = (
    *("protocol", "core", "spool", "lifecycle", "mirrors", "transport", "system", "media", "notebook"),
    *(
        "capture",
        "preflight",
        "read",
        "api",
        "tocsin",
        "integrations",
        "auto",
        "importers",
        "mcp",
        "top",
        "cli",
    ),
)
"""A package imports only those before it. ``tocsin`` is the package's ``__init__``, the public functions."""
ALLOWED = {"tocsin", "websockets", "msgspec"} | sys.stdlib_module_names
OPTIONAL = {
    *("torch", "numpy", "pandas", "polars", "pyarrow", "psutil", "pynvml", "mcp", "mcp_types", "rich"),
    "aimrocks",
}
"""What may be installed in the training environment: imported late or guarded."""
FRAMEWORKS = {path.stem for path in (HOOK / "integrations").glob("*.py")} | {"pytorch_lightning", "jax"}
"""An integration imports its framework."""
IMMEDIATE = {
    "capture": {"torch"},
    "mcp": {"mcp", "mcp_types"},
    "top": {"rich", "textual"},
    "integrations": FRAMEWORKS,
}


def tops(names: Iterable[str]) -> set[str]:
    """Return the top-level packages of dotted names."""
    return {name.partition(".")[0] for name in names}


def test_every_package_has_a_place() -> None:
    """Every package is listed in the order."""
    assert {package_of(name) for name in modules(HOOK)} == set(ORDER)


def test_the_architecture_page_has_the_list() -> None:
    """The same packages in the same order, in the picture and in the table."""
    text = section("The hook's packages")
    assert drawn(text) == listed(text) == [name for name in ORDER if name != "tocsin"]


def test_a_package_imports_only_packages_before_it() -> None:
    """Late imports count too."""
    assert upward(graph(HOOK), ORDER) == []


def test_no_modules_import_each_other() -> None:
    """Not even late, or for types only."""
    assert cycle(graph(HOOK)) == []


def test_the_hook_imports_only_what_it_declares() -> None:
    """The standard library, websockets and msgspec; some packages are imported late and import another."""
    for name, path in modules(HOOK).items():
        found = list(imports(name, path))
        immediate = tops(one.name for one in found if not one.late)
        assert immediate <= ALLOWED | IMMEDIATE.get(package_of(name), set()), name
        allowed = ALLOWED | OPTIONAL | IMMEDIATE.get(package_of(name), set())
        assert tops(one.name for one in found) <= allowed, name


def test_only_capture_imports_capture_immediately() -> None:
    """Importing it imports torch."""
    others = {name: path for name, path in modules(HOOK).items() if package_of(name) != "capture"}
    found = {
        name: [
            one.name for one in imports(name, path) if one.name.startswith("tocsin.capture") and not one.late
        ]
        for name, path in others.items()
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_importing_tocsin_imports_neither_torch_nor_a_dependency() -> None:
    """Runs in a separate process. A DataLoader worker imports it too."""
    script = (
        "import sys; before = set(sys.modules); import tocsin; new = set(sys.modules) - before\n"
        "print(sorted(new & {'torch', 'numpy', 'msgspec', 'websockets', 'asyncio', 'ssl', 'socket'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_cycle_is_found() -> None:
    """Tests the check."""
    assert cycle({"a": frozenset("b"), "b": frozenset("a")}) in (["a", "b", "a"], ["b", "a", "b"])


def test_an_upward_import_is_found() -> None:
    """Tests the check."""
    found = upward({"t.a": frozenset({"t.b"}), "t.b": frozenset({"t.a"})}, ("a", "b"))
    assert found == ["t.a -> t.b"]
