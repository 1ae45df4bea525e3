"""The reference of the two command lines, from their parsers."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from typing import Any

import typer
from tables import code, table

SERVER = """\
# `tocsin-server`

*Reference, generated from the command line itself.*

The server and its data. `--help` after any command prints the same text.

Every command reads its [settings](settings.md) from defaults, `tocsin.toml`, `TOCSIN_*` variables and
options. Exit status: 0 success, 2 the command could not do its work (wrong usage, settings, database, port).
A command that uses status 1 says so.

## JSON

`--json` prints one line of JSON to standard output; messages stay on standard error. Times end in `_ms`
and are Unix milliseconds. A later version may add fields.

| Command | Fields |
| --- | --- |
| `token create` | `{id, name, scope, project, created_ms, revoked_ms, token}`; `token` is the secret |
| `token list` | an array of the same without `token`; `created_ms` is null for tokens in a file |
| `rules apply` | `{source, dry_run, changes, unchanged}` of [`POST /rules/apply`](http-api.md) |
| `import` | an array of `{run, was_there, counts}` |
| `prune` | `{dry_run, runs}`; `runs` is an array of `{id, project, name, state, last_seen_ms}` |
| `backup` | `{file, bytes, revision, seconds, issues}` |
| `check` | `{damages, left}`; `damages` is an array of `{table, run_id, key, column, reason}` |
| `diagnose` | [`{files}`](log-formats.md#json-of-diagnose) |
| `backtest` | the rule, its settings, and the firings of each run |
"""
HOOK = """\
# `tocsin`

*Reference, generated from the command line itself.*

Commands for the machine that trains, and commands that [read a server](../how-to/terminal.md).
They come with the hook (`pip install tocsin`).

Exit status: 0 success, 1 a problem was found, 2 the command could not do its work (wrong
usage, an unknown run, no answer from the server). `tocsin run` has the exit status of its command.

## JSON

Every command that prints facts has `--json`. It then prints one line of JSON to standard output: an
object, or an array for lists. The option of each command below names the fields. Runs, alerts and
incidents have the fields of the [read API](read-api.md): `tocsin runs list --json` prints an array of
[`Run`](read-api.md#tocsin.read.answers.Run). Unknown values are null. NaN and infinities are the strings
`"NaN"`, `"Infinity"` and `"-Infinity"`. Times end in `_ms` and are Unix milliseconds. Errors stay
text on standard error, and the exit status is the same as without `--json`. A later version may
add fields.

On a terminal, results have colors (if `tocsin[terminal]` is installed and `NO_COLOR` is not set), tables
are cut to its width, and work that takes more than a second has a progress bar on standard error. In a
pipe, all of it is plain text, and nothing is cut.
"""


def server_page() -> str:
    """Return the page of ``tocsin-server``."""
    from tocsin_server.cli.main import app

    root = typer.main.get_command(app)
    return SERVER + "\n" + "\n".join(_click_section(path, command) for path, command in _commands(root, ""))


def hook_page() -> str:
    """Return the page of ``tocsin``."""
    from tocsin.cli.commands import _parser

    sections = [_argparse_section(path, parser) for path, parser in hook_commands("tocsin", _parser())]
    return HOOK + "\n" + "\n".join(sections)


def hook_commands(
    path: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command below a parser with its words, such as ``tocsin runs list``."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield path, parser
    for group in groups:
        for name, below in group.choices.items():
            yield from hook_commands(f"{path} {name}", below)


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every command below ``command`` with its words, such as ``tocsin-server token create``."""
    path = f"{path} {command.name}".strip()
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    for below in (inner or {}).values():
        yield from _commands(below, path)


def _click_section(path: str, command: Any) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {path}", inspect.cleandoc(command.help or ""), f"```\n{path} {usage}\n```"]
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [(code(names.strip()), text or "-") for names, text in filter(None, records)]
    if rows:
        parts.append(table(("Argument or option", "What it does"), rows))
    return "\n\n".join(parts) + "\n"


def _argparse_section(path: str, parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        shown = action.metavar or action.dest.upper()
        name = ", ".join(action.option_strings) if action.option_strings else str(shown)
        if action.option_strings and action.nargs != 0:
            name += f" {shown}"
        is_clear = action.default in (None, False, "") or "default:" in (action.help or "")
        default = "" if is_clear else f" [default: {action.default}]"
        rows.append((code(name), (action.help or "-") + default))
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    description = inspect.cleandoc(parser.description or "")
    head = ("Argument or option", "What it does")
    return f"## {path}\n\n{description}\n\n```\n{usage}\n```\n\n{table(head, rows)}"
