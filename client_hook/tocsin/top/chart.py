"""The widget of one chart: title, values at the left, braille, and the line of faults."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from ..read.text import number
from .curves import NONFINITE, SKIPPED, Plot, Point, Series, plot

GUTTER = 9
"""Characters for the values at the left."""
COLORS = {NONFINITE: "bold red", SKIPPED: "bold yellow"}


class Chart(Widget):
    """One series over the steps."""

    DEFAULT_CSS = "Chart { height: 1fr; min-height: 4; }"

    def __init__(self, name: str) -> None:
        super().__init__(id=f"chart-{name}")
        self._title = name
        self._data: tuple[Series | None, list[Point], tuple[int, int]] = (None, [], (0, 0))
        self._newest: float | None = None

    def show(
        self,
        name: str,
        series: Series | None,
        skipped: list[Point],
        steps: tuple[int, int],
        newest: float | None,
    ) -> None:
        """Show a series, with the steps that were skipped, and its newest value."""
        self._title, self._newest = name, newest
        self._data = series, skipped, steps
        self.refresh()

    def render(self) -> Text:
        """Return the lines."""
        series, skipped, steps = self._data
        width, height = self.size.width - GUTTER, self.size.height - 2
        if series is None or width < 2 or height < 1:
            return Text(f"{self._title}  no values", style="dim")
        found = plot(series, skipped, steps, width, height)
        text = self._head(series, found)
        bottom = 0.0 if found.has_zero else found.bottom
        for no, line in enumerate(found.lines):
            value = found.top if no == 0 else bottom if no == height - 1 else None
            text.append(f"\n{number(value):>{GUTTER - 1}} ", "dim")
            text.append(line, "cyan")
        text.append("\n" + " " * GUTTER)
        for mark in found.faults:
            text.append(mark, COLORS.get(mark, ""))
        return text

    def _head(self, series: Series, found: Plot) -> Text:
        is_bad = self._newest is not None and self._newest - self._newest != 0
        count = sum(point.nonfinite for point in series.nonfinite)
        text = Text.assemble(
            (f"{self._title} ", "bold"), (number(self._newest), "bold red" if is_bad else "bold")
        )
        if count:
            text.append(f"  {count} NaN or Inf", "red")
        if found.is_log:
            text.append(
                f"  log scale from {number(found.bottom)}" if found.has_zero else "  log scale", "dim"
            )
        return text
