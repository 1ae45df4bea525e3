"""Take the pictures of ``tocsin top`` for docs/img from a server, with Textual and a browser."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser

import tocsin
from tests.hook.top.seen import Seen
from tocsin.top.app import TopApp

RUN = "restorer"
"""The name of the run whose loss scale collapses."""


def take(browser: Browser, login: str, folder: Path) -> None:
    """Take the runs, the charts of one run, and its incidents at 80 x 24.

    Args:
        browser: Draws the pictures.
        login: Login link of the server.
        folder: Folder of the pictures.
    """
    address = urlsplit(login)
    base, token = f"{address.scheme}://{address.netloc}", parse_qs(address.query)["token"][0]
    with ThreadPoolExecutor(1) as thread:  # Playwright's loop runs in this one
        drawings = thread.submit(asyncio.run, _drawn(base, token)).result()
    for name, drawing in drawings.items():
        page = browser.new_page(viewport={"width": 1000, "height": 640})
        page.set_content(drawing)
        page.locator("svg").screenshot(path=folder / f"{name}.png")
        page.close()


async def _drawn(base: str, token: str) -> dict[str, str]:
    """Return pictures as SVG by name."""
    found = {}
    async with tocsin.AsyncApi(base, token) as api:
        app = TopApp(api, "admin")
        async with app.run_test(size=(80, 24)) as pilot:
            seen = Seen(pilot)
            await seen.until("critical", "q Quit")
            found["top-fleet"] = app.export_screenshot()
            await seen.press("slash", *RUN, "enter")
            await seen.until("1 run, 1 critical")
            await seen.press("enter")
            await seen.until("loss", "scale", "critical, open", "q Quit")
            found["top-run"] = app.export_screenshot()
            await seen.press("i")
            await seen.until("Likely cause: ")
            found["top-incidents"] = app.export_screenshot()
    return found
