"""One JSON document with a list of records: HF ``trainer_state.json`` (``log_history``), or a plain list.

It is read piece by piece: of a document of any size only one object at a time is held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .format import Format, Head
from .items import Parsed, Row, Unread
from .json_lines import JsonLinesParser
from .lines import encoding_of

OBJECT_LIMIT = 4 << 20
"""An object of more characters than this is given up."""
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_LIST = re.compile(r"^\s*\[\s*(?=\{)")
_KEEP = 64
_SUMMARY = ("train_runtime", "train_samples_per_second")
_decoder = json.JSONDecoder()


class DocumentReader:
    """Finds the list and yields a row an object."""

    def __init__(self, start: re.Pattern[str]) -> None:
        self._start = start
        self._text = ""
        self._pending = b""
        self._state = "before"
        self._line = 1
        self._encoding = ""
        self._parser = JsonLinesParser()

    def feed(self, chunk: bytes) -> Iterator[Parsed]:
        """The objects that are complete now."""
        self._encoding = self._encoding or encoding_of(chunk)
        data = self._pending + chunk
        cut = len(data) if self._encoding != "utf-8-sig" and self._encoding != "utf-8" else _whole(data)
        self._pending = data[cut:]
        self._text += data[:cut].decode(self._encoding, "replace")
        yield from self._advance()

    def end(self) -> Iterator[Parsed]:
        """A document that was cut off within an object, or that never had its list."""
        if self._state == "within" and self._text.strip(" \t\r\n,"):
            yield Unread(self._line, "the document ends within an object")

    def _advance(self) -> Iterator[Parsed]:
        if self._state == "before":
            found = self._start.search(self._text)
            if found is None:
                self._drop(max(0, len(self._text) - _KEEP))
                return
            self._drop(found.end())
            self._state = "within"
        if self._state == "within":
            yield from self._objects()
        if self._state == "after":
            self._text = ""

    def _objects(self) -> Iterator[Parsed]:
        at = counted = 0
        line = self._line
        while True:
            at = _next(self._text, at)
            if at >= len(self._text):
                break
            if self._text[at] == "]":
                self._state = "after"
                break
            try:
                value, end = _decoder.raw_decode(self._text, at)
            except (ValueError, RecursionError):
                if len(self._text) - at <= OBJECT_LIMIT:
                    break
                value, end = None, at + OBJECT_LIMIT
            line += self._text.count("\n", counted, at)
            counted = at
            yield from self._item(value, line)
            at = end
        self._drop(at)

    def _item(self, value: Any, line: int) -> Iterator[Parsed]:
        if not isinstance(value, dict):
            yield Unread(line, "an object was expected")
            return
        row = None if any(key in value for key in _SUMMARY) else self._parser.row(value, line)
        if row is not None:
            yield _with_fraction(row)

    def _drop(self, count: int) -> None:
        self._line += self._text.count("\n", 0, count)
        self._text = self._text[count:]


def _with_fraction(row: Row) -> Row:
    """HF's ``epoch`` is a fraction beside ``step``: the step alone says where it is."""
    if row.step is not None:
        row.epoch = None
    return row


_GAP = re.compile(r"[\s,]*")


def _next(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at


def _whole(data: bytes) -> int:
    """How many bytes of ``data`` end with a whole UTF-8 character."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return len(data)
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if back >= needs else len(data) - back
    return len(data)


def _planned(tail: bytes) -> int | None:
    found = re.findall(rb'"max_steps"\s*:\s*(\d+)', tail)
    return int(found[-1]) or None if found else None


def _history(head: Head) -> int:
    text = head.data.lstrip()
    return int(
        head.first and text[:1] == b"{" and b'"log_history"' in head.data and b'"global_step"' in head.data
    )


def _list(head: Head) -> int:
    return int(head.first and bool(_LIST.match(head.data[:4096].decode("utf-8", "replace"))))


FORMAT = Format(
    "HF trainer_state.json", 10, _history, lambda: DocumentReader(_HISTORY), grows=False, planned=_planned
)
LIST = Format("JSON list", 11, _list, lambda: DocumentReader(_LIST), grows=False)
