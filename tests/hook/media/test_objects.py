"""What a script logs besides numbers: a snapshot of bounded size, encoded as it will be shown."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from PIL import Image as Pillow

from tocsin.core.redaction import Redactor
from tocsin.media import Histogram, Image, Table, Text
from tocsin.media.image import MAGENTA, SIDE
from tocsin.media.objects import CONTENT_BYTES, ROWS, VALUES

CLEAN = Redactor()


def pixels(image: Image) -> Any:
    """Return the pixels of the encoded picture, as another program reads them."""
    content, _ = image.content(CLEAN)
    return np.asarray(Pillow.open(io.BytesIO(content)))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_picture_arrives_as_it_was(channels: int) -> None:
    values = np.random.default_rng(0).integers(0, 256, (20, 30, channels), dtype=np.uint8)
    assert (pixels(Image(values)).reshape(values.shape) == values).all()


def test_a_tensor_has_its_channels_first() -> None:
    values = torch.rand(3, 20, 30)
    expected = (values.double().permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
    assert (pixels(Image(values)) == expected).all()


def test_a_picture_is_a_snapshot() -> None:
    """A script that reuses its buffer changes nothing."""
    values = torch.zeros(8, 8)
    image = Image(values)
    values.fill_(1.0)
    assert pixels(image).max() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool])
def test_every_type_of_numbers_is_shown(dtype: torch.dtype) -> None:
    assert pixels(Image(torch.eye(9).to(dtype))).shape == (9, 9)


def test_pixels_that_are_not_finite_are_magenta_and_counted() -> None:
    values = np.zeros((4, 4))
    values[1, 2], values[3, 3] = np.nan, -np.inf
    image = Image(values)
    _, facts = image.content(CLEAN)
    assert facts["nonfinite"] == 2
    assert tuple(pixels(image)[1, 2]) == tuple(pixels(image)[3, 3]) == MAGENTA


def test_a_large_noisy_picture_is_scaled_until_it_fits() -> None:
    image = Image(np.random.default_rng(0).random((3000, 1000, 3)))
    content, facts = image.content(CLEAN)
    assert len(content) <= CONTENT_BYTES
    assert facts["height"] <= SIDE
    assert abs(facts["height"] / facts["width"] - 3) < 0.1


def test_a_picture_of_pillow_and_a_file_are_shown(tmp_path: Path) -> None:
    Pillow.new("RGB", (900, 600), "red").save(tmp_path / "red.png")
    assert pixels(Image(Pillow.open(tmp_path / "red.png"))).shape == (300, 450, 3)
    assert pixels(Image(tmp_path / "red.png")).shape == (600, 900, 3)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (torch.zeros(5), "an image has 2 or 3 dimensions, got the shape (5,)"),
        (torch.zeros(7, 5, 7), "an image has 1, 3 or 4 channels"),
        (torch.zeros(5, 5, device="meta"), "cannot be read without waiting"),
        (object(), "expected an array or tensor of numbers, got object"),
        ("missing.png", "No such file"),
    ],
)
def test_what_cannot_be_shown_says_why(data: Any, why: str) -> None:
    assert why in Image(data).problem


def test_a_large_file_is_never_read(tmp_path: Path) -> None:
    """1 GB, without one byte on the disk."""
    with open(tmp_path / "huge.png", "wb") as file:
        file.truncate(1 << 30)
    assert "the file has 1,073,741,824 bytes" in Image(tmp_path / "huge.png").problem


def test_a_histogram_counts_every_value_once() -> None:
    values = torch.tensor([0.0, 1.0, 1.0, float("nan"), float("inf"), float("-inf")])
    content, facts = Histogram(values, bins=2).content(CLEAN)
    assert json.loads(content) == {
        "low": 0.0, "high": 1.0, "counts": [1, 2], "nan": 1, "inf": 1, "-inf": 1, "values": 6, "of": 6,
    }  # fmt: skip
    assert facts["nonfinite"] == 3


@pytest.mark.parametrize("values", [[], [float("nan")]])
def test_a_histogram_without_a_finite_value_is_empty(values: list[float]) -> None:
    content, _ = Histogram(values).content(CLEAN)
    assert json.loads(content)["counts"] == []


def test_a_large_histogram_is_a_sample_and_says_so() -> None:
    content, _ = Histogram(np.zeros(3 * VALUES, dtype=np.float16)).content(CLEAN)
    found = json.loads(content)
    assert found["values"] == sum(found["counts"]) <= VALUES
    assert found["of"] == 3 * VALUES


def test_a_long_text_is_cut_between_characters() -> None:
    content, facts = Text("é" * CONTENT_BYTES).content(CLEAN)
    assert content.decode() == "é" * (CONTENT_BYTES // 2)
    assert facts == {"mime": "text/plain", "characters": CONTENT_BYTES, "cut": True}


def test_a_gigabyte_of_text_is_cut_before_anything_copies_it() -> None:
    huge = "x" * (1 << 30)
    tracemalloc.start()
    try:
        _, facts = Text(huge).content(CLEAN)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert facts["characters"] == 1 << 30
    assert most < 10 << 20


def test_secrets_in_texts_and_tables_are_redacted() -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz123456"
    assert secret not in Text(f"token={secret}").content(CLEAN)[0].decode()
    assert secret not in Table(["a"], [[f"token={secret}"]]).content(CLEAN)[0].decode()


def test_a_table_keeps_its_first_rows_and_says_how_many_there_were() -> None:
    table = Table(columns=["step", "text"], data=[(k, "x" * 5) for k in range(ROWS + 5)])
    content, facts = table.content(CLEAN)
    found = json.loads(content)
    assert (found["columns"], found["rows"][3], len(found["rows"])) == (["step", "text"], [3, "xxxxx"], ROWS)
    assert (facts["rows"], facts["cut"]) == (ROWS + 5, True)


def test_a_table_reads_no_more_rows_than_it_keeps() -> None:
    """The training thread waits for it. How many rows an iterator has is then unknown."""
    rows = iter(range(1_000_000))
    content, facts = Table(["step"], ([k] for k in rows)).content(CLEAN)
    assert (len(json.loads(content)["rows"]), next(rows)) == (ROWS, ROWS + 1)
    assert (facts["rows"], facts["cut"]) == (None, True)


def test_a_table_says_what_it_expected_of_a_row() -> None:
    rows: list[Any] = [[1], 5]
    assert Table(["a"], rows).problem == "a row is an int, expected a list of cells"


def test_a_wide_table_is_cut_until_it_fits() -> None:
    content, facts = Table(None, [["x" * 400] * 10] * 100).content(CLEAN)
    assert len(content) <= CONTENT_BYTES
    assert facts["cut"]


def test_numbers_that_are_not_finite_stay_readable_in_a_table() -> None:
    content, _ = Table(["v"], [[float("nan")], [float("-inf")], [torch.tensor(2.0)]]).content(CLEAN)
    assert json.loads(content)["rows"] == [["nan"], ["-inf"], [2.0]]


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text of mine")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("how", ["dataframe", "data", "columns"])
def test_a_table_takes_a_data_frame(make: Any, how: str) -> None:
    """Its first rows, and how many there are."""
    frame = make({"step": list(range(ROWS + 5)), "text": ["x"] * (ROWS + 5)})
    content, facts = Table(**{how: frame}).content(CLEAN)
    found = json.loads(content)
    assert (found["columns"], found["rows"][1]) == (["step", "text"], [1, "x"])
    assert (len(found["rows"]), facts["rows"]) == (ROWS, ROWS + 5)


@pytest.mark.parametrize("given", [{"columns": 5}, {"data": 5}, {"data": [5]}, {"dataframe": 5}])
def test_what_has_no_rows_is_a_problem_and_no_error(given: dict[str, Any]) -> None:
    assert Table(**given).problem


def test_a_histogram_of_the_largest_numbers_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    """NumPy warns where their span is beyond the range of a float, which no bins can divide."""
    with pytest.raises(ValueError, match="bins"):
        Histogram(np.array([1e308, -1e308])).content(CLEAN)
    assert not recwarn.list


def test_a_text_that_cannot_be_made_is_a_problem_and_no_error() -> None:
    """Of the value or of the caption."""
    assert "no text of mine" in Text(Unprintable()).problem
    assert "no text of mine" in Text("fine", caption=Unprintable()).problem  # type: ignore[arg-type]
