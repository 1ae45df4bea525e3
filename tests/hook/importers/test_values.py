"""Numbers are read in every spelling."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hook.importers.conftest import Written, records
from tocsin.importers.values import number


@pytest.mark.parametrize(
    "text", ["nan", "NaN", "NAN", "-nan", "N/A", "n/a", "nan(ind)", "tensor(nan)", " NaN "]
)
def test_nan_in_any_spelling(text: str) -> None:
    """It is NaN, never missing."""
    value = number(text)
    assert value is not None
    assert math.isnan(value)


POSITIVE = ["inf", "Infinity", "+inf", "1e999", "1.#INF", "∞"]
NEGATIVE = ["-inf", "-Infinity", "-1.#INF", "-∞"]


@pytest.mark.parametrize(
    ("text", "sign"), [*((text, 1) for text in POSITIVE), *((text, -1) for text in NEGATIVE)]
)
def test_infinities_in_any_spelling(text: str, sign: int) -> None:
    """They keep their sign."""
    assert number(text) == sign * math.inf


def test_words_that_begin_like_a_number_are_not_numbers() -> None:
    """``name`` is not NA, and ``information`` is not infinity."""
    assert [number(text) for text in ("name", "nano", "information", "--", "")] == [None] * 5


@given(st.floats(allow_nan=False))
def test_what_python_writes_is_read_back(value: float) -> None:
    """Bit for bit."""
    assert number(repr(value)) == value


@pytest.mark.parametrize("text", ["", "abc", "1_000", "12:30", None, "none"])
def test_text_that_is_not_a_number(text: str | None) -> None:
    """It is None, without an error."""
    assert number(text) is None


def test_null_in_place_of_an_expected_number_is_nan(written: Written) -> None:
    """Loggers without NaN in JSON write null; a column that is only sometimes filled is not NaN."""
    rows = [
        f'{{"step": {step}, "loss": 1.0, "grad_norm": {"2.0" if step == 0 else "null"}}}' for step in range(4)
    ]
    found = records(list(written("a.jsonl", "\n".join([*rows, '{"step": 4, "loss": null}'])).items()))
    assert math.isnan(found[4].values["loss"])
    assert "grad_norm" not in found[1].values
