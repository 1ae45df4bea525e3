"""``tocsin doctor`` and ``tocsin sync``: for the machine that trains."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .beginning import DEFAULT_URL
from .spool import default_dir

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    _Run = Callable[[argparse.Namespace], int]

MARKS = {True: "ok  ", False: "FAIL", None: "note"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Exit status 0: all is well; 1: something is not; 2: wrong usage."""
    options = _parser().parse_args(arguments)
    return int(options.command(options))


def doctor(options: argparse.Namespace) -> int:
    """Says what is wrong between this machine and the server."""
    from .doctor import examine

    url = options.url or os.environ.get("TOCSIN_URL") or DEFAULT_URL
    broken = 0
    for check in examine(url, _token(options), options.project, options.spool_dir or default_dir()):
        broken += check.ok is False
        print(f"{MARKS[check.ok]}  {check.name:<10}  {check.says}", flush=True)
    print("\nAll is well: runs will report." if not broken else f"\n{broken} of the above to be mended.")
    return int(broken > 0)


def sync(options: argparse.Namespace) -> int:
    """Uploads what runs left behind while the server was away."""
    from .sync import sync as deliver

    root = options.dir or default_dir()
    url = options.url or os.environ.get("TOCSIN_URL") or None
    outcomes = []
    for outcome in deliver(root, url=url, token=_token(options), timeout_s=options.timeout):
        outcomes.append(outcome)
        print(f"{MARKS[outcome.delivered]}  {outcome.says}", flush=True)
    if not outcomes:
        print(f"Nothing was left behind in {root}.")
    return int(any(outcome.delivered is False for outcome in outcomes))


def _token(options: argparse.Namespace) -> str:
    return options.token or os.environ.get("TOCSIN_TOKEN") or ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tocsin", description="The training side of tocsin.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    examined = _command(commands, "doctor", doctor)
    examined.add_argument("--project", default="doctor", help="project that the token should be good for")
    examined.add_argument("--spool-dir", type=Path, help="default: TOCSIN_SPOOL_DIR")
    synced = _command(commands, "sync", sync)
    synced.add_argument("dir", nargs="?", type=Path, metavar="DIR", help="default: TOCSIN_SPOOL_DIR")
    synced.add_argument(
        "--timeout", type=float, default=30.0, help="seconds without progress after which a spool is left"
    )
    return parser


def _command(commands: _Commands, name: str, run: _Run) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
    command.add_argument("--url", help="address of the server; default: TOCSIN_URL")
    command.add_argument("--token", help="default: TOCSIN_TOKEN, which other users cannot see")
    command.set_defaults(command=run)
    return command


if __name__ == "__main__":
    sys.exit(main())
