"""NaNs that are not the usual one, beside records as text: CSV and JSON lines have but one name for all.

A NaN that arithmetic makes on x86 has its sign set, others carry a payload. ``nans.jsonl`` says which
bits a NaN of ``records`` had, so that an import gives every bit back; there is none where every NaN is
the usual one, and Parquet needs none. A line is ``{"series", "rows": [record, from 0], "bits": [hex]}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from tocsin_server.core import exact_json
from tocsin_server.core.models import Column
from tocsin_server.store.chunks import rows_of
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.run_folder import BundleError, Item, lines

FILE = "nans.jsonl"
USUAL = 0x7FF8_0000_0000_0000
"""The bits that ``float("nan")`` gives."""
Bits = NDArray[np.uint64]


def odd_nans(page: RecordPage, first: int) -> Iterator[Item]:
    """Lines for the NaNs of a page whose first record is number ``first`` of the run."""
    for name, column in page.columns.items():
        bits = column.v.view(np.uint64)
        odd = np.isnan(column.v) & (bits != USUAL)
        if odd.any():
            rows = rows_of(column, page.n)[odd].astype(np.int64) + first
            yield {"series": name, "rows": rows.tolist(), "bits": [f"{each:016x}" for each in bits[odd]]}


class NanWriter:
    """Writes the file where there is anything to say."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._file: TextIO | None = None

    def take(self, page: RecordPage, first: int) -> None:
        """Notes the unusual NaNs of a page."""
        for item in odd_nans(page, first):
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8", errors="replace", newline="\n")
            self._file.write(exact_json.dumps(item) + "\n")

    def close(self) -> None:
        """Nothing more will come."""
        if self._file is not None:
            self._file.close()


def with_nans(pages: Iterator[RecordPage], folder: Path) -> Iterator[RecordPage]:
    """``pages`` of text records with the bits that their NaNs had. Raises :class:`BundleError`."""
    if not (folder / FILE).exists():
        yield from pages
        return
    found, first = _read(folder / FILE), 0
    waiting: list[_Line] = []
    for page in pages:
        while not waiting or waiting[-1].rows[0] < first + page.n:
            line = next(found, None)
            if line is None:
                break
            waiting.append(line)
        waiting = [rest for line in waiting if (rest := line.put(page, first)) is not None]
        first += page.n
        yield page
    for line in [*waiting, *found]:
        raise BundleError(line.place, f"a record below {first}", int(line.rows[0]))


class _Line:
    """Some unusual NaNs of one series, in order of records."""

    def __init__(self, place: str, series: str, rows: NDArray[np.int64], bits: Bits) -> None:
        self.place, self.series, self.rows, self.bits = place, series, rows, bits

    def put(self, page: RecordPage, first: int) -> _Line | None:
        """Gives the NaNs of ``page`` their bits; what lies behind it."""
        count = int(np.searchsorted(self.rows, first + page.n))
        if count:
            self._set(page.columns.get(self.series), self.rows[:count] - first, page.n, self.bits[:count])
        if count == len(self.rows):
            return None
        return _Line(self.place, self.series, self.rows[count:], self.bits[count:])

    def _set(self, column: Column | None, rows: NDArray[np.int64], n: int, bits: Bits) -> None:
        at = np.empty(0, dtype=np.int64) if column is None else rows_of(column, n).astype(np.int64)
        places = np.searchsorted(at, rows)
        held = places < len(at)
        if column is None or not held.all() or (at[places] != rows).any() or not _nan(column.v[places]):
            raise BundleError(self.place, f"NaN of {self.series!r} at the records named", "another value")
        column.v.view(np.uint64)[places] = bits


def _nan(values: NDArray[np.float64]) -> bool:
    return bool(np.isnan(values).all())


def _read(path: Path) -> Iterator[_Line]:
    for number, item in lines(path):
        yield _line(f"{path}:{number}", item)


def _line(place: str, item: Item) -> _Line:
    try:
        rows = np.array(item["rows"], dtype=np.int64)
        bits = np.array([int(word, 16) for word in item["bits"]], dtype=np.uint64)
        series: Any = item["series"]
        sound = isinstance(series, str) and len(rows) == len(bits) > 0 and _nan(bits.view(np.float64))
        sound = sound and int(rows[0]) >= 0 and bool((np.diff(rows) > 0).all())
    except (KeyError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise BundleError(place, "series, rows that ascend, and the bits of a NaN for each", repr(item)[:200])
    return _Line(place, series, rows, bits)
