"""The modules that a page imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tocsin_server.http.module_graph import ModuleGraph, preloads
from tocsin_server.http.web_files import web_directory

WEB = web_directory()


def test_modules_are_named_once_those_needed_first_at_the_beginning(tmp_path: Path) -> None:
    """Static imports and exports from a module; neither ``import()`` nor types in comments."""
    (tmp_path / "pages").mkdir()
    (tmp_path / "main.js").write_text('import { a } from "./a.js";\nconst b = () => import("./b.js");\n')
    (tmp_path / "pages" / "run.js").write_text('/** @type {import("../b.js").B} */\nimport "../a.js";\n')
    (tmp_path / "a.js").write_text('import {\n  c,\n} from "./c.js";\nexport { d } from "./d.js";\n')
    (tmp_path / "c.js").write_text('import "./main.js";\n')
    (tmp_path / "d.js").write_text("")
    found = ModuleGraph(tmp_path).modules_of("1", "/runs/r_1")
    assert found == ["main.js", "pages/run.js", "a.js", "c.js", "d.js"]


def test_another_version_is_read_again(tmp_path: Path) -> None:
    graph = ModuleGraph(tmp_path)
    (tmp_path / "main.js").write_text("")
    assert graph.modules_of("1", "/") == ["main.js"]
    (tmp_path / "main.js").write_text('import "./a.js";\n')
    (tmp_path / "a.js").write_text("")
    assert graph.modules_of("2", "/") == ["main.js", "a.js"]


@pytest.mark.parametrize("address", ["/", "/runs/r_1", "/compare", "/alerts", "/rules", "/settings"])
def test_every_module_of_a_page_exists(address: str) -> None:
    """Of the real pages; each is found by its address."""
    modules = ModuleGraph(WEB).modules_of("1", address)
    assert [module for module in modules if not (WEB / module).is_file()] == []
    assert len([module for module in modules if module.startswith("pages/")]) == 1


def test_an_address_of_no_page_loads_what_every_page_needs() -> None:
    assert "main.js" in ModuleGraph(WEB).modules_of("1", "/nonsense")


def test_modules_are_elements_of_the_head() -> None:
    assert re.fullmatch(
        r'(<link rel="modulepreload" href="/x/\w\.js" />){2}', preloads(["a.js", "b.js"], "/x/")
    )
