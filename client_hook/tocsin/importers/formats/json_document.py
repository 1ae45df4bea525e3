"""JSON documents with a list of records: HF ``trainer_state.json`` (``log_history``), a plain list, a list
under another key, or objects of several lines.

The document is read in chunks, and only one object is held in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..format import Format, Head
from ..items import Parsed, Row, Unread
from ..lines import Characters
from ..values import printed
from .json_lines import JsonLinesParser, count_records, loaded

OBJECT_LIMIT = 4 << 20
"""Objects with more characters are skipped."""
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_LIST = re.compile(r"^\s*\[\s*(?=\{)")
_NAMED = re.compile(r'"\w+"\s*:\s*\[\s*(?=\{)')
_ROW = re.compile(r"^\s*(?=\{)")
_BETWEEN = re.compile(r"^\}\s*(?:,\s*)?\{", re.MULTILINE)
_KEEP = 64
_SUMMARY = ("train_runtime", "train_samples_per_second")
_decoder = json.JSONDecoder(parse_float=printed)


class DocumentReader:
    """Find the list, and yield a row for each object."""

    def __init__(self, start: re.Pattern[str]) -> None:
        self._start = start
        self._text = ""
        self._characters = Characters()
        self._state = "before"
        self._line = 1
        self._parser = JsonLinesParser()

    def feed(self, chunk: bytes) -> Iterator[Parsed]:
        """Yield the rows of complete objects."""
        self._text += self._characters.feed(chunk)
        yield from self._advance()

    def end(self) -> Iterator[Parsed]:
        """Report a document that ends within an object, or without a list."""
        self._text += self._characters.end()
        yield from self._advance()
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
    """Remove HF's fractional ``epoch`` next to ``step``: the step is sufficient."""
    if row.step is not None:
        row.epoch = None
    return row


_GAP = re.compile(r"[\s,]*")


def _next(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return found.end() if found else at


def _planned(tail: bytes) -> int | None:
    found = re.findall(rb'"max_steps"\s*:\s*(\d{1,18})', tail)
    return int(found[-1]) or None if found else None


def _history(head: Head) -> int:
    text = head.text
    return int(
        head.first and text.lstrip()[:1] == "{" and '"log_history"' in text and '"global_step"' in text
    )


def _records(start: re.Pattern[str], head: Head) -> int:
    found = DocumentReader(start).feed(head.data)
    return count_records(item for item in found if isinstance(item, Row))


def _list(head: Head) -> int:
    return _records(_LIST, head) if head.first and _LIST.match(head.text[:4096]) else 0


def _is_pretty(head: Head) -> bool:
    """Return whether an object starts here that spans several lines."""
    first = head.text[:4096].lstrip().partition("\n")[0].strip()
    return head.first and first.startswith("{") and loaded(first) is None


def _is_rows(head: Head) -> bool:
    return _is_pretty(head) and bool(_BETWEEN.search(head.text))


def _rows(head: Head) -> int:
    return _records(_ROW, head) if _is_rows(head) else 0


def _named(head: Head) -> int:
    alone = head.first and head.text.strip().startswith("{") and "\n" not in head.text.strip()
    complete = alone or (_is_pretty(head) and not _is_rows(head))
    return _records(_NAMED, head) if complete and _NAMED.search(head.text[: 1 << 16]) else 0


FORMAT = Format(
    "HF trainer_state.json", 10, _history, lambda: DocumentReader(_HISTORY), grows=False, planned=_planned
)
LIST = Format("JSON list", 11, _list, lambda: DocumentReader(_LIST), grows=False)
ROWS = Format("JSON objects", 12, _rows, lambda: DocumentReader(_ROW), grows=False)
NAMED = Format("JSON document with a list", 13, _named, lambda: DocumentReader(_NAMED), grows=False)
