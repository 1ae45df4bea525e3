"""The modules and style sheets of the pages, joined."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.matrix import LONG
from tocsin_server.http.joined import FOLDER, STYLES, JoinedFiles, join, shortened
from tocsin_server.http.web_files import web_directory
from tocsin_server.report.bundle import BundleError

WEB = web_directory()
ROOT = WEB.parent
INDEX = '<link rel="stylesheet" href="/styles/a.css" />\n<link rel="stylesheet" href="/styles/b.css" />\n'
EQUAL = """
import { readFileSync } from "node:fs";
import ts from "typescript";
const compilerOptions = { removeComments: true, target: ts.ScriptTarget.ESNext };
const bare = (text) => ts.transpileModule(text, { compilerOptions }).outputText;
const pairs = JSON.parse(readFileSync(0, "utf-8"));
console.log(JSON.stringify(pairs.filter(([, a, b]) => bare(a) !== bare(b)).map(([name]) => name)));
"""


@pytest.fixture
def web(tmp_path: Path) -> Path:
    """Two pages and a part that one of them loads later."""
    modules = {
        "main.js": 'import { base } from "./base.js";\nconst pages = {\n'
        '  a: async () => (await import("./pages/a.js")).open,\n'
        '  b: async () => (await import("./pages/b.js")).open,\n};\n'
        "export const ran = base;\n"
        "globalThis.pages = pages;\n",
        "base.js": "/** Base. */\nexport const base = 1;\n",
        "both.js": 'import { base } from "./base.js";\nexport const both = base + 1;\n',
        "pages/a.js": 'import { both as two } from "../both.js";\nexport const open = ["a", two];\n',
        "pages/b.js": 'import { both } from "../both.js";\nexport const open = ["b", both];\n',
    }
    for name, text in {**modules, "index.html": INDEX + '<script type="module" src="/main.js">'}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "styles").mkdir()
    (tmp_path / "styles" / "a.css").write_text("/* A */\nbody {\n  margin: 0;\n}\n")
    (tmp_path / "styles" / "b.css").write_text("p { margin: 1px }\n")
    return tmp_path


def test_each_page_has_its_scripts(web: Path) -> None:
    """One of the page; what a run shares with another is in that of every page, which comes first."""
    _renamed(web, ("b", "run"))
    joined = join(web, "1")
    assert joined.scripts_of("/a") == (FOLDER + "main.js", FOLDER + "pages_a.js")
    assert b"both_js = " in joined.files[FOLDER + "main.js"].text
    assert joined.scripts_of("/nonsense") == ()
    assert 'src="/joined/main.js"' in joined.index


def test_what_the_fleet_shares_is_not_loaded_by_a_run(web: Path) -> None:
    _renamed(web, ("b", "fleet"))
    joined = join(web, "1")
    assert joined.scripts_of("/")[1:] == (FOLDER + "pages_fleet.js", FOLDER + "fleet.js")
    assert b"both_js = " in joined.files[FOLDER + "fleet.js"].text


def test_a_page_runs(web: Path, tmp_path: Path) -> None:
    """Imports of modules in the same script, in another one, and of a page later."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for path, packed in join(web, "1").files.items():
        (tmp_path / path).write_bytes(packed.text)
    code = 'import "./joined/main.js"; console.log(JSON.stringify(await globalThis.pages.b()));'
    command = ["node", "--input-type=module", "-e", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    assert done.stdout == '["b",2]\n'


def _renamed(web: Path, *pages: tuple[str, str]) -> None:
    """Give pages other names."""
    for old, new in pages:
        (web / f"pages/{old}.js").rename(web / f"pages/{new}.js")
        main = (web / "main.js").read_text()
        (web / "main.js").write_text(main.replace(f"pages/{old}.js", f"pages/{new}.js"))


def test_what_a_page_only_may_load_is_in_no_script_of_its_first_view(web: Path) -> None:
    """A dialog that another page imports at once."""
    _renamed(web, ("a", "run"), ("b", "alerts"))
    (web / "pages/run.js").write_text('export const open = () => import("../both.js");\n')
    joined = join(web, "1")
    assert joined.scripts_of("/runs/r_1") == (FOLDER + "main.js", FOLDER + "pages_run.js")
    assert joined.scripts_of("/alerts")[1:] == (FOLDER + "pages_alerts.js", FOLDER + "later.js")
    assert b"both_js = " in joined.files[FOLDER + "later.js"].text


def test_what_only_pages_with_charts_share_is_in_a_script_of_theirs(web: Path) -> None:
    _renamed(web, ("a", "run"), ("b", "compare"))
    joined = join(web, "1")
    assert joined.scripts_of("/runs/r_1")[1:] == (FOLDER + "pages_run.js", FOLDER + "charts.js")
    assert b"both_js = " in joined.files[FOLDER + "charts.js"].text


def test_what_a_page_loads_later_is_in_a_script_of_its_own(web: Path) -> None:
    """With what only it imports; what the page imports anyway stays with the page."""
    (web / "dialog.js").write_text(
        'import { both } from "./both.js";\nimport { only } from "./only.js";\n'
        "export const shown = both + only;\n"
    )
    (web / "only.js").write_text("export const only = 1;\n")
    (web / "pages/a.js").write_text(
        'import { both } from "../both.js";\n'
        'export const open = async () => [both, await import("../dialog.js")];\n'
    )
    joined = join(web, "1")
    assert joined.scripts_of("/a") == (FOLDER + "main.js", FOLDER + "pages_a.js", FOLDER + "later.js")
    assert b"only_js = " in joined.files[FOLDER + "dialog.js"].text


def test_style_sheets_become_one(web: Path) -> None:
    joined = join(web, "1")
    assert joined.files[STYLES].text == b"\nbody {\nmargin: 0;\n}\np { margin: 1px }\n"
    assert re.findall("<link [^>]+>", joined.index) == [f'<link rel="stylesheet" href="/{STYLES}" />']


@pytest.mark.parametrize(
    ("address", "disabled"),
    [("/runs/r_1", ["fleet", "later"]), ("/", ["later"]), ("/compare", []), ("/absent", [])],
)
def test_the_style_sheets_of_other_pages_are_disabled(address: str, disabled: list[str]) -> None:
    """All are listed, in the order of their rules."""
    text = join(WEB, "1").index_of(address)
    assert re.findall(r'href="/joined/(\w+)\.css"', text) == ["pages", "fleet", "later"]
    assert re.findall(r'href="/joined/(\w+)\.css" disabled />', text) == disabled


def test_modules_that_import_each_other_are_an_error(web: Path) -> None:
    (web / "base.js").write_text('import { ran } from "./main.js";\nexport const base = ran;\n')
    with pytest.raises(BundleError, match="imports itself"):
        join(web, "1")


def test_a_changed_module_is_joined_again(web: Path) -> None:
    files = JoinedFiles(web)
    before = files.present()
    assert files.present() is before
    (web / "base.js").write_text("export const base = 20;\n")
    assert b"base = 20" in files.present().files[FOLDER + "main.js"].text


@LONG
def test_a_shortened_module_means_the_same() -> None:
    """According to TypeScript, which parses both; strings and templates are untouched."""
    modules = [(str(path), path.read_text("utf-8")) for path in sorted(WEB.rglob("*.js"))]
    pairs = [(name, text, shortened(text)) for name, text in modules]
    command = ["node", "--input-type=module", "-e", EQUAL]
    found = subprocess.run(
        command, input=json.dumps(pairs), text=True, capture_output=True, cwd=ROOT, check=True
    )
    assert json.loads(found.stdout) == []


@pytest.mark.parametrize("address", ["/", "/runs/r_1", "/compare", "/alerts", "/rules", "/settings"])
def test_every_page_is_joined(address: str) -> None:
    """Of the real pages; each is found by its address and in few scripts."""
    joined = join(WEB, "1")
    scripts = joined.scripts_of(address)
    assert len([path for path in scripts if re.fullmatch(r"joined/pages_[a-z]+\.js", path)]) == 1
    assert set(scripts) <= set(joined.files)
    assert len(scripts) < 6


def test_every_module_is_in_one_script() -> None:
    """And no two modules have the same variable."""
    joined = join(WEB, "1")
    names = [
        name
        for packed in joined.files.values()
        for name in re.findall(rb"^const (\w+) = \(\(\) => \{$", packed.text, re.MULTILINE)
    ]
    assert len(names) == len(set(names)) > 200
