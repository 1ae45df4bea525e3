"""A table whose rows change while the cursor stays on its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.widgets import DataTable

Cells = Sequence[tuple[str, str]]
"""Text and style of each cell of a row."""


class LiveTable(DataTable[Text]):
    """A table of named rows.

    Args:
        columns: For each column, heading, width, and the least width of the terminal at which it is shown.
            The last one gets the rest.
        id: As of a widget.
    """

    BINDINGS = [Binding("enter", "select_cursor", "Open")]  # noqa: RUF012 - as Textual declares it

    def __init__(self, columns: Sequence[tuple[str, int, int]], id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False)
        self._given = columns
        self._known: dict[str, Cells] = {}
        self._chosen: list[int] = []

    def show(self, rows: dict[str, Cells]) -> None:
        """Show these rows. Only what changed is written again."""
        if self._chosen and list(rows) == list(self._known):
            for key, cells in rows.items():
                self._change(key, self._known[key], cells)
        else:
            self._rebuild(rows)
        self._known = rows

    @property
    def selected(self) -> str | None:
        """Name of the row at the cursor, or None if the table is empty."""
        if not self.row_count:
            return None
        return str(self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value)

    def on_resize(self, _event: events.Resize) -> None:
        """Fit the columns to the new width."""
        self._rebuild(self._known)

    def _change(self, key: str, old: Cells, new: Cells) -> None:
        for column in self._chosen:
            if old[column] != new[column]:
                self.update_cell(key, str(column), _cell(new[column]))

    def _rebuild(self, rows: dict[str, Cells]) -> None:
        selected, at, scrolled = self.selected, self.cursor_row, self.scroll_offset.y
        self.clear(columns=True)
        total = self.size.width or self.app.size.width
        self._chosen = [no for no, (_, _, least) in enumerate(self._given) if total >= least]
        padding = 2 * self.cell_padding * len(self._chosen)
        rest = total - padding - sum(self._given[no][1] for no in self._chosen[:-1]) - 1
        for no in self._chosen:
            head, width, _ = self._given[no]
            self.add_column(head, width=max(rest, width) if no == self._chosen[-1] else width, key=str(no))
        for key, cells in rows.items():
            self.add_row(*(_cell(cells[no]) for no in self._chosen), key=key)
        if rows:
            names: list[Any] = list(rows)
            row = names.index(selected) if selected in rows else min(at, len(names) - 1)
            self.move_cursor(row=row, scroll=False)
            self.scroll_to(y=scrolled, animate=False)


def _cell(cell: tuple[str, str]) -> Text:
    return Text(cell[0], cell[1], no_wrap=True, overflow="ellipsis")
