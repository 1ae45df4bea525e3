"""Numbers in every spelling count as what they are."""

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
    """Is NaN, never missing."""
    value = number(text)
    assert value is not None
    assert math.isnan(value)


POSITIVE = ["inf", "Infinity", "+inf", "1e999", "1.#INF", "∞"]
NEGATIVE = ["-inf", "-Infinity", "-1.#INF", "-∞"]


@pytest.mark.parametrize(
    ("text", "sign"), [*((text, 1) for text in POSITIVE), *((text, -1) for text in NEGATIVE)]
)
def test_infinities_in_any_spelling(text: str, sign: int) -> None:
    """Keep their sign."""
    assert number(text) == sign * math.inf


def test_words_that_begin_like_a_number_are_none() -> None:
    """``name`` is no NA, ``information`` no infinity."""
    assert [number(text) for text in ("name", "nano", "information", "--", "")] == [None] * 5


@given(st.floats(allow_nan=False))
def test_what_python_writes_is_read_back(value: float) -> None:
    """To the bit."""
    assert number(repr(value)) == value


@pytest.mark.parametrize("text", ["", "abc", "1_000", "12:30", None, "none"])
def test_what_is_no_number(text: str | None) -> None:
    """Is None, and no error."""
    assert number(text) is None


def test_null_where_a_number_was_due_is_nan(written: Written) -> None:
    """A logger whose JSON has no NaN writes null; a column that is only sometimes filled is none of it."""
    rows = [
        f'{{"step": {step}, "loss": 1.0, "grad_norm": {"2.0" if step == 0 else "null"}}}' for step in range(4)
    ]
    found = records(list(written("a.jsonl", "\n".join([*rows, '{"step": 4, "loss": null}'])).items()))
    assert math.isnan(found[4].values["loss"])
    assert "grad_norm" not in found[1].values
