"""Tests of how numbers are written."""

from __future__ import annotations

import math

import pytest

from tocsin_server.detect.interface.formatting import count, number, of_unit, scale


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.0, "2"), (0.21379, "0.2138"), (-27.5, "−27.5"), (4523269.0, "4.523e6"), (5.057e-4, "5.057e-4"),
     (35723.4, "35720"), (9999.7, "10000"),
     (99999.9, "100000"), (0.0, "0"), (math.nan, "NaN"), (math.inf, "+Inf"), (-math.inf, "−Inf"),
     (1e-05, "1e-5")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    """Four significant figures, two where an exponent is needed, true minus."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(131072.0, "2¹⁷"), (1.0, "2⁰"), (0.5, "2⁻¹"), (0.0, "0"), (1500.0, "1500")]
)
def test_scales(value: float, text: str) -> None:
    """Powers of two are written as powers."""
    assert scale(value) == text


def test_counts() -> None:
    """One step, two steps."""
    assert (count(1, "step"), count(2, "step")) == ("1 step", "2 steps")


def test_a_unit_agrees_with_its_number() -> None:
    """One record, two records; a unit that is no count stays."""
    assert [of_unit(1, "records"), of_unit(2, "records"), of_unit(1, "times")] == [
        "record",
        "records",
        "times",
    ]
