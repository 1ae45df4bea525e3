"""The application: one server, and the screens of runs, one run and incidents."""

from __future__ import annotations

from textual.binding import Binding

from ..read import AsyncApi, Run
from .fleet_screen import FleetScreen
from .incidents_screen import IncidentsScreen
from .run_screen import RunScreen
from .server_app import ServerApp

TIMEOUT_S = 10.0
"""Seconds without a byte from the server. Quitting waits for an open request."""


class TopApp(ServerApp):
    """``tocsin top``.

    Args:
        api: The server.
        scope: Scope of the token.
        filter: Filter of the runs.
        project: Only runs of this project.
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding("ctrl+c", "quit", show=False, priority=True)]  # noqa: RUF012 - as Textual declares it
    TITLE = "tocsin top"
    CSS = """
    Bar { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #title { background: $panel; }
    #link { background: $error-darken-2; color: $text; }
    #empty { padding: 0 1; color: $text-muted; }
    #filter { dock: bottom; height: 1; margin-bottom: 1; }
    LiveTable { height: 1fr; scrollbar-size-vertical: 1; background: $background; }
    FleetScreen LiveTable { height: auto; max-height: 1fr; }
    #detail { height: 1fr; border-top: solid $panel; padding: 0 1; }
    NoteScreen { align: center middle; }
    #note { width: 80%; height: auto; max-height: 80%; border: solid $accent; padding: 0 1; }
    #note { background: $panel; }
    """

    def __init__(self, api: AsyncApi, scope: str, filter: str = "", project: str | None = None) -> None:
        super().__init__(api, scope)
        self._filter, self._project = filter, project

    def get_default_screen(self) -> FleetScreen:
        """Return the first screen."""
        return FleetScreen(self._filter, self._project)

    def open_run(self, run_id: str) -> None:
        self.push_screen(RunScreen(run_id))

    def open_incidents(self, run: Run | None) -> None:
        self.push_screen(IncidentsScreen(run))


async def show(url: str | None, token: str | None, filter: str, project: str | None) -> None:
    """Show a server until the user quits.

    Raises:
        ApiError: The server does not respond or rejects the token.
        ValueError: ``url`` is not an address.
    """
    async with AsyncApi(url, token, timeout=TIMEOUT_S, retries=0) as api:
        session = await api.get("/session")
        await TopApp(api, session["scope"], filter, project).run_async()
