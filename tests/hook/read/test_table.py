"""Tables for each library: non-finite values stay, and a missing value is not NaN."""

from __future__ import annotations

import math
import subprocess
import sys
from array import array

import pytest

from tocsin.read.table import Column, Gathering, Table

TABLE = Table(
    4,
    {
        "step": Column(array("q", [1, 2, 3, 1 << 60])),
        "loss": Column(array("d", [math.nan, math.inf, -math.inf, -0.0])),
        "val": Column(array("d", [math.nan, 2.0]), array("q", [1, 3])),
        "series": Column(["a", "b", "c", "d"]),
    },
)


def test_lists_have_none_where_a_value_is_missing() -> None:
    found = TABLE.lists()
    assert str(found["val"]) == "[None, nan, None, 2.0]"
    assert str(found["loss"]) == "[nan, inf, -inf, -0.0]"
    assert next(sorted(row) for row in TABLE.rows()) == ["loss", "series", "step"]


def test_a_column_is_read_by_its_name() -> None:
    assert str(TABLE["val"]) == "[None, nan, None, 2.0]"
    assert ["val" in TABLE, *TABLE] == [True, "step", "loss", "val", "series"]


def test_the_rows_of_a_series_are_read_by_its_name() -> None:
    values = Column(array("d", [0.5, math.nan]), array("q", [0, 3]))
    table = Table(4, {"series": Column(["loss", "lr", "lr", "loss"]), "value": values})
    assert str(table["loss"]) == "[0.5, nan]"
    assert str(table.of("lr").lists()) == "{'series': ['lr', 'lr'], 'value': [None, None]}"
    with pytest.raises(KeyError, match="only series, value, loss, lr"):
        table["lost"]


def test_numpy_masks_what_is_missing() -> None:
    found = TABLE.numpy()
    assert str(found["val"].tolist()) == "[None, nan, None, 2.0]"
    assert found["step"].dtype == "int64"
    assert str(found["loss"].tolist()) == "[nan, inf, -inf, -0.0]"


def test_pandas_has_na_where_a_value_is_missing() -> None:
    frame = TABLE.pandas()
    assert frame["val"].isna().tolist() == [True, False, True, False]
    assert str(frame["val"].to_numpy()[1]) == "nan"
    assert [str(kind) for kind in frame.dtypes][:3] == ["int64", "float64", "Float64"]
    assert frame["step"].iloc[3] == 1 << 60


def test_polars_has_null_where_a_value_is_missing() -> None:
    frame = TABLE.polars()
    assert str(frame["val"].to_list()) == "[None, nan, None, 2.0]"
    assert str(frame["loss"].to_list()) == "[nan, inf, -inf, -0.0]"
    assert frame["series"].to_list() == ["a", "b", "c", "d"]


def test_arrow_has_null_where_a_value_is_missing() -> None:
    found = TABLE.arrow()
    assert str(found["val"].to_pylist()) == "[None, nan, None, 2.0]"
    assert found["step"].to_pylist() == [1, 2, 3, 1 << 60]
    assert found["val"].null_count == 2


def test_an_empty_table_has_its_columns() -> None:
    empty = Table(0, {"step": Column(array("q")), "loss": Column(array("d"), array("q"))})
    assert [len(column) for column in empty.numpy().values()] == [0, 0]
    assert empty.pandas().shape == empty.polars().shape == empty.arrow().shape == (0, 2)


def test_joined_tables_keep_what_is_missing() -> None:
    """A series that begins later, one that ends early, and one with gaps."""
    gathering = Gathering()
    gathering.add(Table(2, {"a": Column(array("d", [1.0, 2.0]))}, cursor=3))
    gathering.add(Table(0, {}))
    gathering.add(
        Table(2, {"b": Column(array("d", [3.0, 4.0])), "c": Column(array("d", [5.0]), array("q", [1]))})
    )
    gathering.add(Table(1, {"b": Column(array("d", [6.0]))}, cursor=9))
    found = gathering.table()
    assert found.lists() == {
        "a": [1.0, 2.0, None, None, None],
        "b": [None, None, 3.0, 4.0, 6.0],
        "c": [None, None, None, 5.0, None],
    }
    assert found.cursor == 9


def test_a_library_that_is_missing_is_named() -> None:
    """And reading needs none of them. Runs in a separate process."""
    script = (
        "import sys\n"
        "for name in ('numpy', 'pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
        "import tocsin; from array import array; from tocsin.read.table import Column, Table\n"
        "table = Table(1, {'a': Column(array('d', [1.0]))}); print(tocsin.Api('h:1'), table.lists())\n"
        "try: table.polars()\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "tocsin.Api('http://h:1') {'a': [1.0]}"
    assert "`pip install polars`" in second
