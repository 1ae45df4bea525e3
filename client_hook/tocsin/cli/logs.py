"""``tocsin runs logs``: what the script of a run wrote to its terminal."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from ..core.values import counted
from .asking import asking
from .parsing import add_json, command, count

if TYPE_CHECKING:
    from ..read import ConsoleLine
    from .parsing import Commands
    from .waiting_api import WaitingApi

WAITING = "Waiting for new lines. Press Ctrl-C to stop."
NO_ANSWER = "The server does not answer. Trying again; press Ctrl-C to stop."
_ERASE = "\r\x1b[K"
"""Goes to the beginning of the line and erases it."""


@asking
def runs_logs(api: WaitingApi, options: argparse.Namespace) -> int:
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
    printer = _Printer(is_live=options.follow and not options.json and sys.stdout.isatty())
    api.on_pause = printer.wait
    try:
        printer.wait(is_answered=True)
        for line in lines:
            if options.json:
                print_json(line)
            else:
                printer.print(line)
    finally:
        printer.end()
    if printer.is_live:
        print(f"The run is {api.run(options.run).state}.", file=sys.stderr)
    return 0


class _Printer:
    """Prints lines. On a terminal that follows a run, a progress bar is drawn in place.

    Args:
        is_live: Whether it is such a terminal.
    """

    def __init__(self, *, is_live: bool) -> None:
        self.is_live = is_live
        self._has_open = False
        self._waiting = ""

    def print(self, line: ConsoleLine) -> None:
        """Print a line; one that has not ended only on a terminal that follows, if more follows."""
        text = _text_of(line)
        self._erase()
        if self.is_live and line.open:
            self._has_open = True
            self._draw(text)
            return
        if line.dropped:
            print(f"({counted(line.dropped, 'line')} not recorded)")
        print(text, flush=True)

    def wait(self, is_answered: bool) -> None:
        """Show on a terminal that follows, and has no progress bar, what it waits for."""
        text = WAITING if is_answered else NO_ANSWER
        if self.is_live and not self._has_open and text != self._waiting:
            self._erase()
            self._waiting = text
            self._draw(text)

    def end(self) -> None:
        """End the last line."""
        if self._waiting:
            self._erase()
            sys.stdout.flush()
        elif self._has_open:
            print()

    def _draw(self, text: str) -> None:
        """Draw a line that is replaced by the next one."""
        sys.stdout.write(text[: shutil.get_terminal_size().columns - 1])
        sys.stdout.flush()

    def _erase(self) -> None:
        """Erase the line that is replaced."""
        if self._has_open or self._waiting:
            sys.stdout.write(_ERASE)
        self._has_open, self._waiting = False, ""


def _text_of(line: ConsoleLine) -> str:
    from ..read.text import shown

    text = "\t".join(map(shown, line.text.split("\t")))
    return f"[rank {line.rank}] {text}" if line.rank else text


def add_command(runs: Commands) -> None:
    """Add the command to the parser."""
    parser = command(runs, "logs", runs_logs, login=True)
    add_json(parser, "an array of lines; with --follow, one JSON object per line")
    parser.add_argument("run", metavar="RUN", help="id or name of the run")
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines until the run ends")
    parser.add_argument(
        "--grep", default="", metavar="TEXT", help="only lines with this text; case does not matter"
    )
    parser.add_argument("--tail", type=count, metavar="N", help="only the last N lines; default: all")
