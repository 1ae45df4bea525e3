"""What exists is documented: rules, messages, refusals, settings, commands, versions."""

from __future__ import annotations

import argparse
import ast
import os
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
import typer

from tocsin import protocol
from tocsin.cli.commands import _parser as hook_parser
from tocsin.preflight import CHECKS
from tocsin_server.cli.main import app
from tocsin_server.core.models import Severity
from tocsin_server.core.settings import PREFIX, Settings
from tocsin_server.detect.rules.catalog import catalogue

ROOT = Path(__file__).resolve().parent.parent
REFUSING = (
    "server/tocsin_server/http/ingest.py",
    "server/tocsin_server/runs/validation.py",
    "client_hook/tocsin/protocol.py",
)
CODE = re.compile(r"[a-z]+(-[a-z]+)+")


def text_of(*names: str) -> str:
    return "\n".join((ROOT / name).read_text("utf-8") for name in names)


def headings(name: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", text_of(name), re.MULTILINE))


def refusal_codes() -> Iterator[str]:
    """Codes in the modules that refuse: words with hyphens, and the second argument of ``Refused``."""
    for name in REFUSING:
        for node in ast.walk(ast.parse(text_of(name))):
            if isinstance(node, ast.Constant) and CODE.fullmatch(str(node.value)):
                yield str(node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Refused" and len(node.args) > 1:
                code = node.args[1]
                yield from [str(code.value)] if isinstance(code, ast.Constant) else []


def server_commands() -> list[str]:
    """Commands as a person types them, after ``tocsin-server``."""
    inner = [(each.name, each.typer_instance) for each in app.registered_groups]
    groups: list[tuple[str | None, typer.Typer | None]] = [("", app), *inner]
    names = [
        f"{group or ''} {command.name or getattr(command.callback, '__name__', '')}".strip()
        for group, commands in groups
        if commands is not None
        for command in commands.registered_commands
    ]
    assert "serve" in names
    assert "token create" in names
    return names


def hook_commands() -> list[str]:
    """Commands as a person types them, after ``tocsin``."""
    actions = hook_parser()._actions
    return [name for each in actions if isinstance(each, argparse._SubParsersAction) for name in each.choices]


def test_every_rule_that_can_be_critical_has_its_false_alarms() -> None:
    """Its row stands in docs/detection.md, whatever was measured."""
    table = text_of("docs/detection.md").split("## Rules that can be critical")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([a-z-]+) \| .+ \| .+ \| .+ \|$", table, re.MULTILINE)
    critical = [info.id for info in catalogue() if info.severity is Severity.CRITICAL]
    assert sorted(set(rows) - {"rule"}) == sorted(critical)


@pytest.mark.parametrize("rule", [info.id for info in catalogue()])
def test_every_rule_has_its_heading(rule: str) -> None:
    """A rule is described under its identifier in docs/rules.md."""
    assert rule in headings("docs/rules.md")


MESSAGES = [*get_args(protocol.ClientMessage), *get_args(protocol.ServerMessage)]


@pytest.mark.parametrize("kind", [kind.__struct_config__.tag for kind in MESSAGES])
def test_every_message_is_described(kind: str) -> None:
    """docs/protocol.md names each message that can cross the wire."""
    assert f"`{kind}" in text_of("docs/protocol.md")


@pytest.mark.parametrize("code", sorted(set(refusal_codes())))
def test_every_refusal_is_described(code: str) -> None:
    """docs/protocol.md says when a code is given."""
    assert f"`{code}`" in text_of("docs/protocol.md")


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_of_the_audit_is_described(check: str) -> None:
    """A check has its heading in docs/audit.md."""
    assert check in headings("docs/audit.md")


@pytest.mark.parametrize("setting", [field.name for field in fields(Settings)])
def test_every_setting_is_described(setting: str) -> None:
    """docs/settings.md has a row for it."""
    assert f"| `{setting}` |" in text_of("docs/settings.md")


def test_every_described_setting_exists() -> None:
    """A row of docs/settings.md is a setting of the server, or a variable that the hook reads."""
    rows = set(re.findall(r"^\| `(\w+)` \|", text_of("docs/settings.md"), re.MULTILINE))
    hook = {name for name in rows if name.startswith(PREFIX)}
    sources = text_of(*(os.path.relpath(path, ROOT) for path in (ROOT / "client_hook/tocsin").rglob("*.py")))
    assert rows - hook == {field.name for field in fields(Settings)}
    assert hook == set(re.findall(r"TOCSIN_[A-Z_]+", sources))


def test_the_page_of_what_is_sent_names_every_field_and_event() -> None:
    """What a handshake holds, and every kind of event that the hook or the protocol knows."""
    page = text_of("docs/what-is-sent.md")
    kinds = set(re.findall(r"^\| `([a-z-]+)` \| `\{", text_of("docs/protocol.md"), re.MULTILINE))
    sources = text_of(*(os.path.relpath(path, ROOT) for path in (ROOT / "client_hook/tocsin").rglob("*.py")))
    kinds |= set(re.findall(r"put_event\(\s*\"([a-z-]+)\"", sources))
    from_the_server = {"sibling-facts", "closed", "rules", "refused"}
    named = set(protocol.Hello.__struct_fields__) | kinds - from_the_server
    assert {name for name in named if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("command", server_commands())
def test_every_command_of_the_server_is_described(command: str) -> None:
    """README or docs show it as it is typed."""
    shown = text_of("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
    assert re.search(rf"`(tocsin-server )?{re.escape(command)}\b", shown)


@pytest.mark.parametrize("command", hook_commands())
def test_every_command_of_the_hook_is_described(command: str) -> None:
    """README or the list of commands shows it as it is typed."""
    assert f"`tocsin {command}`" in text_of("README.md", "docs/commands.md")


@pytest.mark.parametrize(
    "name", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(name: str) -> None:
    """Every relative link and picture of a page exists."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text_of(name))
    assert not [link for link in links if not (ROOT / name).parent.joinpath(link).exists()]
