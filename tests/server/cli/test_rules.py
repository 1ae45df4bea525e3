"""``tocsin-server rules``: on a database, and through a running server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import error_text

FILE = 'source = "team"\n\n[[rule]]\nid = "cli-mine"\nseries = "loss"\ncomparison = ">"\nlimit = 5.0\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one rule."""
    path = tmp_path / "rules.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_applied_once_and_shown_before(tocsin: Callable[..., Any], file: Path) -> None:
    """A dry run prints the difference and changes nothing; applying twice changes nothing."""
    dry = tocsin("rules", "apply", str(file), "--dry-run").stdout
    assert "+ rule cli-mine" in dry
    assert "limit: 5.0" in dry
    assert "1 would change, 0 unchanged in team." in dry
    assert "1 changed" in tocsin("rules", "apply", str(file)).stdout
    assert "Nothing to change: team is up to date." in tocsin("rules", "apply", str(file)).stdout
    file.write_text(FILE.replace("5.0", "6.0"))
    assert "limit: 5.0 -> 6.0" in tocsin("rules", "apply", str(file)).stdout


def test_an_export_applies_as_it_is(tocsin: Callable[..., Any], file: Path) -> None:
    """The exported file equals the original one."""
    tocsin("rules", "apply", str(file))
    text = tocsin("rules", "export", "--source", "team").stdout
    assert text == FILE
    file.write_text(text)
    assert "Nothing to change" in tocsin("rules", "apply", str(file)).stdout


def test_a_file_is_applied_through_a_running_server(
    tocsin: Callable[..., Any], server: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the server's token, output and errors are the same as on the database."""
    monkeypatch.delenv("TOCSIN_TOKEN", raising=False)
    assert "the token is unknown or revoked" in error_text(
        tocsin("rules", "apply", str(file), "--url", server.base)
    )
    monkeypatch.setenv("TOCSIN_TOKEN", server.token)
    assert "+ rule cli-mine" in tocsin("rules", "apply", str(file), "--url", server.base).stdout
    assert "Nothing to change" in tocsin("rules", "apply", str(file), "--url", server.base).stdout
    assert tocsin("rules", "export", "--source", "team", "--url", server.base).stdout == FILE
    file.write_text(FILE.replace('"team"', '"other"'))
    refused = error_text(tocsin("rules", "apply", str(file), "--url", server.base))
    assert "source 'team' uses this one" in refused
    file.write_text('source = "team"\n')
    assert "- rule cli-mine" in tocsin("rules", "apply", str(file), "--url", server.base).stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("source = ", "is not valid TOML"),
        (FILE.replace("5.0", "nan"), "rule[0].limit: expected a finite number"),
        (FILE.replace("loss", "loss-*" * 9), "rule[0].series: expected a glob with at most 8 stars"),
        ("", "source: expected the file's own name"),
    ],
)
def test_an_invalid_file_is_rejected_with_one_message(
    tocsin: Callable[..., Any], file: Path, text: str, words: str
) -> None:
    """The message has the file, the field and the reason; nothing is stored."""
    file.write_text(text)
    assert words in error_text(tocsin("rules", "apply", str(file)))
    assert "rule" not in tocsin("rules", "export", "--source", "team").stdout.replace("source", "")


def test_an_address_without_a_server_is_reported(tocsin: Callable[..., Any], file: Path) -> None:
    """No traceback."""
    assert "expected http://HOST:PORT" in error_text(
        tocsin("rules", "apply", str(file), "--url", "file:///etc")
    )
    reported = error_text(tocsin("rules", "apply", str(file), "--url", "http://127.0.0.1:9"))
    assert "Cannot reach a tocsin server" in reported


def test_changes_are_printed_as_json(tocsin: Callable[..., Any], file: Path) -> None:
    """With the fields of the HTTP API."""
    dry = json.loads(tocsin("rules", "apply", str(file), "--dry-run", "--json").stdout)
    assert (dry["source"], dry["dry_run"], dry["unchanged"]) == ("team", True, 0)
    assert [(one["action"], one["id"]) for one in dry["changes"]] == [("create", "cli-mine")]
