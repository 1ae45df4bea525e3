"""``tocsin top``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from .parsing import command

if TYPE_CHECKING:
    from .parsing import Commands

LOOK_S = 1.0
"""Interval of checking whether the terminal still exists."""


def top(options: argparse.Namespace) -> int:
    """Show runs, live charts and incidents in this terminal, and acknowledge incidents.

    Install it with `pip install 'tocsin[terminal]'`. FILTER is as on the fleet page.
    """
    from ..read import ApiError

    try:
        from ..top.app import show
    except ModuleNotFoundError as error:
        print(f"tocsin: {error}. Install it: pip install 'tocsin[terminal]'", file=sys.stderr)
        return 2
    if not _is_terminal():
        print("tocsin: `tocsin top` needs a terminal. In scripts, use `tocsin runs list`.", file=sys.stderr)
        return 2
    if not _can_draw(sys.stderr.encoding):
        print(
            f"tocsin: `tocsin top` draws with characters that {sys.stderr.encoding} lacks. If your terminal "
            "supports UTF-8, start it as `LC_ALL=C.UTF-8 tocsin top`; otherwise, use `tocsin runs list`.",
            file=sys.stderr,
        )
        return 2
    threading.Thread(target=_end_with_terminal, daemon=True).start()
    try:
        asyncio.run(show(options.url, options.token, " ".join(options.filter), options.project))
    except (ApiError, OSError, ValueError) as error:
        print(f"tocsin: {error}", file=sys.stderr)
        return 2
    return 0


def _is_terminal() -> bool:
    """Return whether keys can be read, and whether the screen can be drawn."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return os.environ.get("TERM", "") not in ("", "dumb") and all(stream.isatty() for stream in streams)


def _can_draw(encoding: str) -> bool:
    """Return whether an encoding has the characters of the charts."""
    try:
        "\u28ff\u00d7\u25be\u23ce\u2026".encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _end_with_terminal() -> None:
    """End this process once its terminal is gone.

    A process that its terminal does not end with a signal would read the closed terminal without pause, and
    could wait forever for what it draws to be written.
    """
    while sys.stdin.isatty():
        time.sleep(LOOK_S)
    os._exit(1)


def add_commands(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = command(commands, "top", top, login=True)
    parser.add_argument("filter", nargs="*", metavar="FILTER", help="filter terms; all must match")
    parser.add_argument("--project", help="only runs of this project")
