"""Read the records of an exported run in any format, page by page.

Errors contain file and line, what was expected and what was found.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.models import Column
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES, series_of
from tocsin_server.transfer.formats import Format
from tocsin_server.transfer.parquet import read_parquet
from tocsin_server.transfer.record_export import PAGE
from tocsin_server.transfer.run_folder import BundleError, Item, lines, records_file

INT64 = range(-(2**63), 2**63)


def read_pages(folder: Path, form: Format) -> Iterator[RecordPage]:
    """Return the records of an exported run in pages.

    Raises:
        BundleError: The file is missing or malformed.
        MissingExtraError: The file is Parquet and pyarrow is not installed.
        parquet.UnreadableError: The file is not Parquet as an export writes it.
    """
    path = records_file(folder, form)
    if not path.is_file():
        raise BundleError(str(path), "a file", "none")
    if form is Format.PARQUET:
        return read_parquet(path, PAGE)
    return _csv_pages(path) if form is Format.CSV else _jsonl_pages(path)


@dataclass
class _PageBuilder:
    """Collects rows into a page."""

    rows: list[list[int]] = field(default_factory=list)
    at: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=dict)

    def put(self, name: str, value: float) -> None:
        """Add a value of the row that is added next."""
        self.at.setdefault(name, []).append(len(self.rows))
        self.values.setdefault(name, []).append(value)

    def page(self) -> RecordPage:
        whole = np.array(self.rows, dtype=np.int64).reshape(-1, len(COORDINATES)).T
        n = len(self.rows)
        columns = {}
        for name, values in self.values.items():
            at = None if len(values) == n else np.array(self.at[name], dtype=np.uint32)
            columns[name] = Column(np.array(values, dtype=np.float64), at)
        return RecordPage(
            n=n,
            columns=columns,
            next=None,
            **dict(zip(COORDINATES, map(np.ascontiguousarray, whole), strict=True)),
        )


def _csv_pages(path: Path) -> Iterator[RecordPage]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = _series(path, next(reader, []))
            page = _PageBuilder()
            for row in reader:
                _take_row(page, f"{path}:{reader.line_num}", row, names)
                if len(page.rows) == PAGE:
                    yield page.page()
                    page = _PageBuilder()
            if page.rows:
                yield page.page()
    except csv.Error as error:
        raise BundleError(f"{path}:{reader.line_num}", "CSV (RFC 4180)", str(error)) from error
    except UnicodeDecodeError as error:
        raise BundleError(str(path), "UTF-8", str(error)) from error


def _series(path: Path, heading: list[str]) -> list[str]:
    own, names = heading[: len(COORDINATES)], heading[len(COORDINATES) :]
    if own != list(COORDINATES) or len(set(names)) < len(names):
        expected = f"the headings {','.join(COORDINATES)}, then one a series"
        raise BundleError(f"{path}:1", expected, ",".join(heading)[:200] or "nothing")
    return [series_of(name) for name in names]


def _take_row(page: _PageBuilder, place: str, row: list[str], names: list[str]) -> None:
    width = len(COORDINATES) + len(names)
    if len(row) != width:
        raise BundleError(place, f"{width} cells", len(row))
    for name, cell in zip(names, row[len(COORDINATES) :], strict=True):
        if cell:
            page.put(name, _float(place, name, cell))
    page.rows.append(_whole(place, row[: len(COORDINATES)]))


def _jsonl_pages(path: Path) -> Iterator[RecordPage]:
    page = _PageBuilder()
    for number, item in lines(path):
        _take_item(page, f"{path}:{number}", item)
        if len(page.rows) == PAGE:
            yield page.page()
            page = _PageBuilder()
    if page.rows:
        yield page.page()


def _take_item(page: _PageBuilder, place: str, item: Item) -> None:
    missing = [name for name in (*COORDINATES, "values") if name not in item]
    if missing or not isinstance(item["values"], dict):
        raise BundleError(
            place, f"a record with {', '.join((*COORDINATES, 'values'))}", f"none with {missing}"
        )
    for name, value in item["values"].items():
        page.put(name, _float(place, name, value))
    page.rows.append(_whole(place, [item[name] for name in COORDINATES]))


def _whole(place: str, cells: Sequence[Any]) -> list[int]:
    numbers = []
    for name, cell in zip(COORDINATES, cells, strict=True):
        try:
            number = int(cell) if isinstance(cell, (str, int)) else None
        except ValueError:
            number = None
        if number is None or isinstance(cell, bool) or number not in INT64:
            raise BundleError(f"{place}: {name}", "a whole number of 64 bits", repr(cell))
        numbers.append(number)
    return numbers


def _float(place: str, name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return exact_json.parse_number(value) if not isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        raise BundleError(f"{place}: {name}", "a number, nan, inf or -inf", repr(value)) from None
