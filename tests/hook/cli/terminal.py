"""A terminal in which a test runs a command: what is on its screen, whatever was drawn and erased before."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SEQUENCE = re.compile("\x1b\\[([?\\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
"""Control sequence, line feed or carriage return, or text."""


class Screen:
    """What a terminal shows. Text that is longer than a line continues on the next one, as in a real one."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._cells: list[list[str]] = [[]]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        """The lines, without empty ones at the end."""
        lines = ["".join(row).rstrip() for row in self._cells]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def draw(self, text: str) -> None:
        """Draw what a program writes; colors and other sequences are ignored."""
        for numbers, letter, control, written in SEQUENCE.findall(text):
            if control == "\r":
                self._column = 0
            elif control:
                self._down()
            elif letter == "A":
                self._row = max(0, self._row - int(numbers or 1))
            elif letter == "K":
                del self._cells[self._row][0 if numbers == "2" else self._column :]
            for one in written:
                self._put(one)

    def _put(self, one: str) -> None:
        if self._column == self._columns:
            self._column = 0
            self._down()
        row = self._cells[self._row]
        row += " " * (self._column + 1 - len(row))
        row[self._column] = one
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._cells):
            self._cells.append([])


class Terminal:
    """A command on a terminal, which its standard error always is.

    Args:
        command: The command.
        environ: Further variables.
        columns: Width of the terminal.
        piped: Whether standard output is a pipe.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], columns: int = 80, *, piped: bool = False
    ) -> None:
        self.screen = Screen(columns)
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        known = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if piped else theirs,
            stderr=theirs,
            env={**known, "TERM": "xterm-256color", **environ},
            text=True,
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self._ours)
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait()

    def wait_for(self, shown: Callable[[list[str]], bool]) -> None:
        """Read what the command draws until the screen is as expected. The timeout of the test ends it."""
        while not shown(self.screen.lines):
            self.screen.draw(os.read(self._ours, 1 << 16).decode())

    def end(self) -> tuple[list[str], str]:
        """Return the last screen, and what the command wrote to its pipe."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        out = "" if self.process.stdout is None else self.process.stdout.read()
        try:
            while text := os.read(self._ours, 1 << 16):
                self.screen.draw(text.decode())
        except OSError:  # the command has closed its end
            pass
        self.process.wait(60)
        return self.screen.lines, out
