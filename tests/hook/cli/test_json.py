"""``--json``: every command that prints facts has it, and prints the fields that its help documents."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer
from tests.hook.trainers import TOKEN, leave_behind
from tocsin.cli import enable
from tocsin.cli.commands import _parser, main
from tocsin.cli.doctor import Check

WITHOUT_FACTS = {"run", "mcp", "top"}
"""A command of the user, a server for agents, and a screen."""


def commands(
    parser: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield name.strip(), parser
    for group in groups:
        for word, below in group.choices.items():
            yield from commands(below, f"{name} {word}")


def documented(name: str) -> set[str]:
    """Return the fields in the help of a command's ``--json``."""
    (help,) = [action.help for action in dict(commands(_parser()))[name]._actions if action.dest == "json"]
    found = re.search(r"{(.*?)}", help or "")
    assert found
    return set(found[1].split(", "))


def test_every_command_that_prints_facts_has_json() -> None:
    without = {
        name for name, parser in commands(_parser()) if not any(a.dest == "json" for a in parser._actions)
    }
    assert without == WITHOUT_FACTS


def test_enable_disable_and_logout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(enable, "installed_in", lambda: tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name, path in (("enable", str(tmp_path / enable.FILE)), ("disable", str(tmp_path / enable.FILE)),
                       ("disable", None), ("logout", None)):  # fmt: skip
        assert main([name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"path": path}
        assert documented(name) == {"path"}


def test_doctor_documents_what_it_prints() -> None:
    """Running it here would import torch."""
    assert documented("doctor") == {field.name for field in fields(Check)}


def test_sync(strict_server: IngestServer, spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_behind(spool, strict_server.url, 0)
    assert main(["sync", "--json", "--token", TOKEN]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert (set(outcome), outcome["ok"]) == (documented("sync"), True)
    assert outcome["path"].startswith(str(spool))


def test_import_and_tail(
    strict_server: IngestServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"step={n} loss={1 / (n + 1)}\n" for n in range(10)), "utf-8")
    there = ["--url", strict_server.url, "--token", TOKEN, "--json"]
    assert main(["import", str(log), *there]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert (set(outcome), outcome["path"]) == (documented("import"), str(log))
    assert main(["tail", str(log), "--idle-exit", "0", *there]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (set(found), found["records"]) == (documented("tail"), 10)
