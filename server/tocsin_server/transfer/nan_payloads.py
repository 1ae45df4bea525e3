"""Keep the bits of unusual NaNs in exports as text: CSV and JSON lines have only one name for all NaNs.

A NaN produced by arithmetic on x86 has its sign set; others carry a payload. ``nans.jsonl`` lists the
bits of such NaNs in ``records``, so that an import restores every bit. The file is missing if every NaN is
the default one, and Parquet does not need it. A line is
``{"series", "rows": [record, from 0], "bits": [hex]}``.
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
"""The bits of ``float("nan")``."""
Bits = NDArray[np.uint64]


def odd_nans(page: RecordPage, first: int) -> Iterator[Item]:
    """Yield lines for the unusual NaNs of a page whose first record has the number ``first`` in the run."""
    for name, column in page.columns.items():
        bits = column.v.view(np.uint64)
        odd = np.isnan(column.v) & (bits != USUAL)
        if odd.any():
            rows = rows_of(column, page.n)[odd].astype(np.int64) + first
            yield {"series": name, "rows": rows.tolist(), "bits": [f"{each:016x}" for each in bits[odd]]}


class NanWriter:
    """Writes the file if there are unusual NaNs."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._file: TextIO | None = None

    def take(self, page: RecordPage, first: int) -> None:
        """Write the unusual NaNs of a page."""
        for item in odd_nans(page, first):
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8", errors="replace", newline="\n")
            self._file.write(exact_json.dumps(item) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def with_nans(pages: Iterator[RecordPage], folder: Path) -> Iterator[RecordPage]:
    """Yield ``pages`` of text records with the original bits of their NaNs.

    Raises:
        BundleError: The file is malformed or does not match the records.
    """
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
    """Unusual NaNs of one series, in order of records."""

    def __init__(self, place: str, series: str, rows: NDArray[np.int64], bits: Bits) -> None:
        self.place, self.series, self.rows, self.bits = place, series, rows, bits

    def put(self, page: RecordPage, first: int) -> _Line | None:
        """Restore the bits of NaNs in ``page``; return the remaining ones, or None."""
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
