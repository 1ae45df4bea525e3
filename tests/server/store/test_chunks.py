"""The column codec is lossless."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import Column
from tocsin_server.store.chunks import (
    DECIMAL,
    FLOAT32,
    SPARSE,
    decode_floats,
    decode_ints,
    encode_floats,
    encode_ints,
)

words = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def floats(bits: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(bits, dtype=np.uint64).view(np.float64)


@given(st.lists(words, min_size=1, max_size=100))
def test_any_64_bits_come_back(bits: list[int]) -> None:
    """Every float64, including signaling NaNs, survives the codec."""
    codec, body = encode_floats(Column(floats(bits)), len(bits))
    assert decode_floats(codec, body, len(bits)).v.view(np.uint64).tolist() == bits


@given(st.lists(st.floats(width=32), min_size=1, max_size=100))
def test_float32_values_take_half_the_room(values: list[float]) -> None:
    """Values that float32 can represent are stored as float32 and read as the same float64."""
    sent = np.array(values)
    codec, body = encode_floats(Column(sent), len(values))
    back = decode_floats(codec, body, len(values)).v
    assert codec & FLOAT32 or np.isnan(sent).any()
    assert back.view(np.uint64).tolist() == sent.view(np.uint64).tolist()


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=100), st.integers(0, 12))
def test_printed_decimals_come_back(numbers: list[int], places: int) -> None:
    """Numbers with a common number of decimal places, as in logs; zeros are positive."""
    sent = np.array([float(f"{number}e-{places}") for number in numbers if number] + [0.1, 0.0])
    codec, body = encode_floats(Column(sent), len(sent))
    assert codec & DECIMAL
    assert decode_floats(codec, body, len(sent)).v.view(np.uint64).tolist() == sent.view(np.uint64).tolist()


def test_printed_decimals_take_few_bytes() -> None:
    """A noisy loss with four decimal places: 1.6 bytes per value, as float64 6.4."""
    loss = np.round(3.0 + np.random.default_rng(1).normal(0.0, 0.05, 4096), 4)
    assert len(encode_floats(Column(loss), 4096)[1]) < 1.7 * 4096


@pytest.mark.parametrize("odd", [-0.0, float("nan"), float("inf"), 1e300, 5e-324, 0.1 + 0.2])
def test_one_other_value_makes_a_column_float64(odd: float) -> None:
    """It is returned exactly, wherever it is."""
    sent = np.append(np.arange(1000) / 10.0, odd)
    codec, body = encode_floats(Column(sent), 1001)
    assert not codec & DECIMAL
    assert decode_floats(codec, body, 1001).v.view(np.uint64).tolist() == sent.view(np.uint64).tolist()


@given(st.dictionaries(st.integers(0, 4095), words, min_size=1, max_size=50))
def test_missing_is_not_nan(values: dict[int, int]) -> None:
    """A column that some records lack returns its rows, and nothing for the others."""
    at = sorted(values)
    codec, body = encode_floats(Column(floats([values[i] for i in at]), np.array(at, dtype=np.uint32)), 4096)
    back = decode_floats(codec, body, 4096)
    assert codec & SPARSE
    assert back.at is not None
    assert back.at.tolist() == at
    assert back.v.view(np.uint64).tolist() == [values[i] for i in at]


@given(st.lists(INT64, min_size=1, max_size=100))
def test_whole_numbers_come_back(values: list[int]) -> None:
    """Steps and times survive as differences, even if these exceed 64 bits."""
    with np.errstate(over="ignore"):
        _codec, body = encode_ints(np.array(values, dtype=np.int64))
        assert decode_ints(body).tolist() == values


@pytest.mark.parametrize("constant", [0.0, 65536.0, float("nan")])
def test_a_constant_takes_few_bytes(constant: float) -> None:
    """A constant loss scale takes less than 40 bytes per chunk."""
    _codec, body = encode_floats(Column(np.full(4096, constant)), 4096)
    assert len(body) < 40
