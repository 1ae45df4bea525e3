"""The table of runs, the most severe first."""

from __future__ import annotations

from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import DataTable, Footer, Input

from ..read import Run
from .live_table import LiveTable
from .polled_screen import Bar, PolledScreen, first
from .rows import by_trouble, cells_of, counts

MOST_RUNS = 500
"""The newest runs that are shown. It bounds the memory and the requests."""
COLUMNS = (
    ("HEALTH", 8, 0), ("NAME", 16, 0), ("STEP", 12, 0), ("LOSS", 8, 0), ("STEPS/S", 8, 100), ("SEEN", 7, 110),
    ("PROBLEM", 16, 0),
)  # fmt: skip


@dataclass(frozen=True)
class Fleet:
    """Runs that match the filter; ``more`` says that older ones are left out."""

    runs: list[Run]
    more: bool


class FleetScreen(PolledScreen[Fleet]):
    """Every run a row."""

    BINDINGS = [  # noqa: RUF012 - as Textual declares it
        Binding("i", "incidents", "Incidents"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("r", "refresh_now", "Refresh"),
        Binding("escape", "close_filter", "Close", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, filter: str = "", project: str | None = None) -> None:
        super().__init__()
        self._filter, self._project = filter, project

    def compose(self) -> ComposeResult:
        """Return the widgets."""
        yield Bar(id="title")
        yield Bar(id="link")
        yield LiveTable(COLUMNS, "runs")
        yield Bar(id="empty")
        yield Input(self._filter, placeholder="state:running lr>1e-4 -tag:debug", id="filter", compact=True)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Hide what is not used yet."""
        self.query_one("#link").display = False
        self.query_one("#filter").display = False
        self.query_one("#title", Bar).say(f"tocsin top  {self.api.url}")
        self.query_one("#empty", Bar).say("Loading runs.")
        self.query_one(LiveTable).focus()

    async def fetch(self) -> Fleet:
        """Return the newest runs that match the filter."""
        found = await first(self.api.runs(self._filter, project=self._project), MOST_RUNS + 1)
        return Fleet(by_trouble(found[:MOST_RUNS]), len(found) > MOST_RUNS)

    def show(self, found: Fleet) -> None:
        """Show the runs."""
        newest = f"the newest {counts(found.runs)}" if found.more else counts(found.runs)
        chosen = f"  filter: {self._filter}" if self._filter else ""
        self.query_one("#title", Bar).say(f"tocsin top  {self.api.url}  {newest}{chosen}")
        self.query_one(LiveTable).show({run.id: cells_of(run) for run in found.runs})
        empty = self.query_one("#empty", Bar)
        empty.display = not found.runs
        empty.say("No run matches the filter." if self._filter else "No runs yet.")

    def _show_link(self) -> None:
        super()._show_link()
        if self.query_one("#link").display:  # an error, not an empty list
            self.query_one("#empty").display = False

    @on(DataTable.RowSelected)
    def open_run(self, event: DataTable.RowSelected) -> None:
        """Open the charts of a run."""
        self.top.open_run(str(event.row_key.value))

    def action_incidents(self) -> None:
        """Open the incidents of all runs."""
        self.top.open_incidents(None)

    def action_filter(self) -> None:
        """Ask for a filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_close_filter(self) -> None:
        """Hide the field of the filter."""
        self.query_one("#filter").display = False
        self.query_one(LiveTable).focus()

    @on(Input.Submitted)
    def use_filter(self, event: Input.Submitted) -> None:
        """Use another filter."""
        self._filter = event.value.strip()
        self.action_close_filter()
        self.ask_now()
