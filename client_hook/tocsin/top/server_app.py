"""What screens use of the application."""

from __future__ import annotations

from textual.app import App

from ..read import AsyncApi, Run
from .link import Link


class ServerApp(App[None]):
    """An application for one server.

    Args:
        api: The server.
        scope: Scope of the token.
    """

    def __init__(self, api: AsyncApi, scope: str) -> None:
        super().__init__()
        self.api, self.scope = api, scope
        self.link = Link()

    def open_run(self, run_id: str) -> None:
        """Show the charts of a run."""
        raise NotImplementedError

    def open_incidents(self, run: Run | None) -> None:
        """Show the incidents of a run, or of all runs."""
        raise NotImplementedError
