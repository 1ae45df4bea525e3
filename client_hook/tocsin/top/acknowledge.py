"""Acknowledge an incident with a note, or say why that is not possible."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ..read import ApiError, Incident
from ..read.text import shown
from .polled_screen import PolledScreen

WRITERS = ("write", "admin")
ERROR_S = 20.0
"""Seconds for which an error is shown."""


def acknowledge(screen: PolledScreen[Any], incident: Incident | None) -> None:
    """Ask for a note and acknowledge an incident, or say why that is not possible."""
    scope = screen.top.scope
    if incident is None:
        screen.notify("There is no incident to acknowledge.")
    elif incident.ack is not None:
        screen.notify(f"Already acknowledged by {shown(incident.ack.by)}.", markup=False)
    elif scope not in WRITERS:
        command = "tocsin-server token create me --scope write"
        advice = f"Create a token on the server with `{command}`, then run `tocsin login {screen.api.url}`."
        screen.notify(
            f"Your token has scope {scope}. Acknowledging needs scope write. {advice}",
            severity="error", timeout=ERROR_S, markup=False,
        )  # fmt: skip
    else:
        screen.app.push_screen(NoteScreen(incident), lambda note: _send(screen, incident, note))


def _send(screen: PolledScreen[Any], incident: Incident, note: str | None) -> None:
    if note is not None:
        screen.run_worker(_acknowledge(screen, incident, note), group="acknowledge")


async def _acknowledge(screen: PolledScreen[Any], incident: Incident, note: str) -> None:
    try:
        await screen.api.acknowledge_incident(incident.id, note)
    except ApiError as error:
        screen.notify(str(error), severity="error", timeout=ERROR_S, markup=False)
    else:
        screen.notify("Acknowledged. Reminders stop.")
    screen.ask_now()


class NoteScreen(ModalScreen["str | None"]):
    """Asks for a note: Enter acknowledges, Escape does not."""

    BINDINGS = [Binding("escape", "dismiss(None)", "Cancel")]  # noqa: RUF012 - as Textual declares it

    def __init__(self, incident: Incident) -> None:
        super().__init__()
        self._incident = incident

    def compose(self) -> ComposeResult:
        """Return the widgets."""
        with VerticalScroll(id="note", can_focus=False):
            yield Static(Text(f"Acknowledge: {shown(self._incident.summary)}", "bold"))
            yield Input(placeholder="Note for the team (optional)", compact=True)
            yield Static(Text("Enter acknowledges. Escape cancels.", "dim"))

    @on(Input.Submitted)
    def done(self, event: Input.Submitted) -> None:
        """Return the note."""
        self.dismiss(event.value.strip())
