"""Charts of braille: nothing extreme is lost. Pure."""

from __future__ import annotations

import math
from array import array
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.read.table import Column, Gathering, Table
from tocsin.top.braille import Canvas
from tocsin.top.curves import NONFINITE, SKIPPED, Point, Series, plot, series_of, skipped_steps

BLANK = "\u2800"
REAL = ("value", "min", "max", "first", "last", "time_ms")
WHOLE = ("attempt", "rank", "step", "step_end", "n", "nan", "pinf", "ninf")


def table(*values: float, name: str = "loss", start: int = 0, attempt: int = 1) -> Table:
    """Return exact values as ``Api.metrics`` does."""
    n = len(values)
    found: dict[str, Any] = {each: list(values) for each in REAL}
    found |= {"attempt": [attempt] * n, "rank": [0] * n, "n": [1] * n}
    found |= {"step": range(start, start + n), "step_end": range(start, start + n)}
    found["nan"] = [math.isnan(value) for value in values]
    found["pinf"] = [value == math.inf for value in values]
    found["ninf"] = [value == -math.inf for value in values]
    columns = {each: Column(array("q", map(int, found[each]))) for each in WHOLE}
    columns |= {each: Column(array("d", found[each])) for each in REAL}
    return Table(n, {"series": Column([name] * n), **columns})


def loss(*values: float) -> Series:
    return series_of(table(*values))["loss"]


def test_a_line_has_no_gap() -> None:
    canvas = Canvas(3, 2)
    canvas.line(0, 7, 5, 0)
    assert canvas.rows() == ["⠀⢀⠎", "⡠⠃⠀"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=60))
@example([0.0, 5e-324])
@example([-1.7e308, 1.7e308])
def test_the_extremes_touch_top_and_bottom(values: list[float]) -> None:
    found = plot(loss(*values), [], (0, len(values) - 1), 20, 4)
    if min(values) == max(values):
        return
    assert set(found.lines[0]) != {BLANK}
    assert set(found.lines[-1]) != {BLANK}


@given(st.lists(st.sampled_from([0.5, math.nan, math.inf, -math.inf]), min_size=1, max_size=60))
def test_every_fault_has_a_mark(values: list[float]) -> None:
    found = plot(loss(*values), [], (0, len(values) - 1), 20, 4)
    assert (NONFINITE in found.faults) == any(not math.isfinite(value) for value in values)
    assert len(found.faults) == 20


def test_skipped_steps_are_marked_below_their_step() -> None:
    skipped = skipped_steps(series_of(table(0.0, 0.0, 1.0, 0.0, name="skipped"))["skipped"])
    assert plot(loss(1, 2, 3, 4), skipped, (0, 3), 4, 1).faults == f"  {SKIPPED} "


def test_values_of_different_size_are_drawn_on_a_logarithmic_axis() -> None:
    found = plot(loss(0.0, 1.0, 32.0, 1024.0), [], (0, 3), 4, 3)
    assert (found.bottom, found.top, found.is_log, found.has_zero) == (1.0, 1024.0, True, True)


def test_a_constant_is_drawn_in_the_middle() -> None:
    assert plot(loss(2.0, 2.0), [], (0, 1), 1, 3).lines == [BLANK, "⠤", BLANK]


def test_a_restart_replaces_what_it_repeats() -> None:
    """The NaN of the first attempt keeps its mark."""
    gathering = Gathering()
    gathering.add(table(1.0, math.nan, 9.0, attempt=1))
    gathering.add(table(2.0, 2.0, start=1, attempt=2))
    found = series_of(gathering.table())["loss"]
    drawn = sorted((point.start, point.last) for layer in found.layers for point in layer)
    assert drawn == [(0, 1.0), (1, 2.0), (2, 2.0)]
    assert [point.start for point in found.nonfinite] == [1]


def test_a_bucket_is_drawn_from_its_minimum_to_its_maximum() -> None:
    bucket = Point(0, 9, 0.0, 4.0, 1.0, 1.0, 0)
    assert plot(Series([[bucket]], []), [], (0, 9), 2, 1).lines == ["⣿⣿"]
