"""The scripts of the pages without their comments."""

from __future__ import annotations

import json
import subprocess

import pytest

from tocsin_server.http.packed import packed_file, without_comments
from tocsin_server.http.web_files import web_directory

WEB = web_directory()
ROOT = WEB.parent
EQUAL = """
import { readFileSync } from "node:fs";
import ts from "typescript";
const compilerOptions = { removeComments: true, target: ts.ScriptTarget.ESNext };
const bare = (text) => ts.transpileModule(text, { compilerOptions }).outputText;
const pairs = JSON.parse(readFileSync(0, "utf-8"));
console.log(JSON.stringify(pairs.filter(([, a, b]) => bare(a) !== bare(b)).map(([name]) => name)));
"""


def test_every_module_of_the_pages_means_the_same() -> None:
    """According to TypeScript, which parses both; strings and templates are untouched."""
    modules = [(str(path), path.read_text("utf-8")) for path in sorted(WEB.rglob("*.js"))]
    pairs = [(name, text, without_comments(text)) for name, text in modules]
    command = ["node", "--input-type=module", "-e", EQUAL]
    found = subprocess.run(
        command, input=json.dumps(pairs), text=True, capture_output=True, cwd=ROOT, check=True
    )
    assert json.loads(found.stdout) == []
    assert sum(len(c) for _, _, c in pairs) < 0.8 * sum(len(b) for _, b, _ in pairs)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("/** A.\n * B. */\nlet a;\n", "\n\nlet a;\n"),
        ("  // A\nlet a; // B\n", "\nlet a; // B\n"),
        ("/** @type {A} */ (a).b();\n/** C */\n", "/** @type {A} */ (a).b();\n\n"),
        ("let a = `${b ? `//${c}` : ''} /* d */`;\n", "let a = `${b ? `//${c}` : ''} /* d */`;\n"),
    ],
)
def test_only_comments_with_their_own_lines_are_left_out(script: str, expected: str) -> None:
    """Each line keeps its number."""
    assert without_comments(script) == expected


def test_a_style_sheet_is_sent_as_it_is() -> None:
    path = WEB / "styles" / "app.css"
    assert packed_file(path).text == path.read_bytes()
