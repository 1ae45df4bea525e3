"""Send what the script writes to ``sys.stdout`` and ``sys.stderr``, so that the run's page shows its log.

The ``write`` of the two stream objects is replaced; the objects stay the same, so that ``isatty``,
``encoding``, ``fileno`` and ``buffer`` do not change. The original is called first, with the same arguments,
and its result or its exception is that of the call. Output below Python (C libraries, child processes,
``sys.stdout.buffer``, ``os.write``) is not recorded. That would need a pipe in place of the file descriptor:
``isatty`` would change, output would be lost if the process is killed, and C code that writes while it holds
the GIL would wait forever for the thread that reads a full pipe.

The calling thread only appends to a bounded queue. Lines are built, limited, redacted and sent by the
sender's thread, at most ``SECOND_CHARACTERS`` at a time.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable
from time import monotonic, time_ns
from typing import Any, Protocol

from ..core.redaction import Redactor
from .console_lines import LineAssembler, LineRedactor, Written

KIND = "console"
"""Kind of the events with lines of output."""
PIECES = 4_096
"""Maximum number of calls of ``write`` that wait for the sender's thread; the oldest are dropped."""
PIECE = 64 << 10
"""Maximum number of characters that are kept of one call: the last ones."""
PIECES_CHARACTERS = 256 << 10
"""Maximum number of characters of all calls that wait, if one thread writes."""
SECOND_CHARACTERS = 16 << 10
"""Maximum number of characters of one event; about one is sent per second."""
BURST_CHARACTERS = 1 << 20
"""Characters that a process may send at that rate; then only ``STEADY_CHARACTERS`` per second."""
STEADY_CHARACTERS = 512
LEAST_CHARACTERS = 4 << 10
"""When the rate is limited, lines wait until this many may be sent."""


class Reporter(Protocol):
    """The part of the reporter that is used here."""

    redact: Redactor
    outbox: Any
    state: str
    error: dict[str, Any] | None

    def put_event(self, kind: str, data: dict[str, Any], step: int | None = None) -> None: ...


Listener = Callable[[str, Any], None]

_listeners: tuple[Listener, ...] = ()
_streams: list[tuple[Any, Any, Any]] = []
"""The stream objects that are recorded, with our ``write`` and the attribute that it replaced."""
_ABSENT = object()


class Console:
    """The output of this process during one run."""

    def __init__(
        self, reporter: Reporter, *, rank: Callable[[], int] = int, clock: Callable[[], float] = monotonic
    ) -> None:
        """Begin to record.

        Args:
            reporter: Receives the events.
            rank: Returns the rank. Ranks other than 0 send their newest lines only if they fail.
            clock: Monotonic clock in seconds.
        """
        self._reporter = reporter
        self._rank = rank
        self._clock = clock
        self._redact = LineRedactor(reporter.redact)
        self._pieces: deque[Written] = deque(maxlen=PIECES)
        self._lines = LineAssembler()
        self._size = 0
        self._lost = 0
        self._allowed = float(BURST_CHARACTERS)
        self._allowed_s = clock()
        _listen(self._take)

    def stop(self) -> None:
        """Stop recording. After the last run, the streams get their ``write`` back."""
        _unlisten(self._take)

    def _take(self, stream: str, text: Any) -> None:
        """Note what was written. Called by every thread that writes, so it must be fast."""
        if not isinstance(text, str):
            return
        if len(text) > PIECE:
            self._lost += text.count("\n", 0, -PIECE)
            text = text[-PIECE:]
        self._size += len(text)
        pieces = self._pieces
        while pieces and (len(pieces) >= PIECES or self._size > PIECES_CHARACTERS):
            oldest = pieces.popleft().text
            self._size -= len(oldest)
            self._lost += oldest.count("\n")
        pieces.append(Written(time_ns(), self._step(), stream, text))

    def _step(self) -> int | None:
        """Return the newest step that was recorded."""
        return getattr(self._reporter.outbox, "last_step", None)

    def sample(self) -> None:
        """Send what is waiting, within the limits. Called by the sender's thread about once per second."""
        self._assemble()
        self._lines.show_open(time_ns())
        now_s = self._clock()
        self._allowed += (now_s - self._allowed_s) * STEADY_CHARACTERS
        self._allowed, self._allowed_s = min(self._allowed, float(BURST_CHARACTERS)), now_s
        if not self._rank() and self._lines.size and self._allowed >= min(self._lines.size, LEAST_CHARACTERS):
            self._send(min(SECOND_CHARACTERS, int(self._allowed)))

    def finish(self) -> None:
        """Send the newest lines at the end of the run, with the traceback of its error."""
        self.stop()
        self._assemble()
        self._lines.show_open(time_ns(), at_end=True)
        has_failed = self._reporter.state == "failed"
        if has_failed:
            for line in (self._reporter.error or {}).get("lines", ()):
                self._lines.add(Written(time_ns(), self._step(), "err", f"{line}\n"))
        if self._lines.size and (has_failed or not self._rank()):
            self._send(SECOND_CHARACTERS)

    def _assemble(self) -> None:
        self._size = 0
        with contextlib.suppress(IndexError):  # another thread dropped the oldest
            for _ in range(len(self._pieces)):
                self._lines.add(self._pieces.popleft())

    def _send(self, characters: int) -> None:
        taken = self._lines.take(characters)
        lines = [
            [line.time_ns // 1_000_000, line.step, line.stream, self._redact.clean(line), line.is_open]
            for line in taken
        ]
        dropped, self._lines.dropped, self._lost = self._lines.dropped + self._lost, 0, 0
        self._allowed -= sum(line.cost for line in taken)
        if lines:
            data = {"lines": lines, **({"dropped": dropped} if dropped else {})}
            self._reporter.put_event(KIND, data, taken[-1].step)


def _listen(listener: Listener) -> None:
    global _listeners
    _listeners += (listener,)
    if len(_listeners) == 1:
        prepare()


def prepare() -> None:
    """Replace ``write`` before a run begins, for objects that keep it, such as progress bars of tqdm."""
    for name in ("out", "err"):
        stream = getattr(sys, f"std{name}", None)
        if stream is not None and not any(stream is known for known, *_ in _streams):
            with contextlib.suppress(Exception):
                _replace_write(stream, name)


def resume(_cell: Any = None) -> None:
    """Replace ``write`` again at the beginning of a cell, if a run records.

    IPython puts its own ``write`` in place for the time of a cell. At the end of the cell it restores the one
    before it, so that a ``write`` that the cell replaced is gone.
    """
    if not _listeners:
        return
    known = _streams[:]
    _streams[:] = [one for one in known if vars(one[0]).get("write") is one[1]]
    prepare()


def _replace_write(stream: Any, name: str) -> None:
    original = stream.write
    before = vars(stream).get("write", _ABSENT)

    def write(*given: Any, **named: Any) -> Any:
        result = original(*given, **named)
        if any(newest is write for _, newest, _ in _streams):  # an earlier one may still be called
            for listener in _listeners:
                try:
                    listener(name, given[0])
                except Exception:  # recording must not affect the script's output
                    pass
        return result

    stream.write = write
    _streams.append((stream, write, before))


def _unlisten(listener: Listener) -> None:
    global _listeners
    _listeners = tuple(one for one in _listeners if one != listener)
    if _listeners:
        return
    while _streams:
        stream, write, before = _streams.pop()
        with contextlib.suppress(Exception):
            if vars(stream).get("write") is not write:
                continue  # someone else has replaced ours, and calls it: it passes everything on
            if before is _ABSENT:
                del stream.write
            else:
                stream.write = before
