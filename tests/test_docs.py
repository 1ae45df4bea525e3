"""The documentation is complete and correct. One test for each claim lists all violations.

Links, anchors and generated pages are checked by ``mkdocs build --strict`` (``make check``).
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import re
import shlex
import sqlite3
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml

from tocsin import protocol
from tocsin.cli.commands import _parser as hook_parser
from tocsin.preflight import CHECKS
from tocsin_server.app.application import create_app
from tocsin_server.cli.main import app
from tocsin_server.core.models import Severity
from tocsin_server.core.settings import PREFIX, Settings
from tocsin_server.detect.rules.catalog import catalogue
from tocsin_server.notify.apprise_allowed import objection
from tocsin_server.store.database import migrate
from tocsin_server.store.tables import metadata

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md"))
REJECTING = (
    "server/tocsin_server/http/ingest.py",
    "server/tocsin_server/runs/event_acceptance.py",
    *(f"server/tocsin_server/runs/validation/{name}.py" for name in ("frames", "handshake", "names")),
    *(f"server/tocsin_server/runs/validation/{name}.py" for name in ("records", "step_order", "events")),
    "client_hook/tocsin/protocol.py",
)
CODE = re.compile(r"[a-z]+(-[a-z]+)+")
SETTINGS = {field.name for field in fields(Settings)}


def text_of(*names: str) -> str:
    """Return the text of files below the repository's root."""
    return "\n".join((ROOT / name).read_text("utf-8") for name in names)


def hook_sources() -> str:
    """Return all source code of the hook."""
    return "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "client_hook/tocsin").rglob("*.py")))


def hook_variables() -> set[str]:
    """Return the environment variables that the hook reads."""
    return set(re.findall(r"TOCSIN_[A-Z_]+\b", hook_sources()))


def fences(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield language, title and text of each code block of a page."""
    fence = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
    for indent, language, title, block in fence.findall(path.read_text("utf-8")):
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        yield language, title.strip(), "\n".join(lines)


def blocks(language: str) -> Iterator[tuple[str, str, str]]:
    """Yield page, title and text of each code block in a language."""
    for path in PAGES:
        for found, title, block in fences(path):
            if found == language:
                yield str(path.relative_to(DOCS)), title, block


@pytest.mark.parametrize(
    ("language", "parse"),
    [("python", ast.parse), ("toml", tomllib.loads), ("json", json.loads), ("yaml", yaml.safe_load_all)],
)
def test_code_blocks_parse(language: str, parse: Any) -> None:
    """Every code block is valid in its language; a block of several JSON lines is parsed line by line."""
    wrong = []
    for place, _, block in blocks(language):
        parts = block.splitlines() if language == "json" and block.count('\n{"type"') else [block]
        try:
            for part in parts:
                list(found) if isinstance(found := parse(part), Iterator) else found
        except (SyntaxError, ValueError, yaml.YAMLError) as error:
            wrong.append(f"{place}: {error}: {block[:60]!r}")
    assert wrong == []


@cache
def options() -> dict[str, set[str]]:
    """Return the options of each command as it is typed, such as ``tocsin-server token create``."""
    found = {"tocsin-server": {"--version"}, "tocsin": {"--version"}}
    todo: list[tuple[str, Any]] = [("tocsin-server", typer.main.get_command(app))]
    while todo:
        words, command = todo.pop()
        found[words] = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        todo += [(f"{words} {name}", one) for name, one in getattr(command, "commands", {}).items()]
    below: list[tuple[str, argparse.ArgumentParser]] = [("tocsin", hook_parser())]
    while below:
        words, parser = below.pop()
        found[words] = {option for one in parser._actions for option in one.option_strings}
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        below += [(f"{words} {name}", one) for group in groups for name, one in group.choices.items()]
    return found


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield page and words of each tocsin command in a shell block or between backticks."""
    start = re.compile(r"(?:^|[|/] ?|tocsin )(tocsin(?:-server)? [a-z][^|#;\n]*)", re.MULTILINE)
    for path in [*PAGES, ROOT / "README.md"]:
        shell = [block for language, _, block in fences(path) if language in ("bash", "ini", "")]
        inline = re.findall(r"`(tocsin(?:-server)? [^`\n]+)`", path.read_text("utf-8"))
        for line in start.findall("\n".join([*shell, *inline]).replace("\\\n", " ")):
            yield path.name, shlex.split(line.split(" > ")[0].replace("'", ""))


def test_commands_in_the_docs_exist() -> None:
    """Commands and options are those of the two command lines."""
    wrong = []
    for place, words in commands():
        known = max((name for name in options() if words[: len(name.split())] == name.split()), key=len)
        if known == "tocsin run":  # what follows is the options of another program
            words = list(itertools.takewhile(lambda word: word not in ("python", "torchrun"), words))
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        is_group = any(name.startswith(f"{known} ") for name in options())
        if (is_group and not used) or used - options()[known] - {"--help"}:
            wrong.append(f"{place}: {' '.join(words)}")
    assert wrong == []


def test_variables_and_settings_in_the_docs_exist() -> None:
    """A ``TOCSIN_`` variable is a setting or is read by the hook; keys of tocsin.toml are settings."""
    allowed = {f"{PREFIX}{name.upper()}" for name in SETTINGS} | hook_variables()
    allowed |= {"TOCSIN_CONFIG", "TOCSIN_PUBLISH", "TOCSIN_COMPILE"}
    wrong = [
        f"{path.name}: {name}"
        for path in [*PAGES, ROOT / "README.md"]
        for name in sorted(set(re.findall(r"TOCSIN_[A-Z_]*[A-Z]\b", path.read_text("utf-8"))) - allowed)
    ]
    files = [(place, block) for place, title, block in blocks("toml") if "tocsin.toml" in title]
    wrong += [f"{place}: {name}" for place, block in files for name in set(tomllib.loads(block)) - SETTINGS]
    assert wrong == []


def test_the_hooks_variables_are_documented() -> None:
    """Every variable that the hook reads has a row."""
    rows = set(re.findall(r"^\| `(\w+)` \|", text_of("docs/reference/environment.md"), re.MULTILINE))
    assert rows == hook_variables()


def test_routes_in_the_docs_exist(tmp_path: Path) -> None:
    """A method and path between backticks, or in a curl command, is a route of the server."""
    paths = create_app(Settings(data_dir=tmp_path)).openapi()["paths"]
    known = {
        (method.upper(), re.sub(r"\{\w+\}", "*", path).removeprefix("/api/v1"))
        for path, methods in paths.items()
        for method in methods
    }
    named = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[\w/{}.-]+)")
    wrong = []
    for path in PAGES:
        for method, route in named.findall(path.read_text("utf-8")):
            plain = re.sub(r"\{\w+\}|r_\w+", "*", route.removeprefix("/api/v1"))
            if plain not in ("/metrics",) and (method, plain) not in known:
                wrong.append(f"{path.name}: {method} {route}")
    assert wrong == []


def test_examples_have_the_fields_of_the_api(tmp_path: Path) -> None:
    """The JSON of a run and of an alert on the page about the API has only fields of their schemas."""
    schemas = create_app(Settings(data_dir=tmp_path)).openapi()["components"]["schemas"]
    known = {field for schema in schemas.values() for field in schema.get("properties", {})}
    keys = {"loss", "grad_norm", "scale", "lr", "critical", "warning", "info"}
    wrong = [
        f"{place}: {field}"
        for place, _, block in blocks("json")
        if place == "reference/http-api.md"
        for field in re.findall(r'"(\w+)":', block)
        if field not in known | keys
    ]
    assert wrong == []


def test_files_in_the_docs_exist() -> None:
    """A path or module between backticks, such as ``store/writer.py``, ends the path of a file."""
    folders = ("server", "client_hook", "web", "tests", "benchmarks", "migrations", "docs", "examples")
    files = [f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.*")]
    named = re.compile(r"`((?:[\w-]+/)+[\w-]+\.(?:py|js|md|toml)|(?:test|bench)_\w+\.py)`")
    wrong = [
        f"{path.name}: {name}"
        for path in PAGES
        for name in named.findall(path.read_text("utf-8"))
        if not any(file.endswith(f"/{name}") for file in files)
    ]
    assert wrong == []


def test_sql_in_the_docs_runs(tmp_path: Path) -> None:
    """An empty database accepts every query, except those for Citus, which is another engine."""
    migrate(f"sqlite:///{tmp_path}/tocsin.db")
    wrong = []
    with sqlite3.connect(tmp_path / "tocsin.db") as database:
        for place, _, block in blocks("sql"):
            for query in block.split(";"):
                try:
                    database.execute(query if "create_" not in query else "")
                except sqlite3.Error as error:
                    wrong.append(f"{place}: {error}: {query.strip()[:60]}")
    assert wrong == []


def test_every_table_is_documented() -> None:
    """The tables of the database are those of the storage page."""
    rows = re.findall(r"^\| (`.+?) \| ", text_of("docs/internals/storage.md"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(metadata.tables)


def test_addresses_of_channels_are_accepted() -> None:
    """Each apprise address in the table of channels has a scheme that the server allows."""
    apprise = pytest.importorskip("apprise")
    page = text_of("docs/how-to/channels.md", "docs/tutorial/quickstart.md")
    found = set(re.findall(r"`([a-z]+://[^`]+)`", page)) - {"https://..."}
    addresses = {one for one in found if not one.startswith(("http://", "https://"))}
    parsed = {one: apprise.plugins.url_to_dict(one) for one in addresses}
    assert len(addresses) > 2
    assert [one for one, parts in parsed.items() if parts is None or objection(parts)] == []


def test_every_critical_rule_has_a_false_alarm_count() -> None:
    """A rule that can be critical has a row with what was measured."""
    page = text_of("docs/internals/detection.md").split("## Rules that can be critical")[1].split("\n## ")[0]
    rows = set(re.findall(r"^\| ([a-z-]+) \| .+ \| .+ \| .+ \|$", page, re.MULTILINE)) - {"rule"}
    assert rows == {info.id for info in catalogue() if info.severity is Severity.CRITICAL}


def rejection_codes() -> Iterator[str]:
    """Yield the codes in the modules that reject data: words with hyphens."""
    for name in REJECTING:
        for node in ast.walk(ast.parse(text_of(name))):
            if isinstance(node, ast.Constant) and CODE.fullmatch(str(node.value)):
                yield str(node.value)


def test_messages_and_codes_are_in_the_protocol() -> None:
    """Each message that can cross the wire, and each code of a rejection, is described."""
    page = text_of("docs/internals/protocol.md")
    messages = [*get_args(protocol.ClientMessage), *get_args(protocol.ServerMessage)]
    names = {str(kind.__struct_config__.tag) for kind in messages} | set(rejection_codes())
    assert {name for name in names if f"`{name}" not in page} == set()


def test_checks_are_documented() -> None:
    """Each check of the configuration has its heading."""
    headings = set(re.findall(r"^#+ (.+)$", text_of("docs/reference/config-check.md"), re.MULTILINE))
    assert set(CHECKS) - headings == set()


def test_everything_that_the_hook_sends_is_documented() -> None:
    """Each field of a handshake, and each kind of event that the hook or the protocol knows."""
    page = text_of("docs/reference/what-is-sent.md")
    kinds = set(re.findall(r"^\| `([a-z-]+)` \| `\{", text_of("docs/internals/protocol.md"), re.MULTILINE))
    kinds |= set(re.findall(r"put_event\(\s*\"([a-z-]+)\"", hook_sources()))
    from_the_server = {"similar-runs", "closed", "rules", "refused"}
    named = set(protocol.Hello.__struct_fields__) | kinds - from_the_server
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_links_outside_the_site_lead_somewhere() -> None:
    """Relative links of README, CHANGELOG and the other pages at the root exist."""
    wrong = [
        f"{page.name}: {link}"
        for page in ROOT.glob("*.md")
        for link in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text("utf-8"))
        if not (ROOT / link).exists()
    ]
    assert wrong == []


def habits() -> list[list[str]]:
    """Return the cells of the table that compares habits, without its head."""
    text = text_of("docs/explanation/comparison.md")
    table = text.partition("## Habits")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    return [[cell.strip() for cell in row] for row in rows]


def test_what_the_comparison_says_of_other_tools_has_a_source() -> None:
    """Each cell has a link, or "–" for what was not found in a documentation."""
    claims = [cell for row in habits() for cell in row[1:5]]
    assert [claim for claim in claims if claim != "–" and "](https://" not in claim] == []


def test_the_comparison_names_tests_that_exist() -> None:
    """What tocsin's column claims has a test; a row without one says that tocsin does not do it."""
    for *_, tocsin, test in habits():
        path, _, name = test.strip(" `").partition("::")
        if not path:
            assert tocsin.strip().startswith("no"), tocsin
        else:
            assert f"def {name}(" in text_of(path), test
