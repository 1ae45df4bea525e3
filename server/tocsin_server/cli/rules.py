"""The commands ``tocsin-server rules apply`` and ``rules export`` (docs/reference/custom-rules.md)."""

from __future__ import annotations

import json
import os
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlsplit

import typer

from tocsin_server.cli.options import AsJson, Config, DatabaseUrl, DataDir, print_json, settings_of, who
from tocsin_server.core.errors import FieldError, TocsinError

if TYPE_CHECKING:
    from tocsin_server.rules.documents import Difference, Document

TIMEOUT_S = 30.0
MOST_BYTES = 4 << 20

rules_app = typer.Typer(
    help="Manage custom rules as a file, for example in a repository.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Url = Annotated[
    str | None, typer.Option("--url", help="A running server; its token of scope write is in TOCSIN_TOKEN.")
]


@rules_app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="A TOML file with source = and [[rule]] tables.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Apply the rules from a file. Rules that it created before and no longer contains are deleted."""
    from tocsin_server.cli.database import writing
    from tocsin_server.rules.documents import apply_document, read_document

    body = _read(file)
    try:
        document = read_document(body)
        if url is not None:
            changes = _applied_over_http(url, body, dry_run)
        else:
            with writing(settings_of(database_url, data_dir, config)) as connection:
                changes = apply_document(
                    connection, document, actor=who(), now_ns=time.time_ns(), dry_run=dry_run
                )
    except FieldError as error:
        raise TocsinError(f"{file}: {error}") from error
    if as_json:
        from tocsin_server.http.api.rulefiles import applied

        print_json(applied(document, changes, dry_run))
        return
    _tell(document, changes, dry_run)


@rules_app.command("export")
def export(
    source: Annotated[
        str, typer.Option("--source", help="Rules of this source; by default those created by hand.")
    ] = "",
    url: Url = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Print rules as a file that `rules apply` reads."""
    if url is not None:
        print(_asked(url, f"/rules/export?source={quote(source)}")["toml"], end="")
        return
    from tocsin_server.cli.database import opened
    from tocsin_server.rules.documents import exported

    with opened(settings_of(database_url, data_dir, config)) as database, database.reader.begin() as reading:
        print(exported(reading, source), end="")


def _read(file: Path) -> dict[str, Any]:
    if file.stat().st_size > MOST_BYTES:
        raise TocsinError(f"{file}: expected at most {MOST_BYTES} bytes, got {file.stat().st_size}")
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except ValueError as error:  # also an integer with thousands of digits
        raise TocsinError(f"{file} is not valid TOML: {error}") from error
    except RecursionError:
        raise TocsinError(f"{file}: lists or tables are nested too deeply.") from None


def _tell(document: Document, changes: list[Difference], dry_run: bool) -> None:
    from tocsin_server.rules.documents import as_text

    for line in as_text(changes):
        typer.echo(line)
    held = len(document.rules) + len(document.tunings)
    touched = sum(change.action != "delete" for change in changes)
    if not changes:
        typer.echo(f"Nothing to change: {document.source} is up to date.")
        return
    word = "would change" if dry_run else "changed"
    typer.echo(f"{len(changes)} {word}, {held - touched} unchanged in {document.source}.")


def _applied_over_http(url: str, body: dict[str, Any], dry_run: bool) -> list[Difference]:
    from tocsin_server.rules.documents import Difference

    wanted = {
        "source": body["source"],
        "rules": body.get("rule", []),
        "builtin": body.get("builtin", []),
        "dry_run": dry_run,
    }
    answer = _asked(url, "/rules/apply", wanted)
    return [
        Difference(
            change["action"],
            change["kind"],
            change["id"],
            change["project"],
            tuple((item["field"], item["before"], item["after"]) for item in change["fields"]),
        )
        for change in answer["changes"]
    ]


def _asked(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Return the response of a running server. Raises TocsinError with the server's message."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise TocsinError(f"--url: expected http://HOST:PORT, got {url!r}")
    headers = {"accept": "application/json", "content-type": "application/json"}
    if token := os.environ.get("TOCSIN_TOKEN", ""):
        headers["authorization"] = f"Bearer {token}"
    data = None
    if body is not None:
        from tocsin_server.core import exact_json

        data = exact_json.dumps(body).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/api/v1{path}", data, headers)  # noqa: S310 - scheme checked
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise TocsinError(f"{url}: {_detail(error)}") from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise TocsinError(
            f"Cannot reach a tocsin server at {url}: {getattr(error, 'reason', error)}"
        ) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Reject redirects, which would send the token to another address."""

    def redirect_request(self, *_args: Any) -> None:
        return None


def _detail(error: urllib.error.HTTPError) -> str:
    with error:
        try:
            return str(json.loads(error.read())["detail"])
        except (ValueError, KeyError, TypeError):
            return f"HTTP {error.code}"
