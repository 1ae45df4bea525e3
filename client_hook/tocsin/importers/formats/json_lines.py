"""JSON lines: one object per line, with common names; also the output of ``tocsin-server export``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from ..fields import Fields, flat, is_signal, is_training
from ..format import ENOUGH, Format, Head, TextReader
from ..items import Parsed, Row, Unread
from ..values import number as as_number
from ..values import printed

_DECODER = json.JSONDecoder(parse_float=printed)


@lru_cache(maxsize=1)
def objects(head: Head) -> list[dict[str, Any]]:
    """Return the lines of ``head`` that are objects; empty if many lines are not. Several formats ask."""
    lines = [line for line in head.lines if line.strip()]
    found = [value for line in lines if (value := loaded(line)) is not None]
    return found if len(found) * 2 >= len(lines) else []


def loaded(line: str) -> dict[str, Any] | None:
    """Return the object in ``line``, or None."""
    text = line.strip().rstrip(",")
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class JsonLinesParser:
    """Parse JSON lines. Any object with a number is a row; lines that are not objects are unread."""

    def __init__(self) -> None:
        self._fields = Fields()

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        if not line.strip():
            return
        value = loaded(line)
        if value is None:
            yield Unread(number, "a JSON object was expected")
            return
        row = self.row(value, number)
        if row is not None:
            yield row

    def row(self, value: dict[str, Any], number: int) -> Row | None:
        """Return the row of one object, or None if it has no value."""
        ours = isinstance(value.get("values"), Mapping) and "seq" in value
        if ours:  # a record of `tocsin-server export`
            values = {name: as_number(item) for name, item in value["values"].items()}
            row = self._fields.row({name: value[name] for name in value if name != "values"}, number)
            row.values = {name: known for name, known in values.items() if known is not None}
            row.ours = True
        else:
            row = self._fields.row(flat(value), number)
        return row if row.values or row.null else None


def count_records(rows: Iterable[Row]) -> int:
    """Return the number of records of a training, or 0 if the objects are something else.

    Settings and results are single objects too, so a single record needs a step and a loss.
    """
    found = [row for row in islice(rows, ENOUGH) if is_training(row)]
    is_alone = len(found) == 1 and not (found[0].is_placed and any(map(is_signal, found[0].values)))
    return 0 if is_alone else len(found)


def _sniff(head: Head) -> int:
    parser = JsonLinesParser()
    rows = (parser.row(value, number) for number, value in enumerate(objects(head), 1))
    return count_records(row for row in rows if row is not None)


FORMAT = Format("JSON lines", 50, _sniff, lambda: TextReader(JsonLinesParser(), phrases=False))
