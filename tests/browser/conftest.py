"""A real Chromium that opens the pages of a real server."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from PIL import Image
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Locator,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.browser import every_page
from tests.conftest import wait_for

TRAININGS = Path(__file__).parent / "trainings"
NAN_TRAINING = Path(__file__).with_name("nan_training.py")
PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)
FLAGS = ["--no-sandbox", "--disable-gpu", "--process-per-site"]
"""No GPU emulation, because it is slow, and one process for all pages, which compiles scripts once."""
COMPLETE = ("chromium", "google-chrome")
Color = tuple[int, ...]
SLOW_BROWSER = int(os.environ.get("SLOW_BROWSER", "1"))
"""How many times slower the pages run, to find here what fails on a slow machine: ``SLOW_BROWSER=6``."""


class Launched(NamedTuple):
    browser: Browser
    profile: BrowserContext
    """Shared by the tests: scripts stay compiled from page to page."""
    loop: asyncio.AbstractEventLoop


@pytest.fixture(scope="session")
def driver() -> Iterator[tuple[Playwright, asyncio.AbstractEventLoop]]:
    """Playwright, with its event loop suspended, so that modules without a browser can run theirs."""
    with sync_playwright() as playwright:
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield playwright, loop
        asyncio._set_running_loop(loop)


@contextlib.contextmanager
def launching(driver: tuple[Playwright, asyncio.AbstractEventLoop], *commands: str) -> Iterator[Launched]:
    """Start the first of these commands that is installed."""
    path = next(filter(None, map(shutil.which, commands)), None)
    assert path, f"expected one of {', '.join(commands)} on the PATH: `make setup` brings it"
    playwright, loop = driver
    asyncio._set_running_loop(loop)
    browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
    profile = browser.new_context(
        viewport={"width": 1440, "height": 1200}, locale="en-GB", reduced_motion="reduce"
    )
    asyncio._set_running_loop(None)
    yield Launched(browser, profile, loop)
    asyncio._set_running_loop(loop)
    browser.close()
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def launched(driver: tuple[Playwright, asyncio.AbstractEventLoop]) -> Iterator[Launched]:
    """One Chromium per worker: the headless shell if it is installed, which needs a third less CPU."""
    with launching(driver, "chromium-headless-shell", *COMPLETE) as one:
        yield one


@pytest.fixture(scope="session")
def complete_chromium(driver: tuple[Playwright, asyncio.AbstractEventLoop]) -> Iterator[Launched]:
    """A Chromium with notifications and push messages. A module overrides ``launched`` to use it."""
    with launching(driver, *COMPLETE) as one:
        yield one


@pytest.fixture(scope="module")
def chromium(launched: Launched) -> Iterator[Browser]:
    """The Chromium of this worker. No test of a module that uses it can run an event loop."""
    asyncio._set_running_loop(launched.loop)
    yield launched.browser
    asyncio._set_running_loop(None)


class Visit:
    """A browser tab that is logged in."""

    def __init__(self, page: Page, tower: Any, address: str | None = "/") -> None:
        self.page = page
        self.tower = tower
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        if SLOW_BROWSER > 1:
            slow_down(page)
        page.context.request.get(tower.login)
        if address is not None:
            page.goto(tower.base + address, wait_until="commit")

    def open_run(self, run: str, view: str = "") -> None:
        """Open the page of a run, and wait until its name is there and its charts are drawn."""
        self.page.goto(f"{self.tower.base}/runs/{run}{view}")
        self.page.locator("h1").filter(has_not_text=re.compile("^–$")).wait_for()
        self.page.locator('[data-series="loss"] .plot .xy').first.wait_for()

    def until(self, read: Callable[[], Any], wanted: Any) -> None:
        """Wait until ``read()`` returns ``wanted``; fail with what it returned last."""
        found: Any = None

        def same() -> bool:
            nonlocal found
            with contextlib.suppress(Error):  # a script reads what is not there yet
                found = read()
            return bool(found == wanted)

        with contextlib.suppress(AssertionError):
            wait_for(same, "the value")
        assert found == wanted

    def point_at(self, series: str, step: float, height: float, shown: Locator) -> None:
        """Move the pointer into a chart until ``shown`` is visible.

        A chart that is drawn again loses the pointer, and sections that arrive above move the chart away.
        """
        panel = self.page.locator(f'[data-series="{series}"]').first

        def pointed() -> bool:
            panel.scroll_into_view_if_needed()
            with contextlib.suppress(Error):  # it is not drawn yet
                self.page.mouse.move(*self.place(series, step, height), steps=3)
            return shown.is_visible()

        wait_for(pointed, f"what pointing at {series} shows")

    def step(self) -> int:
        """Return the newest step that the page shows; -1 before any."""
        text = self.page.locator(".gauge", has_text="Step").first.locator(".v > span").inner_text()
        digits = "".join(letter for letter in text if letter.isdigit())
        return int(digits) if digits else -1

    def until_step(self, step: int) -> None:
        """Wait until the page shows ``step`` or later, without interaction."""
        deadline = PATIENCE_MS // 100
        for _ in range(deadline):
            if self.step() >= step:
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"the page shows step {self.step()}, expected {step}")

    def shown_range(self, series: str = "loss") -> list[float]:
        """Return the first and last step on a chart's x axis."""
        script = "(name) => document.querySelector(`[data-series=${name}] .plot`)._fullLayout.xaxis.range"
        found: list[float] = self.page.evaluate(script, series)
        return found

    def place(self, series: str, step: float, height: float) -> tuple[float, float]:
        """Return the pixel of a step at a fraction of a chart's height, relative to the page's corner."""
        script = """([name, step, height]) => {
            const plot = document.querySelector(`[data-series="${name}"] .plot`);
            const { x, y } = plot.getBoundingClientRect(), { xaxis, yaxis } = plot._fullLayout;
            const across = xaxis._offset + xaxis.l2p(step), down = yaxis._length * (1 - height);
            return [x + across, y + yaxis._offset + down];
        }"""
        x, y = self.page.evaluate(script, [series, step, height])
        return x, y

    def has_color(self, token: str, at: tuple[float, float], radius: int = 6) -> bool:
        """Return whether a pixel of that design color is within ``radius`` of a place."""
        wanted = self.color(token)
        clip = {"x": at[0] - radius, "y": at[1] - radius, "width": 2 * radius, "height": 2 * radius}
        picture = Image.open(io.BytesIO(self.page.screenshot(clip=clip))).convert("RGB")  # type: ignore[arg-type]
        pixels = [picture.getpixel((x, y)) for x in range(picture.width) for y in range(picture.height)]
        return any(near(pixel, wanted) for pixel in pixels)

    def color(self, token: str) -> Color:
        """Return a design token as red, green and blue."""
        script = """(token) => {
            const probe = document.body.appendChild(document.createElement("i"));
            probe.style.color = `var(${token})`;
            const found = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
            probe.remove();
            return found.slice(0, 3);
        }"""
        return tuple(self.page.evaluate(script, token))


def slow_down(page: Page) -> None:
    """Slow the scripts of a page down, and delay every answer it waits for."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_BROWSER})
    session.send("Network.enable")
    delay = {"offline": False, "latency": 60 * SLOW_BROWSER, "downloadThroughput": -1, "uploadThroughput": -1}
    session.send("Network.emulateNetworkConditions", delay)


def near(pixel: Any, wanted: Color) -> bool:
    """Return whether two colors look the same, allowing for smoothed edges."""
    return all(abs(a - b) < 48 for a, b in zip(pixel, wanted, strict=True))


@pytest.fixture
def visit(chromium: Browser, launched: Launched) -> Iterator[Callable[..., Visit]]:
    """``visit(tower)``: a new tab that is logged in. Script errors on its pages fail the test.

    It opens the fleet, another address, or with None nothing, for a test that then opens another page.
    """
    profile, visits = launched.profile, list[Visit]()

    def come(tower: Any, address: str | None = "/") -> Visit:
        if not profile.pages:  # it stays open, so that the process of the pages lives on
            profile.new_page().goto(f"{tower.base}/login")
        visits.append(Visit(profile.new_page(), tower, address))
        return visits[-1]

    yield come
    clear(profile, {one.tower.base for one in visits})
    assert not [error for one in visits for error in one.errors]


@pytest.fixture
def tab(run: str, shared_tower: Any, visit: Callable[..., Visit]) -> Visit:
    """The page of the run that the module's fixture ``run`` returns."""
    opened = visit(shared_tower, None)
    opened.open_run(run)
    return opened


def clear(profile: BrowserContext, addresses: set[str]) -> None:
    """Close all tabs except the first, log out, and delete what the pages at the addresses stored."""
    for page in profile.pages[1:]:
        page.close()
    for address in addresses:
        origin = "/".join(address.split("/")[:3])
        session = profile.new_cdp_session(profile.pages[0])
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.detach()
    profile.clear_cookies()
    profile.clear_permissions()


@pytest.fixture(scope="session")
def run_of(eventually_true: Callable[..., Any]) -> Callable[[Any, str], str]:
    """``run_of(tower, name)``: return the id of the newest run with that name, once it has a step."""

    def find(tower: Any, name: str) -> str:
        def begun() -> Any:
            row = tower.run_named(name)
            return row if row and row["last_step"] is not None else None

        return str(eventually_true(begun, f"the first step of {name}", 120)["id"])

    return find


@pytest.fixture(scope="session")
def script() -> Callable[[str], str]:
    """``script("steady")``: return the path of a training of this folder."""
    return lambda name: str(TRAININGS / f"{name}.py")


def notify_at_once(tower: Any) -> None:
    """Route every alert without the usual wait for others of its group."""
    headers = {"authorization": f"Bearer {tower.token}"}
    routing = {"routes": [{"name": "default", "group_wait_s": 0}]}
    httpx.put(f"{tower.base}/api/v1/routes", json=routing, headers=headers, timeout=60).raise_for_status()


@pytest.fixture(scope="session")
def alerting(eventually_true: Callable[..., Any]) -> Callable[..., Any]:
    """``with alerting(tower, "r_1", name="...", project="...")``: run a training of NaN, once its alert
    fires."""

    @contextlib.contextmanager
    def begin(tower: Any, run: str, name: str = "", project: str = "alerting") -> Iterator[str]:
        with tower.training(str(NAN_TRAINING), project, name or run, run):
            eventually_true(
                lambda: tower.get("/alerts", run=run, state="firing")["items"], f"an alert of {run}"
            )
            yield str(tower.get("/alerts", run=run, state="firing")["items"][0]["id"])

    return begin


@pytest.fixture(scope="module")
def trained(tower_of_the_module: Any, script: Callable[[str], str]) -> Any:
    """A server with the runs that every page shows, for the tests in other browsers."""
    every_page.store(tower_of_the_module, script)
    return tower_of_the_module
