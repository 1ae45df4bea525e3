"""Read the records of an exported run page by page.

Errors contain file and line, what was expected and what was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.models import Column
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES
from tocsin_server.transfer.record_export import PAGE
from tocsin_server.transfer.run_folder import RECORDS, BundleError, Item, lines

INT64 = range(-(2**63), 2**63)


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


def read_pages(folder: Path) -> Iterator[RecordPage]:
    """Yield the records of an exported run in pages.

    Raises:
        BundleError: The file is missing or malformed.
    """
    path, page = folder / RECORDS, _PageBuilder()
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
            place, f"a record with {', '.join((*COORDINATES, 'values'))}", f"a record without {missing}"
        )
    for name, value in item["values"].items():
        page.put(name, _float(place, name, value))
    page.rows.append(_whole(place, [item[name] for name in COORDINATES]))


def _whole(place: str, cells: Sequence[Any]) -> list[int]:
    numbers = []
    for name, cell in zip(COORDINATES, cells, strict=True):
        if not isinstance(cell, int) or isinstance(cell, bool) or cell not in INT64:
            raise BundleError(f"{place}: {name}", "a whole number of 64 bits", repr(cell))
        numbers.append(cell)
    return numbers


def _float(place: str, name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return exact_json.parse_number(value) if not isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        raise BundleError(f"{place}: {name}", "a number, nan, inf or -inf", repr(value)) from None
