"""Do ten tasks as a new user would on a sweep of 60 runs, and count clicks, keys and seconds.

``bench_tasks.py`` prints the table; ``bench_tasks.py --write`` puts it into the documentation. The hand is
estimated by the keystroke-level model (Card, Moran and Newell, 1980), the pages are measured: a real server,
real runs and Chromium. A task whose result does not appear fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.sweep_process import BAD, BEST
from tests.conftest import Tower, tower_in

PAGE = Path(__file__).parents[1] / "docs/explanation/comparison.md"
BEGIN, END = "<!-- tasks: benchmarks/bench_tasks.py --write -->\n", "<!-- end of tasks -->\n"
THINK_S, POINT_S, PRESS_S, KEY_S = 1.35, 1.1, 0.2, 0.28
"""Decide what to do, move the pointer, press and release its button, and press a key (an average typist)."""
PATIENCE_MS = 60_000
WORST, BASELINE = f"run-{BAD:02}", f"run-{BEST:02}"


@dataclass
class Hand:
    """What a person does on a page."""

    page: Page
    clicks: int = 0
    keys: int = 0
    moving_s: float = 0.0

    def click(self, target: Locator) -> None:
        """Decide, point and click."""
        target.click()
        self.clicks += 1
        self.moving_s += THINK_S + POINT_S + PRESS_S

    def drag(self, chart: Locator) -> None:
        """Draw over the middle of a chart. It counts as a click."""
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        assert box is not None
        across, down = box["x"] + box["width"] / 4, box["y"] + box["height"] / 2
        self.page.mouse.move(across, down)
        self.page.mouse.down()
        self.page.mouse.move(across + box["width"] / 4, down, steps=5)
        self.page.mouse.up()
        self.clicks += 1
        self.moving_s += THINK_S + 2 * POINT_S + PRESS_S

    def type(self, text: str) -> None:
        """Decide and type where the focus is."""
        self.page.keyboard.type(text)
        self.keys += len(text)
        self.moving_s += THINK_S + KEY_S * len(text)


def fleet(page: Page, tower: Tower) -> None:
    """Open the fleet."""
    page.goto(tower.base)
    page.locator("[data-run]").nth(5).wait_for()


def opened(page: Page, tower: Tower, name: str) -> None:
    """Open the page of a run."""
    fleet(page, tower)
    page.get_by_role("link", name=name).click()
    page.locator('[data-series="loss"] .plot .nsewdrag').wait_for()
    page.wait_for_load_state("networkidle")


def row(page: Page, name: str) -> Locator:
    """Return a row of the fleet."""
    return page.locator("[data-run]").filter(has=page.get_by_role("link", name=name))


def column(hand: Hand, page: Page) -> None:
    """Make a column of the lowest val_loss."""
    hand.click(page.get_by_role("button", name="Columns"))
    hand.type("val_loss")
    hand.click(page.get_by_role("button", name="Lowest of val_loss"))
    hand.click(page.get_by_role("button", name="Done"))
    page.locator("[data-sort*=val_loss]").wait_for()


def best(hand: Hand, page: Page) -> None:
    """Sort by that column."""
    hand.click(page.locator("[data-sort*=val_loss]"))
    ended = page.locator("[data-run] .name a").filter(has_not_text=WORST).first
    expect(ended).to_have_text(re.compile(BASELINE))


def why(hand: Hand, page: Page) -> None:
    """Open the run that is critical; the likely cause is beside its charts."""
    hand.click(page.get_by_role("link", name=WORST))
    expect(page.get_by_text("First action").first).to_be_in_viewport()


def pin(hand: Hand, page: Page) -> None:
    """Pin the best run, to compare others with it."""
    hand.click(row(page, BASELINE).get_by_role("button", name=re.compile("^Pin")))
    page.get_by_role("button", name=f"Unpin {BASELINE}").wait_for()


def share(hand: Hand, page: Page) -> None:
    """Zoom by a drag and copy the link, which shows the same steps to others."""
    hand.drag(page.locator('[data-series="loss"] .plot .nsewdrag'))
    page.wait_for_url("**from=*")
    hand.click(page.get_by_role("button", name="Copy link"))
    page.get_by_text("Copied", exact=True).wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == page.url


def rule(hand: Hand, page: Page) -> None:
    """Start a rule from the menu of a chart; only the limit is missing."""
    hand.click(page.get_by_role("button", name="Chart menu of Grad norm"))
    hand.click(page.get_by_role("menuitem", name="New alert rule"))
    page.locator("[data-field=limit]:focus, [data-field=limit] :focus").wait_for()
    hand.type("10")
    hand.click(page.get_by_role("button", name="Save"))
    page.locator("[data-rule*=too-high]").wait_for()


def compare(hand: Hand, page: Page) -> None:
    """Compare a run with the pinned one, from its page."""
    hand.click(page.get_by_role("button", name="Compare", exact=True))
    hand.click(page.get_by_role("menuitem", name=BASELINE))
    page.locator("tr[data-run]").nth(1).wait_for()


def mute(hand: Hand, page: Page) -> None:
    """Silence the incident until the morning."""
    hand.click(page.get_by_role("button", name="Silence").first)
    hand.type("overnight")
    hand.click(page.get_by_role("button", name=re.compile(r"^\D*9:00$")).first)
    hand.click(page.get_by_role("dialog").get_by_role("button", name="Silence", exact=True))
    page.get_by_text("Silenced:").wait_for()


def export(hand: Hand, page: Page) -> None:
    """Download every record of a run."""
    with page.expect_download() as download:
        hand.click(page.get_by_role("link", name="Records as CSV"))
    assert "loss" in Path(download.value.path()).read_text("utf-8")[:1000]


def webhook(hand: Hand, page: Page) -> None:
    """Create a channel."""
    hand.click(page.get_by_role("navigation").first.get_by_role("link", name="Alerts"))
    hand.click(page.get_by_role("link", name="Channels", exact=True))
    hand.click(page.get_by_role("button", name="Webhook (signed JSON)"))
    hand.type("https://example.org/tocsin")
    hand.click(page.get_by_role("button", name="Create"))
    page.locator("[data-channel]").wait_for()


Task = tuple[str, str, Callable[[Page, Tower], None] | None, Callable[[Hand, Page], None]]
TASKS: tuple[Task, ...] = (
    ("Make a column of `val_loss`", "fleet", fleet, column),
    ("Find the best of 60 runs", "fleet with that column", None, best),
    ("Pin it as a baseline", "fleet with that column", None, pin),
    ("See why run 17 is worse", "fleet", fleet, why),
    ("Share a zoomed view", "run", lambda page, tower: opened(page, tower, WORST), share),
    ("Write a rule from a chart", "run", lambda page, tower: opened(page, tower, WORST), rule),
    ("Compare two runs", "run", lambda page, tower: opened(page, tower, WORST), compare),
    ("Mute an alert for the night", "run", lambda page, tower: opened(page, tower, WORST), mute),
    ("Export a run", "run", lambda page, tower: opened(page, tower, BASELINE), export),
    ("Set up a webhook", "fleet", fleet, webhook),
)
"""Name, where it starts, how to get there (None: where the previous one ended), and what is done."""


def lines(page: Page, tower: Tower) -> list[str]:
    """Do all tasks, and return the rows of the table."""
    found = ["| Task | From | Clicks | Keys | Seconds |", "|---|---|---|---|---|"]
    for name, place, prepare, act in TASKS:
        if prepare:
            prepare(page, tower)
        hand, began = Hand(page), time.perf_counter()
        act(hand, page)
        seconds = hand.moving_s + time.perf_counter() - began
        found.append(f"| {name} | {place} | {hand.clicks} | {hand.keys or '–'} | {seconds:.0f} |")
        print(found[-1], flush=True)
    return found


def main() -> None:
    """Run the sweep, do the tasks, and write the table if asked to."""
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as place, tower_in(Path(place)) as tower:
        script = str(Path(__file__).with_name("sweep_process.py"))
        command = [sys.executable, script, tower.base, tower.token, str(Path(place) / "spool")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as runs:
            assert runs.stdout is not None
            runs.stdout.readline()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
                context = browser.new_context(viewport={"width": 1440, "height": 1200}, locale="en-GB")
                context.grant_permissions(["clipboard-read", "clipboard-write"])
                page = context.new_page()
                page.set_default_timeout(PATIENCE_MS)
                expect.set_options(timeout=PATIENCE_MS)
                context.request.get(tower.login)
                try:
                    table = lines(page, tower)
                finally:
                    runs.kill()
                browser.close()
    if "--write" in sys.argv:
        text = PAGE.read_text("utf-8")
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}{chr(10).join(table)}\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
