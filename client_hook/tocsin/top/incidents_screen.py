"""Incidents of a run or of all runs, with the diagnosis of the one at the cursor."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from ..read import Incident, Run
from ..read.text import shown
from .acknowledge import acknowledge
from .live_table import LiveTable
from .polled_screen import Bar, PolledScreen, first
from .rows import by_urgency, incident_cells, incident_lines

MOST_INCIDENTS = 100
"""Those that are not over come first."""
COLUMNS = (
    ("SEVERITY", 8, 0), ("STATE", 9, 0), ("RUN", 16, 0), ("SINCE", 7, 0), ("ACKED", 5, 0), ("SUMMARY", 16, 0)
)  # fmt: skip


class IncidentsScreen(PolledScreen[list[Incident]]):
    """The newest change first."""

    BINDINGS = [  # noqa: RUF012 - as Textual declares it
        Binding("escape", "app.pop_screen", "Back"),
        Binding("a", "acknowledge", "Acknowledge"),
        Binding("tab", "app.focus_next", "Scroll details"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, run: Run | None) -> None:
        super().__init__()
        self._run = run
        self._found: dict[str, Incident] = {}

    def compose(self) -> ComposeResult:
        """Return the widgets."""
        yield Bar(id="title")
        yield Bar(id="link")
        yield LiveTable(COLUMNS, "incidents")
        with VerticalScroll(id="detail"):
            yield Static(id="diagnosis")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Hide what is not used yet."""
        self.query_one("#link").display = False
        self.query_one("#title", Bar).say("Loading incidents.")
        self.query_one(LiveTable).focus()

    async def fetch(self) -> list[Incident]:
        """Return incidents, the most urgent first."""
        return by_urgency(await first(self.api.incidents(self._run), MOST_INCIDENTS))

    def show(self, found: list[Incident]) -> None:
        """Show the incidents."""
        self._found = {one.id: one for one in found}
        opened = sum(one.state == "open" for one in found)
        of = f" of {shown(self._run.name)}" if self._run else ""
        self.query_one("#title", Bar).say(f"Incidents{of}: {opened} open, {len(found)} in all")
        self.query_one(LiveTable).show({one.id: incident_cells(one) for one in found})
        self.show_selected()

    @property
    def selected(self) -> Incident | None:
        """The incident at the cursor."""
        return self._found.get(self.query_one(LiveTable).selected or "")

    @on(DataTable.RowHighlighted)
    def show_selected(self) -> None:
        """Show what is known about the incident at the cursor."""
        chosen = self.selected
        lines = [("No incidents.", "dim")] if chosen is None else incident_lines(chosen)
        text = Text("\n").join(Text(line, style) for line, style in lines)
        self.query_one("#diagnosis", Static).update(text)

    @on(DataTable.RowSelected)
    def open_run(self) -> None:
        """Open the charts of the incident's run, or return to them."""
        if self._run is not None:
            self.app.pop_screen()
        elif self.selected is not None:
            self.top.open_run(self.selected.run_id)

    def action_acknowledge(self) -> None:
        """Acknowledge the incident at the cursor."""
        acknowledge(self, self.selected)
