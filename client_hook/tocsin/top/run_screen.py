"""One run: charts of loss, gradient norm and loss scale, and its newest incident."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Footer

from ..read import Incident, RunDetail
from ..read.text import number, shown
from .acknowledge import acknowledge
from .chart import GUTTER, Chart
from .curves import NONFINITE, SKIPPED, SKIPPED_SERIES, Series, series_of, skipped_steps
from .polled_screen import Bar, PolledScreen, first
from .rows import COLORS, by_urgency, condition, step_of

NAMES = ("loss", "grad_norm", "scale", "lr", SKIPPED_SERIES)
LEAST_BUCKETS, MOST_BUCKETS = 50, 8192
MOST_INCIDENTS = 5
SMALLEST_WINDOW = 20
"""Steps at the strongest zoom."""


@dataclass(frozen=True)
class Watched:
    """A run, its series in the window of the charts, and its incidents."""

    run: RunDetail
    series: dict[str, Series]
    incidents: list[Incident]


class RunScreen(PolledScreen[Watched]):
    """The charts of one run."""

    INTERVAL_S = 1.0
    BINDINGS = [  # noqa: RUF012 - as Textual declares it
        Binding("escape", "app.pop_screen", "Back"),
        Binding("plus,equals_sign", "zoom(2)", "Zoom in", key_display="+"),
        Binding("minus", "zoom(-2)", "Out", key_display="-"),
        Binding("i", "incidents", "Incidents"),
        Binding("a", "acknowledge", "Acknowledge"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self._run_id = run_id
        self._run: RunDetail | None = None
        self._zoom = 1
        self._last_step = 0
        self._incidents: list[Incident] = []

    def compose(self) -> ComposeResult:
        """Return the widgets."""
        yield Bar(id="title")
        yield Bar(id="link")
        yield Chart("loss")
        yield Chart("grad_norm")
        yield Chart("scale")
        yield Bar(id="steps")
        yield Bar(id="incident")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Hide what is not used yet."""
        self.query_one("#link").display = False
        self.query_one("#title", Bar).say(f"Loading {shown(self._run_id)}.")

    async def fetch(self) -> Watched:
        """Return the run as it is now."""
        run = await self.api.run(self._run_id)
        self._last_step = run.last_step or 0
        width = 2 * max(self.size.width - GUTTER, 1)
        buckets = min(max(width, LEAST_BUCKETS), MOST_BUCKETS)
        table = await self.api.metrics(run, *NAMES, start=self._start(), buckets=buckets)
        return Watched(
            run, series_of(table), by_urgency(await first(self.api.incidents(run), MOST_INCIDENTS))
        )

    def _start(self) -> int | None:
        """Return the first step of the charts, None for that of the run."""
        if self._zoom == 1:
            return None
        return max(self._last_step - self._window() + 1, 0)

    def _window(self) -> int:
        return max(self._last_step // self._zoom, SMALLEST_WINDOW)

    def show(self, found: Watched) -> None:
        """Show the run."""
        run = found.run
        self._run, self._incidents = run, found.incidents
        self.query_one("#title", Bar).say(_title(run))
        chosen = ["loss", "grad_norm", "scale" if "scale" in found.series else "lr"]
        ranges = [one.steps for name in chosen if (one := found.series.get(name)) is not None and one.steps]
        steps = (min(first for first, _ in ranges), max(last for _, last in ranges)) if ranges else (0, 0)
        skipped = skipped_steps(found.series.get(SKIPPED_SERIES))
        for chart, name in zip(self.query(Chart), chosen, strict=True):
            chart.show(name, found.series.get(name), skipped, steps, run.last.get(name))
        self.query_one("#steps", Bar).say(_axis(steps, self.size.width))
        self.query_one("#incident", Bar).say(_incident(found.incidents))

    def action_zoom(self, factor: int) -> None:
        """Show fewer of the last steps, or more."""
        wanted = self._zoom * factor if factor > 0 else self._zoom // -factor
        if factor < 0 or self._window() > SMALLEST_WINDOW:
            self._zoom = max(wanted, 1)
        self.ask_now()

    def action_incidents(self) -> None:
        """Open the incidents of this run."""
        if self._run is not None:
            self.top.open_incidents(self._run)

    def action_acknowledge(self) -> None:
        """Acknowledge the incident in the last line."""
        acknowledge(self, self._incidents[0] if self._incidents else None)


def _title(run: RunDetail) -> Text:
    color = COLORS.get(run.state if run.health == "ended" else run.health, "")
    text = Text.assemble((shown(run.name), "bold"), "  ", (condition(run), color))
    rate = "" if run.steps_per_s is None else f"  {number(run.steps_per_s)} steps/s"
    lr = "" if run.last.get("lr") is None else f"  lr {number(run.last['lr'])}"
    skipped = f"  {run.skipped} skipped" if run.skipped else ""
    return text.append(f"  step {step_of(run)}{rate}{lr}{skipped}")


def _axis(steps: tuple[int, int], width: int) -> Text:
    left, right = f"step {steps[0]}", str(steps[1])
    legend = f"{NONFINITE} NaN or Inf  {SKIPPED} skipped step"
    space = max(width - GUTTER - len(left) - len(right), len(legend) + 2)
    return Text(" " * GUTTER + left + legend.center(space) + right, "dim")


def _incident(incidents: list[Incident]) -> Text:
    if not incidents:
        return Text("No incidents.", "dim")
    one = incidents[0]
    since = "" if one.onset_step is None else f" since step {one.onset_step}"
    ack = "" if one.ack is None else ", acknowledged"
    color = COLORS.get(one.severity, "") if one.state == "open" else "dim"
    return Text(f"{one.severity}, {one.state}{since}{ack}: {shown(one.summary)}", color)
