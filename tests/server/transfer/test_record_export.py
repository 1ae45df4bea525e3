"""Exports as text: pure functions over pages of records."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import Column
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES
from tocsin_server.transfer.formats import Format
from tocsin_server.transfer.record_export import bodies_of, csv_text, items, replacing

CELLS = st.lists(st.none() | st.floats(), min_size=1, max_size=20)


def page(cells: list[float | None], name: str = "loss") -> RecordPage:
    """Return a page of one series; None is a record without a value."""
    n = len(cells)
    rows = [row for row, cell in enumerate(cells) if cell is not None]
    values = np.array([cells[row] for row in rows], dtype="f8")
    column = Column(values, None if len(rows) == n else np.array(rows, dtype="u4"))
    numbers = np.arange(n, dtype="i8")
    same = np.zeros(n, dtype="i8")
    return RecordPage(n, same, same, same, numbers, numbers, numbers, {name: column}, None, same)


def bits(value: float | str | None) -> bytes | None:
    """The float's bits; NaN payloads are not preserved."""
    if value is None:
        return None
    number = float(value)
    return b"nan" if math.isnan(number) else struct.pack("<d", number)


@given(CELLS)
def test_json_lines_give_back_what_was_sent(cells: list[float | None]) -> None:
    """All values are exact; missing values are absent."""
    text = b"".join(bodies_of([page(cells)], Format.JSONL, ["loss"])).decode()
    found = [json.loads(line)["values"].get("loss") for line in text.splitlines()]
    assert [bits(value) for value in found] == [bits(cell) for cell in cells]


@given(
    CELLS, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
)
def test_csv_preserves_every_value(cells: list[float | None], name: str) -> None:
    """Values are preserved for any name of the series."""
    text = "".join(csv_text([page(cells, name)], [name]))
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == [*COORDINATES, f"value:{name}" if name in COORDINATES else name]
    assert [bits(row[-1] or None) for row in rows[1:]] == [bits(cell) for cell in cells]


def test_a_series_that_a_page_lacks_is_an_empty_column() -> None:
    """Columns have the order of the heading on every page."""
    texts = list(csv_text([page([1.0], "a"), page([2.0], "b")], ["a", "b"]))
    assert [text.strip().split(",")[len(COORDINATES) :] for text in texts] == [
        ["a", "b"],
        ["1.0", ""],
        ["", "2.0"],
    ]


def test_a_record_without_values_is_a_record() -> None:
    """A record without values has its step and time."""
    empty = page([1.0])
    bare = RecordPage(
        1,
        empty.attempt,
        empty.rank,
        empty.writer,
        empty.seq,
        empty.step,
        empty.time_ns,
        {},
        None,
        empty.arrival,
    )
    assert [item["values"] for item in items(bare)] == [{}]


def test_a_file_that_could_not_be_written_whole_is_not_there(tmp_path: Path) -> None:
    """The previous file stays, and no other file is left."""
    file = tmp_path / "run.jsonl"
    file.write_bytes(b"before")
    with pytest.raises(TypeError), replacing(file) as out:
        out.writelines([b"half", "no bytes"])  # type: ignore[list-item]
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"run.jsonl": b"before"}
    with replacing(file) as out:
        out.write(b"whole")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"run.jsonl": b"whole"}
