"""Replace this process by a training command in which every Python process is watched."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from . import enable

SITE = Path(__file__).resolve().parents[1] / "auto" / "site"
"""Folder with the module that Python imports at startup."""
WARNING = "tocsin: nothing will be recorded, because Python does not load the hook with {}. {}"
WAYS = {
    "-I": "Run `tocsin enable` in its environment first, or leave out the option.",
    "-E": "Run `tocsin enable` in its environment first, or leave out the option.",
    "-S": "Call tocsin.watch in the script, or leave out the option.",
}
"""Options of Python without which it loads the hook -> what to do."""
LONG = "--check-hash-based-pycs"
"""The one long option of Python with a value."""
WITH_VALUE = "cmWX"
"""Options of Python whose value follows; ``-c`` and ``-m`` are the last ones."""


def replace_process(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Execute the command in place of this process, so that signals and exit status are its own.

    Args:
        command: The command and its arguments. A Python file is run with this Python.
        environ: The environment of the command, to which the startup of the hook is added.

    Raises:
        ValueError: There is no command.
        OSError: The command cannot be executed.
    """
    if not command:
        raise ValueError("No command was given. For example: tocsin run python train.py")
    if flag := _isolation(command):
        print(WARNING.format(flag, WAYS[flag]), file=sys.stderr, flush=True)
    program, *arguments = _python(command)
    environ = {**environ, **watched(environ)}
    try:
        os.execvpe(program, [program, *arguments], environ)  # noqa: S606 - the user's
    except FileNotFoundError:
        raise FileNotFoundError(f"{program}: command not found") from None
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # without an interpreter line, as shells do
            os.execve("/bin/sh", ["sh", shutil.which(program) or program, *arguments], environ)  # noqa: S606
        raise OSError(f"{program} cannot be executed: {error.strerror}") from None


def watched(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which Python processes load the hook.

    An empty entry of ``PYTHONPATH``, as in ``:/lib``, is the current folder and is kept.
    """
    given = environ.get("PYTHONPATH", "")
    others = [one for one in given.split(os.pathsep) if one != str(SITE)] if given else []
    return {"TOCSIN_AUTO": "1", "PYTHONPATH": os.pathsep.join([str(SITE), *others])}


def _isolation(command: Sequence[str]) -> str:
    """Return the option of a Python command with which Python does not load the hook, or an empty text."""
    program, *arguments = command
    if not Path(program).name.startswith(("python", "pypy")):
        return ""
    found = _flags(arguments)
    if "S" in found:
        return "-S"
    flag = next((f"-{one}" for one in "IE" if one in found), "")
    return "" if flag and (enable.installed_in() / enable.FILE).exists() else flag


def _flags(arguments: Sequence[str]) -> str:
    """Return the letters of Python's own options without a value, before the script."""
    found, waiting = "", list(arguments)
    while waiting and waiting[0].startswith("-") and waiting[0] not in ("-", "--"):
        option = waiting.pop(0)
        if option.startswith("--"):
            del waiting[: option == LONG]
            continue
        place = next((k for k, one in enumerate(option) if one in WITH_VALUE), len(option))
        found += option[1:place]
        if option[place : place + 1] in ("c", "m"):
            break
        del waiting[: place == len(option) - 1]
    return found


def _python(command: Sequence[str]) -> list[str]:
    """Return the command, with Python in front of a Python file that a shell could not execute."""
    program = command[0]
    is_script = program.endswith(".py") and Path(program).is_file()
    if is_script and not (os.sep in program and os.access(program, os.X_OK) and _has_interpreter(program)):
        return [sys.executable, *command]
    return list(command)


def _has_interpreter(program: str) -> bool:
    """Return whether a file begins with a line that names its interpreter; true if it cannot be read."""
    try:
        with open(program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True
