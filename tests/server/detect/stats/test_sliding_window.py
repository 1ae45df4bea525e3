"""Sliding windows: as if every value were looked at again."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.stats.sliding_window import SLOTS, Window, reduce

values = st.one_of(st.floats(-100, 100), st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300]))
REDUCED = ["mean", "min", "max", "ratio", "change", "rate", "nonfinite"]
runs = st.lists(st.tuples(st.integers(1, 40), values), min_size=1, max_size=120)


def inside(points: list[tuple[int, float]], amount: int) -> list[tuple[int, float]]:
    """What a window of ``amount`` steps holds at the last point."""
    return [(x, value) for x, value in points if x > points[-1][0] - amount]


def naive(reducer: str, held: list[tuple[int, float]]) -> float | None:
    there = [(x, value) for x, value in held if not math.isnan(value)]
    if reducer == "nonfinite":
        return float(sum(not math.isfinite(value) for _, value in held))
    if not there:
        return None
    numbers = [value for _, value in there]
    if reducer in ("min", "max"):
        return min(numbers) if reducer == "min" else max(numbers)
    if reducer == "mean":
        return sum(numbers) / len(numbers)
    if reducer == "ratio":
        mean = sum(numbers) / len(numbers)
        return numbers[-1] if math.isinf(numbers[-1]) else numbers[-1] / mean if 0 < mean < math.inf else None
    change = numbers[-1] - numbers[0]
    gap = there[-1][0] - there[0][0]
    return change if reducer == "change" else change / gap if gap else None


def alike(a: float | None, b: float | None) -> bool:
    if a is None or b is None or math.isnan(a):
        return a is b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


@given(runs, st.integers(1, SLOTS), st.sampled_from(REDUCED))
def test_a_window_equals_its_values(run: list[tuple[int, float]], amount: int, reducer: str) -> None:
    """At every record; values that left it, even an infinity or 1e300, have no effect."""
    window, points, x = Window.of(amount), list[tuple[int, float]](), 0
    huge = False
    for gap, value in run:
        x += gap
        points.append((x, value))
        held = inside(points, amount)
        huge = any(abs(value) >= 1e300 for _, value in held)
        found = reduce(reducer, window.put(x, value), 1.0)
        # The order of adding decides what is left of a small number.
        if not (huge and reducer in ("mean", "ratio")):
            assert alike(found, naive(reducer, held)), (held, found)


@given(runs, st.integers(0, 119))
def test_a_saved_window_continues(run: list[tuple[int, float]], cut: int) -> None:
    """With identical bits."""
    one, x = Window.of(30), 0
    other = one
    for place, (gap, value) in enumerate(run):
        x += gap
        if place == cut:
            other = msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Window)
        a = one.put(x, value)
        b = a if other is one else other.put(x, value)
        assert repr(a) == repr(b)


@pytest.mark.parametrize("amount", [1, 256, 257, 1_000_000, 10**15])
def test_a_window_is_never_larger_than_its_slots(amount: int) -> None:
    """However long it is; and it is as long as it says, to a slot."""
    window = Window.of(amount)
    for x in range(0, 3 * amount, max(1, amount // 500)):
        window.put(x, 1.0)
        assert len(window.front) + len(window.back) <= SLOTS
    assert amount <= window.size * window.slots <= amount + window.size
