"""Panels of a run that are not drawn over steps: metric against metric, and what the script logs as media."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import tocsin
from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
STEPS = 40
SCATTER = "scatter:loss\nval/psnr"


def place_of(tower: Any) -> dict[str, Any]:
    """Return the arguments of ``watch`` for a run on this server."""
    spool = tower.directory / "spool"
    return {"url": tower.base, "token": tower.token, "spool_dir": spool, "patch": False, "quiet": True}


@pytest.fixture(scope="module")
def rewarded(shared_tower: Any, run_of: Callable[[Any, str], str]) -> str:
    """A run that ended long before its last planned step and reported none of the vital signs."""
    run = tocsin.watch("panels", name="rewarded", planned_steps=100_000, **place_of(shared_tower))
    for step in range(STEPS):
        run.log({"reward": step / 10}, step=step)
    run.finish()
    return run_of(shared_tower, "rewarded")


@pytest.fixture
def rewards(rewarded: str, shared_tower: Any, visit: Callable[..., Any]) -> Any:
    """Its page, with the chart of its metric."""
    page = visit(shared_tower, f"/runs/{rewarded}").page
    page.locator('[data-series="reward"] .plot .xy').first.wait_for()
    return page


def test_vital_signs_that_a_run_lacks_have_no_empty_chart(rewards: Any) -> None:
    """They are listed by name."""
    expect(rewards.locator(".vitals .panel", has_text="not reported by this run")).to_have_count(4)
    expect(rewards.locator(".vitals .plot:visible")).to_have_count(0)


def test_the_overview_of_an_ended_run_ends_with_it(rewards: Any) -> None:
    """Not at the planned steps, which never come."""
    expect(rewards.locator(".overview .legend > span").last).to_have_text(str(STEPS - 1))


@pytest.fixture(scope="module")
def run(shared_tower: Any, run_of: Callable[[Any, str], str]) -> str:
    """A run whose second metric is the square of the first; one loss is NaN; a text and a table."""
    run = tocsin.watch("panels", name="paneled", **place_of(shared_tower))
    for step in range(STEPS):
        loss = float("nan") if step == 5 else 1 + step / 10
        run.log({"loss": loss, "val/psnr": loss * loss}, step=step)
    for step in (3, 8):
        run.log({"sample": tocsin.Text(f"text of step {step}")}, step=step)
        run.log({"worst": tocsin.Table(["file", "loss"], [["a.png", float(step)]])}, step=step)
        run.log({"spread": tocsin.Histogram([0.0] * 99 + [1.0])}, step=step)
    run.finish()
    return run_of(shared_tower, "paneled")


def add(tab: Any, kind: str, text: str) -> None:
    """Add a panel in the dialog."""
    tab.page.get_by_role("button", name="Add chart").click()
    dialog = tab.page.get_by_role("dialog", name="Add chart")
    dialog.get_by_label("Show").select_option(kind)
    dialog.get_by_label("Metrics or formula").fill(text)
    dialog.get_by_role("button", name="Add").click()


def panel(tab: Any, name: str) -> Any:
    """Return a panel, scrolled into view."""
    found = tab.page.get_by_role("region", name=name, exact=True)
    found.scroll_into_view_if_needed()
    return found


def test_two_metrics_are_drawn_against_each_other(tab: Any) -> None:
    """A point for each step with a finite record of both; the step of the cross line is marked."""
    add(tab, "scatter", "loss\nval/psnr")
    scatter = panel(tab, "val/psnr against loss")
    scatter.get_by_text(f"{STEPS - 1} points · rank correlation 1 · 1 not finite").wait_for()
    assert f"panel={quote(SCATTER, safe='')}" in tab.page.url
    tab.open_run(tab.page.url.split("/runs/")[1].split("?")[0], f"?panel={quote(SCATTER)}&at=10")
    panel(tab, "val/psnr against loss").get_by_text("2, 4", exact=True).wait_for()


def test_what_a_scatter_lacks_is_said(tab: Any) -> None:
    """The dialog stays open."""
    add(tab, "scatter", "loss")
    tab.page.get_by_role("alert").get_by_text("Enter two metrics").wait_for()


def test_a_logged_text_is_a_panel_with_a_slider(tab: Any) -> None:
    """The newest one first; a link shows it, and it can be pinned."""
    add(tab, "media", "sample")
    text = panel(tab, "sample")
    text.get_by_text("text of step 8").wait_for()
    text.get_by_role("slider", name="Step of sample").press("ArrowLeft")
    text.get_by_text("text of step 3").wait_for()
    text.locator(".menubutton").click()
    tab.page.get_by_role("menuitem", name="Pin to the top").click()
    tab.page.locator('[data-section="pinned"]').get_by_text("text of step 3").wait_for()


def test_a_logged_table_is_a_panel(tab: Any, run: str) -> None:
    """With its rows; a name that the run does not log is said."""
    tab.open_run(run, f"?panel={quote('media:worst')}&panel={quote('media:none')}")
    panel(tab, "worst").get_by_role("cell", name="a.png").wait_for()
    panel(tab, "none").get_by_text("This run has no image, histogram, text or table “none”.").wait_for()


def choose(tab: Any, name: str, item: str) -> None:
    """Choose an item in the menu of a panel."""
    panel(tab, name).locator(".menubutton").click()
    tab.page.get_by_role("menu").get_by_role("menuitemradio", name=item).first.click()


def ticks(tab: Any, name: str) -> list[str]:
    """Return the labels of the x axis of a scatter chart."""
    return list(panel(tab, name).locator("text[text-anchor=middle]").all_text_contents())


def test_an_axis_of_a_scatter_is_logarithmic(tab: Any, run: str) -> None:
    """As chosen in its menu, first of the x axis; the address has it, and a link shows it."""
    tab.open_run(run, f"?panel={quote(SCATTER)}")
    name = "val/psnr against loss"
    panel(tab, name).get_by_text(f"{STEPS - 1} points").wait_for()
    linear = ticks(tab, name)
    choose(tab, name, "Log (powers of ten)")
    tab.until(lambda: ticks(tab, name) != linear, True)
    assert f"axis={quote(f'log:x:{SCATTER}', safe='')}" in tab.page.url
    logarithmic = ticks(tab, name)
    tab.page.reload()
    tab.until(lambda: ticks(tab, name), logarithmic)


def heights(tab: Any) -> list[float]:
    """Return the heights of the bars of the histogram that are not empty."""
    bars = (
        panel(tab, "spread")
        .locator("rect")
        .evaluate_all("all => all.map((each) => +each.getAttribute('height'))")
    )
    return [height for height in bars if height]


def test_the_counts_of_a_histogram_are_logarithmic(tab: Any, run: str) -> None:
    """99 values and 1 value: the low bar is a hundredth of the other, on a log axis more than a tenth."""
    tab.open_run(run, f"?panel={quote('media:spread')}")
    tab.until(lambda: len(heights(tab)), 2)
    assert heights(tab)[1] < heights(tab)[0] / 50
    choose(tab, "spread", "Log")
    tab.until(lambda: heights(tab)[1] > heights(tab)[0] / 10, True)


@pytest.mark.parametrize(
    ("chart", "name", "alternative"),
    [
        ("formula:loss / 2", "loss / 2", "loss / 2 of paneled, last step 39"),
        (SCATTER, "val/psnr against loss", "val/psnr against loss of paneled, last step 39"),
        ("media:spread", "spread", "spread of paneled, step 8"),
    ],
)
def test_a_panel_is_embedded(tab: Any, run: str, chart: str, name: str, alternative: str) -> None:
    """The link from its menu shows it without a login."""
    tab.open_run(run, f"?panel={quote(chart)}")
    shown = panel(tab, name)
    shown.locator("svg.runchart-plot, svg.media-bars, .plot .xy").first.wait_for()
    shown.locator(".menubutton").click()
    tab.page.get_by_role("menuitem", name="Embed…").click()
    tab.page.get_by_role("button", name="Create link").click()
    pasted = tab.page.get_by_role("dialog", name=f"Link to embed {name}").locator("pre").inner_text()
    tab.page.context.clear_cookies()
    tab.page.goto(unescape(pasted.split('src="')[1].split('"')[0]))
    tab.page.get_by_role("img", name=alternative).wait_for()


def test_the_menu_says_why_a_panel_is_not_embedded(tab: Any, run: str) -> None:
    """A formula of a metric that the run lacks has nothing to show."""
    tab.open_run(run, f"?panel={quote('formula:loss - none')}")
    shown = panel(tab, "loss - none")
    shown.get_by_text("no metric “none”").wait_for()
    shown.locator(".menubutton").click()
    item = tab.page.get_by_role("menuitem", name="Embed… nothing to show")
    assert item.get_attribute("aria-disabled") == "true"
    item.click(force=True)
    assert tab.page.get_by_role("dialog").count() == 0
