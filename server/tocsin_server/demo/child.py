"""Run a process of the demo in its own session, forward its output, and end it gracefully."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

KEPT_LINES = 30
"""Number of last lines of a process that are kept to report why it ended."""


class Child:
    """``python -m MODULE ARGUMENTS`` whose output lines go to ``on_line(name, line)``.

    It has its own session, so that Ctrl-C reaches only the demo, which then ends its children in order.
    """

    def __init__(self, name: str, command: Sequence[str], on_line: Callable[[str, str], None]) -> None:
        self.name = name
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._command = [sys.executable, "-m", *command]
        self._on_line = on_line
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self, environ: Mapping[str, str]) -> None:
        """Start it with ``environ`` added to this process's environment."""
        self._process = subprocess.Popen(  # noqa: S603 - our own modules
            self._command,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=f"output of {self.name}", daemon=True)
        self._reader.start()

    @property
    def status(self) -> int | None:
        """Return the exit status, or None if it is running or was never started."""
        return None if self._process is None else self._process.poll()

    def end(self, timeout_s: float) -> None:
        """Ask it to end, and kill it after ``timeout_s``. No effect if it has ended already."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._finish_reading()

    def ask_to_end(self) -> None:
        """Ask it to end: the first half of :meth:`end`, so that several can end at the same time."""
        if self._process is not None:
            self._process.terminate()

    def _finish_reading(self) -> None:
        if self._reader is not None:
            self._reader.join(timeout=2.0)
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.last_lines.append(line.rstrip("\n"))
            self._on_line(self.name, line.rstrip("\n"))
