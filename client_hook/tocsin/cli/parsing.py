"""Parse arguments, and suggest the command that was probably meant."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]

Run = Callable[[argparse.Namespace], int]
_UNKNOWN = "unrecognized arguments: "
SYNONYMS = {"--server": "--url", "--host": "--url"}
"""Options that other tools call differently."""
_INVALID = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest similar commands."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with status 2."""
        found = _INVALID.search(message)
        if found is not None:
            known = [name.strip("' ") for name in found[2].split(",")]
            near = difflib.get_close_matches(found[1], known, 2)
            hint = f" Did you mean {' or '.join(near)}?" if near else f" Commands: {', '.join(known)}."
            message = f"There is no command {found[1]!r}.{hint}" if "COMMAND" in message else message
        elif message.startswith(_UNKNOWN):
            word = message[len(_UNKNOWN) :].split()[0].partition("=")[0]
            options = set(_options(self))
            same = SYNONYMS.get(word)
            near = [same] if same in options else difflib.get_close_matches(word, options, 1, 0.7)
            message += f". Did you mean {near[0]}?" if near else ""
        super().error(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments. An unknown one is an error of the command, which knows its options."""
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(_UNKNOWN + " ".join(unknown))
        return namespace, unknown


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings


def command(commands: Commands, name: str, run: Run, *, server: bool = True, login: bool = False) -> Parser:
    """Add a command. The list of commands shows the first sentence of its docstring.

    Args:
        commands: The list.
        name: Its name.
        run: What it does.
        server: Whether it has the options that choose a server.
        login: Whether it uses what ``tocsin login`` stored if neither options nor environment choose one.
    """
    text = run.__doc__ or ""
    first = " ".join(text.split()).partition(". ")[0].removesuffix(".")
    parser = commands.add_parser(name, help=f"{first}.", description=text)
    if server:
        otherwise = ", else what tocsin login stored" if login else ""
        parser.add_argument("--url", help=f"address of the server; default: TOCSIN_URL{otherwise}")
        parser.add_argument(
            "--token",
            help=f"token, which other users of this machine can see; default: TOCSIN_TOKEN{otherwise}",
        )
    parser.set_defaults(command=run)
    return parser


def add_json(parser: argparse.ArgumentParser, fields: str) -> None:
    """Add ``--json``. ``fields`` describes the answer; docs/reference/cli-hook.md is made of it."""
    parser.add_argument("--json", action="store_true", help=f"print JSON: {fields}")


def limit(text: str) -> int:
    """Return how many things are listed at most. For ``type=`` of an argument.

    Raises:
        argparse.ArgumentTypeError: It is no whole number of 1 or more.
    """
    return count(text, 1)


def count(text: str, least: int = 0) -> int:
    """Return a number of things. For ``type=`` of an argument.

    Raises:
        argparse.ArgumentTypeError: It is no whole number of ``least`` or more.
    """
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, got {text!r}")
    return number
