"""Turn what a script writes to its terminal into lines of bounded number and length. Pure."""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from ..core.redaction import REDACTED, Redactor

LONGEST = 1_000
"""Maximum number of characters of a line; the rest is cut."""
WAITING_CHARACTERS = 64 << 10
"""Maximum number of characters of the lines that wait to be sent; the oldest are dropped."""
STATE_S = 5.0
"""Interval at which a line that has not ended, such as a progress bar, is sent again, s."""

_ESCAPES = (
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?|[ -/]{0,8}[0-Z\\^_`a-~])"
)
"""Colors and other terminal sequences: CSI, OSC and those of two characters (ECMA-48)."""
_CONTROL = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])
"""Control characters other than the tab and the line feed."""
_BEGIN, _END = "-----BEGIN ", "-----END "


class Line(NamedTuple):
    """One line of output."""

    time_ns: int
    step: int | None
    stream: str
    """``out`` or ``err``."""
    text: str
    is_open: bool = False
    """Whether it has not ended, such as a progress bar; the next line of the stream replaces it."""

    @property
    def cost(self) -> int:
        """Characters that it counts for: its text, and about as many as its other fields take."""
        return len(self.text) + 24


class Written(NamedTuple):
    """What one call wrote."""

    time_ns: int
    step: int | None
    stream: str
    text: str


class LineAssembler:
    """Joins pieces to lines. A carriage return without a line feed begins the line again."""

    def __init__(self) -> None:
        self.lines: deque[Line] = deque()
        """Lines that wait to be sent, oldest first."""
        self.dropped = 0
        """Lines that were dropped because too many waited."""
        self._size = 0
        self._partial: dict[str, Written] = {}
        self._shown: dict[str, str] = {}
        self._shown_ns: dict[str, int] = {}

    def add(self, piece: Written) -> None:
        """Add what one call wrote."""
        before = self._partial.pop(piece.stream, None)
        *ended, rest = ((before.text if before else "") + piece.text).replace("\r\n", "\n").split("\n")
        for text in ended:
            self._put(Line(*piece[:3], _newest_state(text)))
            self._shown.pop(piece.stream, None)
        if rest:
            self._partial[piece.stream] = piece._replace(text=_kept(rest))

    def take(self, characters: int) -> list[Line]:
        """Return the newest waiting lines of at most this size; older ones are dropped."""
        self._shorten(characters)
        taken = list(self.lines)
        self.lines.clear()
        self._size = 0
        return taken

    @property
    def size(self) -> int:
        """Characters of the lines that wait."""
        return self._size

    def show_open(self, now_ns: int, *, at_end: bool = False) -> None:
        """Add the lines that have not ended, if they changed and were not shown recently."""
        for stream, piece in self._partial.items():
            text = _newest_state(piece.text)
            is_due = now_ns - self._shown_ns.get(stream, 0) >= STATE_S * 1e9
            if text.strip() and (at_end or (is_due and text != self._shown.get(stream))):
                self._shown[stream], self._shown_ns[stream] = text, now_ns
                self._put(Line(*piece[:3], text, not at_end))

    def _put(self, line: Line) -> None:
        self.lines.append(line)
        self._size += line.cost
        self._shorten(WAITING_CHARACTERS)

    def _shorten(self, characters: int) -> None:
        while self.lines and self._size > characters:
            dropped = self.lines.popleft()
            self._size -= dropped.cost
            self.dropped += not dropped.is_open


class LineRedactor:
    """Replaces secrets in lines, also in PEM blocks that span several."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._in_block: set[str] = set()
        """Streams whose newest line is within a PEM block."""

    def clean(self, line: Line) -> str:
        """Return the text of a line without secrets and without control characters."""
        text = plain(line.text)
        if self._redact.off:
            return _cut(text)
        if line.stream in self._in_block:
            if _END not in text:
                return REDACTED
            self._in_block.discard(line.stream)
            return REDACTED
        if _BEGIN in text and _END not in text.rpartition(_BEGIN)[2] and not line.is_open:
            self._in_block.add(line.stream)
        return _cut(self._redact.text(text))


def plain(text: str) -> str:
    """Return text without terminal sequences, control characters and unpaired surrogates."""
    if "\x1b" in text:
        text = re.sub(_ESCAPES, "", text)
    return text.translate(_CONTROL).encode("utf-8", "replace").decode("utf-8")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [{len(text) - LONGEST:,} characters cut]"


def _newest_state(text: str) -> str:
    """Return what a terminal shows of a line with carriage returns: the newest state that is not empty."""
    if "\r" not in text:
        return text
    return next((state for state in reversed(text.split("\r")) if state.strip()), "")


def _kept(text: str) -> str:
    """Return as much of a line that has not ended as may be shown: a secret in it stays recognizable."""
    if "\r" in text:
        text = _newest_state(text) + ("\r" if text.endswith("\r") else "")
    return text[: 4 * LONGEST]
