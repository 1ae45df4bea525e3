"""``tocsin runs logs``: what the script of a run wrote to its terminal."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from .asking import asking
from .parsing import add_json, command, count

if TYPE_CHECKING:
    from ..read import Api, ConsoleLine
    from .parsing import Commands

_ERASE = "\r\x1b[K"
"""Goes to the beginning of the line and erases it."""


@asking
def runs_logs(api: Api, options: argparse.Namespace) -> int:
    """Print what the script of a run wrote to its terminal: about the newest million characters."""
    from .output import print_json

    wanted = {"contains": options.grep, "tail": options.tail}
    if options.follow:
        lines = api.follow_console(options.run, **wanted)
    elif options.json:
        print_json(api.console(options.run, **wanted).all())
        return 0
    else:
        lines = iter(api.console(options.run, **wanted))
    printer = _Printer(is_live=options.follow and sys.stdout.isatty())
    for line in lines:
        if options.json:
            print_json(line)
        else:
            printer.print(line)
    printer.end()
    return 0


class _Printer:
    """Prints lines. On a terminal that follows a run, a progress bar is drawn in place."""

    def __init__(self, *, is_live: bool) -> None:
        self._is_live = is_live
        self._has_open = False

    def print(self, line: ConsoleLine) -> None:
        """Print a line; one that has not ended only on a terminal that follows, if more follows."""
        text = _text_of(line)
        if self._has_open:
            sys.stdout.write(_ERASE)
            self._has_open = False
        if self._is_live and line.open:
            sys.stdout.write(text[: shutil.get_terminal_size().columns - 1])
            sys.stdout.flush()
            self._has_open = True
            return
        if line.dropped:
            print(f"({line.dropped} lines were not recorded)")
        print(text, flush=True)

    def end(self) -> None:
        """End the last line."""
        if self._has_open:
            print()


def _text_of(line: ConsoleLine) -> str:
    from ..read.text import shown

    text = "\t".join(map(shown, line.text.split("\t")))
    return f"[rank {line.rank}] {text}" if line.rank else text


def add_command(runs: Commands) -> None:
    """Add the command to the parser."""
    parser = command(runs, "logs", runs_logs)
    add_json(parser, "an array of lines; with --follow, one JSON object per line")
    parser.add_argument("run", metavar="RUN", help="id or name of the run")
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines until the run ends")
    parser.add_argument(
        "--grep", default="", metavar="TEXT", help="only lines with this text; case does not matter"
    )
    parser.add_argument("--tail", type=count, metavar="N", help="only the last N lines; default: all")
