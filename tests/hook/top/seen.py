"""``tocsin top`` on a real server, driven by Textual's Pilot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

import tocsin
from tests.conftest import DEADLINE_S
from tocsin.top.app import TopApp

Scenario = Callable[["Seen"], Awaitable[None]]


class Seen:
    """What a user sees and does."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        """The text of the screen, line by line."""
        strips = self.pilot.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip) for strip in strips]

    @property
    def text(self) -> str:
        """The text of the screen."""
        return "\n".join(self.lines)

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)

    async def until(self, *parts: str) -> None:
        """Wait until the screen has these texts."""
        await self.holds(lambda: all(part in self.text for part in parts), lambda: f"{parts} in\n{self.text}")

    async def holds(self, true: Callable[[], Any], what: Callable[[], str]) -> None:
        """Wait for a condition."""
        ends = time.monotonic() + DEADLINE_S
        while not true():
            assert time.monotonic() < ends, f"waited for {what()}"
            await asyncio.sleep(0.02)


def scenario(base: str, token: str, play: Scenario, *, scope: str = "write", filter: str = "") -> None:
    """Run a scenario with the application at 80 x 24."""

    async def run() -> None:
        async with tocsin.AsyncApi(base, token, retries=0) as api:
            app = TopApp(api, scope, filter)
            async with app.run_test(size=(80, 24), notifications=True) as pilot:
                await play(Seen(pilot))

    asyncio.run(run())
