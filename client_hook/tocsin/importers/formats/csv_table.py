"""Tables with a header: CSV, TSV and similar, with common column names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from ..assembly import HEADER
from ..fields import Fields, is_signal, role_of
from ..format import Format, Head, TextReader
from ..items import Fact, Parsed, Restart, Row, Unread
from ..names import alias
from ..values import text_number

EXPORTED = {"seq", "writer", "attempt", "rank", "step"}
"""Columns of the output of `tocsin-server export`, whose names are tocsin's."""
DELIMITERS = (",", "\t", ";", "|")
_NAME = re.compile(r"[A-Za-z_](?:[\w./@+\-()%# ]|(?<=\d):(?=\d))*$")
_VALUE = re.compile(r"(?<!top)\s[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?=\s|$)", re.IGNORECASE)
"""A number after a word: ``step 0`` is a line of a script, not a name."""
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_RULED = re.compile(r"[|:\-+=\s]+$")
"""The line below the header of a Markdown table."""
_OF_RUN = re.compile(r"(.+?) - (\S.*)$")
"""``run-1 - train/loss``: a column of a chart exported from W&B."""
_BOUNDS = ("__MIN", "__MAX")


class CsvParser:
    """The first line is the header. A repeated header starts a new run (append, restart)."""

    left: frozenset[str] = frozenset()
    """Columns about the log instead of the training."""

    def __init__(self) -> None:
        self._delimiter = ""
        self._header: list[str] = []
        self._ours = False
        self._fields = Fields()

    def parse(self, line: str, number: int) -> Iterator[Parsed]:
        """Parse one line into rows."""
        if not line.strip():
            return
        if not self._header:
            self._delimiter = delimiter_of(line)
            self._header = _without_run(_cells(line, self._delimiter))
            self._ours = EXPORTED.issubset(self._header)
            yield Fact(number, HEADER, {"names": self._header})
            return
        cells = _cells(line, self._delimiter)
        if self._delimiter == "|" and _RULED.match(line):
            return
        if is_header(cells):
            self._header = _without_run(cells)
            yield Restart(number)
            yield Fact(number, HEADER, {"names": self._header})
        elif len(cells) != len(self._header):
            yield Unread(number, f"{len(self._header)} cells were expected, got {len(cells)}")
        else:
            yield self._row(cells, number)

    def _row(self, cells: list[str], number: int) -> Row:
        named = zip(self._header, cells, strict=True)
        kept = {name: cell for name, cell in named if name and cell and name not in self.left}
        if self._delimiter == ";":
            kept = {name: _with_point(cell) for name, cell in kept.items()}
        row = self._fields.row(kept, number)
        row.ours = self._ours
        return row


def _cells(line: str, delimiter: str) -> list[str]:
    line = line.lstrip("# ") if line.startswith("#") else line
    if delimiter == "|" and line.lstrip().startswith("|"):
        line = line.strip().strip("|")
    if delimiter == " ":
        return re.split(r"\s{2,}", line.strip()) if "  " in line.strip() else line.split()
    try:
        cells = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a cell beyond the limit of the csv module
        cells = line.split(delimiter)
    return [cell.strip() for cell in cells]


def delimiter_of(line: str) -> str:
    """Return the delimiter that splits ``line`` into most cells; a space if there is none."""
    found = max(DELIMITERS, key=line.count)
    return found if found in line else " "


def _without_run(header: list[str]) -> list[str]:
    """Return the header without the run's name, if W&B put the same one before every column.

    Columns of lower and upper bounds, which W&B adds, are skipped.
    """
    header = ["" if name.endswith(_BOUNDS) else name for name in header]
    found = [_OF_RUN.match(name) for name in header]
    if len({match[1] for match in found if match}) != 1:
        return header
    return [match[2] if match else name for match, name in zip(found, header, strict=True)]


def _with_point(cell: str) -> str:
    """Return a number with a decimal comma in the usual notation."""
    return cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell


def is_header(cells: list[str]) -> bool:
    """Return whether the cells are names: none is a number, and one is a known signal or a step."""
    named = [cell for cell in cells if cell]
    if len(named) < 2 or any(map(_is_no_name, named)):
        return False
    return any(alias(cell) is not None or role_of(cell) in ("step", "epoch") for cell in named)


def _is_of_training(name: str) -> bool:
    return role_of(name) in ("step", "iteration", "epoch") or is_signal(name)


def _is_no_name(cell: str) -> bool:
    return text_number(cell) is not None or not _NAME.match(cell) or _VALUE.search(cell) is not None


def header_of(head: Head) -> list[str]:
    """Return the header if ``head`` is the beginning of a table, else an empty list."""
    lines = [line for line in head.lines[:8] if line.strip() and not _RULED.match(line)]
    if not head.first or len(lines) < 2:
        return []
    cells = _without_run(_cells(lines[0], delimiter_of(lines[0])))
    if all(alias(cell) is None for cell in cells) or not any(map(_is_of_training, cells)):
        return []
    if not is_header(cells):
        return []
    second = _cells(lines[1], delimiter_of(lines[0]))
    filled = len(second) == len(cells) and any(text_number(cell) is not None for cell in second)
    return cells if filled or is_header(second) else []


def table_format(
    name: str, order: int, marks: tuple[str, ...] = (), parser: type[CsvParser] = CsvParser
) -> Format:
    """Return a table format that is recognized by some of its column names.

    Args:
        name: Name of the format, shown to users.
        order: Formats with a lower order are preferred.
        marks: Column names that the header must contain.
        parser: Class of the parser.
    """

    def sniff(head: Head) -> int:
        header = header_of(head)
        return len(header) if header and all(mark in header for mark in marks) else 0

    return Format(name, order, sniff, lambda: TextReader(parser(), phrases=False))


FORMAT = table_format("CSV", 55)
