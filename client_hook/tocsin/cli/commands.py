"""Parse the command line of ``tocsin``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from ..core.server_choice import chosen_token, chosen_url
from ..core.values import counted
from ..spool.segments import default_dir
from . import login, reading, top
from .parsing import Parser
from .parsing import command as _command

if TYPE_CHECKING:
    from . import import_logs
    from . import sync as sync_command
    from .log_run import Destination

MARKS = {True: "ok  ", False: "FAIL", None: "note"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Exit status 0: success; 1: a problem was found; 2: wrong usage."""
    options = _parser().parse_args(arguments)
    return int(options.command(options))


def doctor(options: argparse.Namespace) -> int:
    """Check the connection between this machine and the server."""
    from .doctor import examine

    url = chosen_url(options.url)
    broken, checks = 0, []
    for check in examine(url, _token(options), options.project, options.spool_dir or default_dir()):
        broken += check.ok is False
        checks.append({"name": check.name, "ok": check.ok, "text": check.text})
        if not options.json:
            print(f"{MARKS[check.ok]}  {check.name:<10}  {check.text}", flush=True)
    if options.json:
        print(json.dumps(checks))
        return int(broken > 0)
    failed = f"{broken} check{'' if broken == 1 else 's'} failed."
    print(f"\n{failed}" if broken else "\nAll checks passed. Runs will be reported.")
    return int(broken > 0)


def sync(options: argparse.Namespace) -> int:
    """Upload what runs buffered on disk while the server was unavailable."""
    from .sync import sync as deliver

    root = options.dir or default_dir()
    url = options.url or os.environ.get("TOCSIN_URL") or None
    outcomes = []
    for outcome in deliver(root, url=url, token=_token(options), timeout_s=options.timeout):
        outcomes.append(outcome)
        if not options.json:
            print(f"{MARKS[outcome.delivered]}  {outcome.text}", flush=True)
    if options.json:
        _print_outcomes(outcomes)
    elif not outcomes:
        print(f"There is nothing to upload in {root}.")
    return int(any(outcome.delivered is False for outcome in outcomes))


def tail(options: argparse.Namespace) -> int:
    """Follow a growing log of any known format and report it as a run, until Ctrl-C."""
    from ..importers import UnreadableLogError
    from .tail import PAUSE_S, follow, run_of

    path, idle_s = options.file, options.idle_exit
    project = options.project or path.resolve().parent.name or "logs"
    run = run_of(path, project, options.name or path.stem, _destination(options), options.run)
    try:
        follow(
            path, run, stop=lambda looks: idle_s is not None and looks * PAUSE_S >= idle_s, on_format=_print
        )
    except KeyboardInterrupt:
        pass
    except UnreadableLogError as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 2
    run.close()
    print(f"{counted(run.records, 'record')} of {path}")
    return 0


def import_(options: argparse.Namespace) -> int:
    """Import past runs from log files or a folder of them. Each file is imported once."""
    from .import_logs import import_runs

    if not options.path.exists():
        print(f"tocsin: there is no file or folder {options.path}", file=sys.stderr)
        return 2
    outcomes = []
    for outcome in import_runs(options.path, _destination(options, spool=False), options.project):
        outcomes.append(outcome)
        if not options.json:
            print(f"{MARKS[outcome.delivered]}  {outcome.text}", flush=True)
    if options.json:
        _print_outcomes(outcomes)
    elif not outcomes:
        print(f"No log of a known format in {options.path}.")
    return int(any(outcome.delivered is False for outcome in outcomes))


def checkpoints(options: argparse.Namespace) -> int:
    """List the checkpoints of a run, and name the last one that is good to resume from.

    The exit status is 1 if none is good.
    """
    from ..api.resume import checkpoints as ask

    try:
        answer = ask(options.run, before=options.before, url=options.url, token=options.token)
    except (LookupError, OSError, ValueError) as error:
        print(f"tocsin: {error.args[0] if error.args else error}", file=sys.stderr)
        return 2
    best = answer["last_good"]
    if options.json:
        print(json.dumps(answer))
    elif options.path:
        if best is not None:
            os.write(sys.stdout.fileno(), os.fsencode(best["file"]) + b"\n")
    else:
        for item in answer["items"]:
            problem = item["problem"] or ("no longer exists" if item["exists"] is False else "")
            size = "" if item["size"] is None else f"{item['size'] / 1e6:,.1f} MB"
            row = f"{MARKS[not problem]}  step {item['step']:<8}  {size:>12}  {item['path']}"
            print(f"{row}  ({problem})" if problem else row)
        print(answer["text"])
    return int(best is None)


def export(options: argparse.Namespace) -> int:
    """Write runs into a folder that DuckDB queries: every record as Parquet, and SQL views.

    The token needs the scope read. Runs that ended are written once.
    """
    from ..read import Api
    from ..read.folder_export import export_runs

    count = written = 0
    try:
        with Api(options.url, options.token) as api:
            for found in export_runs(api, options.dir, options.filter, options.project):
                count, written = count + 1, written + found.is_new
                _print(f"{'written' if found.is_new else 'kept   '}  {found.path}  {found.run.name}")
    except (LookupError, OSError, ValueError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 2
    _print(
        f"{counted(count, 'run')}, {written} written. Query them: duckdb -init {options.dir / 'views.sql'}"
    )
    return 0


def run(options: argparse.Namespace) -> int:
    """Run a training command and watch it, without a line of code in its scripts.

    For example: tocsin run python train.py, tocsin run torchrun --nproc-per-node 2 train.py. Everything that
    the command starts is watched once it trains.
    """
    from .run_command import replace_process

    command = options.arguments[options.arguments[:1] == ["--"] :]
    settings = {"URL": options.url, "TOKEN": options.token, "PROJECT": options.project, "NAME": options.name}
    if options.tag:
        settings["TAGS"] = ",".join(options.tag)
    given = {f"TOCSIN_{name}": value for name, value in settings.items() if value}
    try:
        replace_process(command, {**os.environ, **given})
    except (OSError, ValueError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126 if isinstance(error, OSError) else 2


def mcp(options: argparse.Namespace) -> int:
    """Answer a coding agent over standard input and output (Model Context Protocol).

    Agents start it themselves. It needs `pip install 'tocsin[mcp]'`.
    """
    try:
        from ..mcp.stdio import serve
    except ModuleNotFoundError as error:
        print(f"tocsin: {error}. Install it: pip install 'tocsin[mcp]'", file=sys.stderr)
        return 2
    try:
        serve(options.url, options.token)
    except ValueError as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


def enable(options: argparse.Namespace) -> int:
    """Watch every training of this Python environment that starts with TOCSIN_AUTO=1."""
    from .enable import install, installed_in

    path = install(installed_in())
    print(f"Created {path}. Start trainings with TOCSIN_AUTO=1 to watch them.")
    return 0


def disable(options: argparse.Namespace) -> int:
    """Undo tocsin enable."""
    from .enable import installed_in, remove

    path = remove(installed_in())
    print(f"Removed {path}." if path else "tocsin enable was not used in this environment.")
    return 0


def _destination(options: argparse.Namespace, *, spool: bool = True) -> Destination:
    from .log_run import Destination

    url = chosen_url(options.url)
    return Destination(url, _token(options), default_dir() if spool else None)


def _print_outcomes(outcomes: Iterable[import_logs.Outcome | sync_command.Outcome]) -> None:
    print(json.dumps([{"ok": outcome.delivered, "text": outcome.text} for outcome in outcomes]))


def _print(text: str) -> None:
    print(text, flush=True)


def _token(options: argparse.Namespace) -> str:
    return chosen_token(options.token or None)


def _parser() -> Parser:
    parser = Parser(prog="tocsin", description="Watch trainings, and read a server from the terminal.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    examined = _command(commands, "doctor", doctor)
    examined.add_argument(
        "--project", default="doctor", help="project that the token must be valid for; default: doctor"
    )
    examined.add_argument(
        "--spool-dir", type=Path, help="directory of buffered records; default: TOCSIN_SPOOL_DIR"
    )
    synced = _command(commands, "sync", sync)
    synced.add_argument(
        "dir",
        nargs="?",
        type=Path,
        metavar="DIR",
        help="directory of buffered records; default: TOCSIN_SPOOL_DIR",
    )
    synced.add_argument(
        "--timeout", type=float, default=30.0, help="seconds without progress after which a spool is skipped"
    )
    followed = _command(commands, "tail", tail)
    followed.add_argument("file", type=Path, metavar="FILE")
    followed.add_argument("--project", help="project of the run; default: the folder's name")
    followed.add_argument("--name", help="the run's name; default: the file's")
    followed.add_argument("--run", metavar="ID", help="continue this run as a new attempt")
    followed.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="exit after this time without new lines"
    )
    listed = _command(commands, "checkpoints", checkpoints)
    listed.add_argument("run", metavar="RUN", help="the run's id")
    listed.add_argument(
        "--before", type=int, metavar="STEP", help="only checkpoints before this step are good"
    )
    listed.add_argument("--json", action="store_true", help="print the complete answer as JSON")
    listed.add_argument("--path", action="store_true", help="print only the path of the last good checkpoint")
    _command(commands, "mcp", mcp)
    ran = _command(commands, "run", run)
    ran.add_argument("--project", help="project of the run; default: the name of the script's repository")
    ran.add_argument("--name", help="the run's name; default: the script's")
    ran.add_argument("--tag", action="append", help="a word to find the run by; may be repeated")
    ran.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND", help="command and arguments")
    for name, switch in (("enable", enable), ("disable", disable)):
        _command(commands, name, switch, server=False)
    exported = _command(commands, "export", export)
    exported.add_argument("dir", type=Path, metavar="DIR", help="a folder; it is created")
    exported.add_argument("--project", help="only runs of this project")
    exported.add_argument(
        "--filter", default="", help="only runs that match, as on the page of runs: 'tag:fp16 config.lr>1e-4'"
    )
    imported = _command(commands, "import", import_)
    imported.add_argument("path", type=Path, metavar="PATH", help="a log file, or a folder of them")
    imported.add_argument("--project", help="project of the run; default: the folder's name")
    for found in (examined, synced, imported):
        found.add_argument("--json", action="store_true", help="print JSON")
    reading.add_commands(commands)
    top.add_commands(commands)
    login.add_commands(commands)
    return parser
