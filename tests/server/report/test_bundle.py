"""The modules of the pages as one script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tocsin_server.http.web_files import web_directory
from tocsin_server.report.bundle import BundleError, bundle


def written(folder: Path, **modules: str) -> Path:
    """Write modules by name and return the path of ``main``."""
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text)
    return folder / "main.js"


def test_modules_run_once_and_in_order(tmp_path: Path) -> None:
    """Names are private to a module, an import may rename, and a module that two others import runs once."""
    main = written(
        tmp_path,
        base='export const order = [];\norder.push("base");\nconst own = 1;\nexport class One {}\n',
        left='import { order } from "./base.js";\nconst own = 2;\nexport function add() {\n'
        "  order.push(own);\n}\n",
        main='import { One, order as found } from "./base.js";\nimport {\n  add,\n} from "./left.js";\n'
        "add();\nconsole.log(JSON.stringify([found, typeof One]));\n",
    )
    done = subprocess.run(
        ["node", "-e", bundle(main)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == '[["base",2],"function"]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('import "./base.js";\n', "cannot join"),
        ("export default 1;\n", "cannot join"),
        ("const here = import.meta.url;\n", "cannot join"),
        ('import { a } from "./main.js";\n', "imports itself"),
    ],
)
def test_modules_that_cannot_be_joined_are_an_error(tmp_path: Path, text: str, words: str) -> None:
    """Otherwise the script would fail in the reader's browser."""
    with pytest.raises(BundleError, match=words):
        bundle(written(tmp_path, base="", main=text))


def test_the_script_of_the_report_ends_no_element() -> None:
    """It is written into HTML as it is."""
    script = bundle(web_directory() / "report.js")
    assert "</script" not in script
    assert "<!--" not in script
