"""A screen that asks the server at an interval, and says so while the server does not respond."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Generic, TypeVar, cast

from rich.text import Text
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Static

from ..read import ApiError, AsyncApi, AsyncPages, UnreachableError
from .server_app import ServerApp

T = TypeVar("T")


async def first(pages: AsyncPages[T], most: int) -> list[T]:
    """Return at most ``most`` results; pages after them are not requested."""
    found: list[T] = []
    async for each in pages:
        found.append(each)
        if len(found) >= most:
            break
    return found


class Bar(Static):
    """One line of recorded text, which is never read as markup. It is cut at the width."""

    def say(self, text: str | Text) -> None:
        """Show a text."""
        self.update(Text(text) if isinstance(text, str) else text)


class PolledScreen(Screen[None], Generic[T]):
    """A screen with data of type T. Only the newest answer is kept."""

    INTERVAL_S = 2.0

    def __init__(self) -> None:
        super().__init__()
        self._wake = asyncio.Event()

    @property
    def top(self) -> ServerApp:
        """The application."""
        return cast(ServerApp, self.app)

    @property
    def api(self) -> AsyncApi:
        """The server."""
        return self.top.api

    async def fetch(self) -> T:
        """Ask the server. Raises ApiError."""
        raise NotImplementedError

    def show(self, found: T) -> None:
        """Show an answer."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Begin to ask."""
        self.run_worker(self._poll(), group="poll", exclusive=True)

    def on_screen_resume(self) -> None:
        """Ask at once after another screen was closed."""
        self.ask_now()

    def action_refresh_now(self) -> None:
        """Ask the server now."""
        self.ask_now()

    def ask_now(self) -> None:
        """Do not wait for the interval."""
        self._wake.set()

    async def _poll(self) -> None:
        while True:
            self._wake.clear()
            if self.is_current:
                await self._ask()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self.INTERVAL_S)

    async def _ask(self) -> None:
        link, found = self.top.link, list[T]()
        try:
            found.append(await self.fetch())
            link.restored(time.time())
        except UnreachableError:
            link.lost(time.time())
        except ApiError as error:
            link.rejected(str(error), time.time())
        if not self.is_current:
            return  # it was closed or covered meanwhile
        with suppress(NoMatches):  # quitting removes the widgets before it ends this worker
            for each in found:
                self.show(each)
            self._show_link()

    def _show_link(self) -> None:
        text = self.top.link.text()
        line = self.query_one("#link", Bar)
        line.say(text)
        line.display = bool(text)
