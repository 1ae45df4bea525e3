"""What an embedded chart shows, as HTML: a drawing, or an object that the script logged."""

from __future__ import annotations

import base64
import html
import json
from dataclasses import dataclass
from typing import Any

from tocsin_server.core.embed_links import EmbeddedChart
from tocsin_server.core.formula import read_formula
from tocsin_server.core.models import RunEvent
from tocsin_server.http.api.media import MOST, content_of, is_media, picture_type
from tocsin_server.http.computed_curves import aligned, formula_curve, spread_curve
from tocsin_server.http.embedded_drawing import draw_bars, draw_lines, draw_points
from tocsin_server.notify.chart_image import Curve, curve_of
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import SeriesLayer, StoredRun

BUCKETS = 600
ROWS = 200
"""Rows of a table that are shown."""


@dataclass(frozen=True, slots=True)
class ChartOfRun:
    """A chart of a run, and where its values are."""

    reader: StoreReader
    run: StoredRun
    chart: EmbeddedChart

    @property
    def title(self) -> str:
        """The chart and its run, in words."""
        return f"{self.chart.title} of {self.run.name}"

    def missing(self) -> str | None:
        """Return what the chart needs and the run lacks, or None.

        Raises:
            FormulaError: The formula is not understood.
        """
        names = self.chart.names
        if self.chart.kind == "formula":
            read_formula(self.chart.text, self._series())
            return None
        if not names or (self.chart.kind == "scatter" and len(names) != 2):
            return self.chart.text
        media = self.chart.kind == "media"
        known = {event.data["name"] for event in self._media()} if media else set(self._series())
        return next((name for name in names if name not in known), None)

    def content(self) -> str | None:
        """Return the chart as HTML, or None if it has no values yet."""
        if self.chart.kind == "media":
            return self._object()
        formula = read_formula(self.chart.text, self._series()) if self.chart.kind == "formula" else None
        names = formula.names if formula else self.chart.names
        answer = self.reader.series(self.run.id, names, buckets=BUCKETS)
        layers = [answer.series.get(name, []) for name in names]
        if self.chart.kind == "scatter":
            return self._points(layers)
        if formula:
            return self._lines([formula_curve(layers, formula.value)], [""])
        if self.chart.kind == "spread":
            return self._lines([spread_curve(layers[0])], [""])
        return self._lines([curve_of(each[0]) if each else None for each in layers], names)

    @property
    def _head(self) -> str:
        return f"{self.chart.title} · {self.run.name}"

    @property
    def _label(self) -> str:
        return f"{self.title}, last step {self.run.last_step}"

    def _lines(self, curves: list[Curve | None], names: list[str]) -> str | None:
        lines = [(name, each) for name, each in zip(names, curves, strict=True) if each and each.step.size]
        if not lines:
            return None
        head = self.run.name if len(lines) > 1 else self._head
        return draw_lines(head, lines, self._label, log="y" in self.chart.log)

    def _points(self, layers: list[list[SeriesLayer]]) -> str | None:
        found = aligned(layers)
        if found is None:
            return None
        across, up = self.chart.names
        x, y = found[1]
        return draw_points(self._head, x.values, y.values, (across, up), self.chart.log, self._label)

    def _object(self) -> str | None:
        """Return the newest object that the script logged under the name."""
        found = [event for event in self._media() if event.data["name"] in self.chart.names]
        body = content_of(self.reader, self.run.id, found[-1].data["hash"]) if found else None
        if body is None:
            return None
        label = f"{self.title}, step {found[-1].step}"
        try:
            return self._shown(found[-1].data["type"], body, label)
        except (KeyError, TypeError, ValueError):
            return f"<p>{html.escape(label)}: the content is damaged.</p>"

    def _shown(self, kind: str, body: bytes, label: str) -> str:
        """Return an object as HTML.

        Raises:
            ValueError: It is not what it should be; also KeyError and TypeError.
        """
        if kind == "histogram":
            found = json.loads(body)
            counts, (low, high) = [int(count) for count in found["counts"]], _range_of(found)
            return draw_bars(self._head, counts, low, high, label, log="y" in self.chart.log)
        if kind == "image":
            return _image(body, picture_type(body), label)
        shown = _table(json.loads(body)) if kind == "table" else f"<pre>{html.escape(body.decode())}</pre>"
        return f"<p>{html.escape(label)}</p>{shown}"

    def _series(self) -> list[str]:
        return [each.name for each in self.run.series]

    def _media(self) -> list[RunEvent]:
        return [event for event in self.reader.media(self.run.id, MOST) if is_media(event.data)]


def _image(content: bytes, kind: str, label: str) -> str:
    data = base64.b64encode(content).decode("ascii")
    return f'<img alt="{html.escape(label)}" src="data:{kind};base64,{data}">'


def _range_of(found: dict[str, Any]) -> tuple[float, float]:
    """Return the limits of a histogram; it has none without finite values."""
    low, high = (float("nan") if found[name] is None else float(found[name]) for name in ("low", "high"))
    return low, high


def _table(found: dict[str, Any]) -> str:
    heads = "".join(f"<th>{html.escape(str(name))}</th>" for name in found["columns"])
    rows = [
        "".join(f"<td>{html.escape('–' if cell is None else str(cell))}</td>" for cell in row)
        for row in found["rows"][:ROWS]
    ]
    return f"<table><tr>{heads}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
