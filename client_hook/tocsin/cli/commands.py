"""Parse the command line of ``tocsin``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.server_choice import chosen_token, chosen_url
from ..spool.segments import default_dir
from . import login, reading, top, transfer
from .output import print_json, print_result, print_table
from .parsing import Parser, add_json
from .parsing import command as _command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Exit status 0: success; 1: a problem was found; 2: wrong usage."""
    try:
        with _flushed():
            options = _parser().parse_args(arguments)
            return int(options.command(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # of `| head`, which has read enough
        return 0
    except OSError as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 2


@contextmanager
def _flushed() -> Iterator[None]:
    """Write what was printed while an error can be handled; the interpreter would print it at its exit."""
    if sys.stdout is None:  # after `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


def doctor(options: argparse.Namespace) -> int:
    """Check the connection between this machine and the server."""
    from .doctor import examine

    url = chosen_url(options.url)
    checks = []
    for check in examine(url, _token(options), options.project, options.spool_dir or default_dir()):
        checks.append(asdict(check))
        if not options.json:
            print_result(check.ok, f"{check.name:<10}  {check.text}")
    broken = sum(check["ok"] is False for check in checks)
    if options.json:
        print_json(checks)
    else:
        failed = f"{broken} check{'' if broken == 1 else 's'} failed."
        print(f"\n{failed}" if broken else "\nAll checks passed. Runs will be reported.")
    return int(broken > 0)


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
        print_json(answer)
    elif options.path:
        if best is not None:
            os.write(sys.stdout.fileno(), os.fsencode(best["file"]) + b"\n")
    else:
        if answer["items"]:
            head = ("GOOD", "STEP", "SIZE", "PATH", "PROBLEM")
            print_table(head, [_row(item) for item in answer["items"]], empty="")
        print(answer["text"])
    return int(best is None)


def _row(item: dict[str, Any]) -> tuple[str, str, str, str, str]:
    problem = item["problem"] or ("no longer exists" if item["exists"] is False else "")
    size = "" if item["size"] is None else f"{item['size'] / 1e6:,.1f} MB"
    return "no" if problem else "yes", str(item["step"]), size, item["path"], problem


def run(options: argparse.Namespace) -> int:
    """Run a training command and record it, without changing its scripts.

    For example: tocsin run python train.py, tocsin run torchrun --nproc-per-node 2 train.py. Every Python
    process that the command starts is recorded once it trains.
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


def diagnose(options: argparse.Namespace) -> int:
    """Find out what went wrong in training logs, or in a folder of runs, without a server.

    It runs tocsin-server diagnose. Install that with `pip install tocsin-server`.
    """
    from importlib.util import find_spec

    if find_spec("tocsin_server") is None:
        print("tocsin: the rules are not installed. Install them: pip install tocsin-server", file=sys.stderr)
        return 2
    command = [sys.executable, "-P", "-m", "tocsin_server", "diagnose", *options.path]
    command += ["--json"] * options.json
    command += ["--fail-on", options.fail_on] if options.fail_on else []
    command += ["--full"] * options.full
    return os.execv(sys.executable, command)  # noqa: S606 - this Python


def mcp(options: argparse.Namespace) -> int:
    """Answer a coding agent over standard input and output (Model Context Protocol).

    Agents start it themselves. Install it with `pip install 'tocsin[mcp]'`.
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
    if options.json:
        print_json({"path": str(path)})
        return 0
    print(f"Created {path}. Start trainings with TOCSIN_AUTO=1 to watch them.")
    return 0


def disable(options: argparse.Namespace) -> int:
    """Undo tocsin enable."""
    from .enable import installed_in, remove

    path = remove(installed_in())
    if options.json:
        print_json({"path": None if path is None else str(path)})
        return 0
    print(f"Removed {path}." if path else "tocsin enable was not used in this environment.")
    return 0


def _token(options: argparse.Namespace) -> str:
    return chosen_token(options.token or None)


def _parser() -> Parser:
    parser = Parser(prog="tocsin", description="Record training runs, and query a server from the terminal.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    examined = _command(commands, "doctor", doctor)
    examined.add_argument(
        "--project",
        default=os.environ.get("TOCSIN_PROJECT", "").strip() or "doctor",
        help="project that the token must be valid for; default: TOCSIN_PROJECT, else a project named doctor",
    )
    examined.add_argument(
        "--spool-dir", type=Path, help="directory of buffered records; default: TOCSIN_SPOOL_DIR"
    )
    listed = _command(commands, "checkpoints", checkpoints, login=True)
    listed.add_argument("run", metavar="RUN", help="id or name of the run")
    listed.add_argument(
        "--before", type=int, metavar="STEP", help="only checkpoints before this step are good"
    )
    add_json(listed, "{items, text, last_good} of GET /runs/{id}/checkpoints, with exists and file")
    listed.add_argument("--path", action="store_true", help="print only the path of the last good checkpoint")
    add_json(examined, "an array of {name, ok, text}; ok is null for what is only information")
    diagnosed = _command(commands, "diagnose", diagnose, server=False)
    diagnosed.add_argument(
        "path", nargs="+", metavar="PATH", help="a log file, a folder of runs, wandb://ENTITY/PROJECT, or -"
    )
    diagnosed.add_argument(
        "--fail-on",
        choices=("warning", "critical"),
        help="exit with status 1 if a problem of at least this severity was found",
    )
    diagnosed.add_argument("--full", action="store_true", help="show every alert and list")
    add_json(diagnosed, "{files}, as tocsin-server diagnose does")
    _command(commands, "mcp", mcp, login=True)
    ran = _command(commands, "run", run)
    ran.add_argument("--project", help="project of the run; default: the name of the script's repository")
    ran.add_argument("--name", help="the run's name; default: the script's")
    ran.add_argument("--tag", action="append", help="a tag of the run; may be repeated")
    ran.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND", help="command and arguments")
    for name, switch, null in (("enable", enable, ""), ("disable", disable, ", null if there was none")):
        add_json(_command(commands, name, switch, server=False), f"{{path}} of the file{null}")
    transfer.add_commands(commands)
    reading.add_commands(commands)
    top.add_commands(commands)
    login.add_commands(commands)
    return parser
