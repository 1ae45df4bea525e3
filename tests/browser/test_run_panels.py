"""Panels of a run that are not drawn over steps: metric against metric, and what the script logs as media."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

import tocsin

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
STEPS = 40
SCATTER = "scatter:loss\nval/psnr"


@pytest.fixture(scope="module")
def run(shared_tower: Any, run_of: Callable[[Any, str], str]) -> str:
    """A run whose second metric is the square of the first; one loss is NaN; a text and a table."""
    spool = shared_tower.directory / "spool"
    place = {"url": shared_tower.base, "token": shared_tower.token, "spool_dir": spool, "patch": False}
    run = tocsin.watch("panels", name="paneled", quiet=True, **place)
    for step in range(STEPS):
        loss = float("nan") if step == 5 else 1 + step / 10
        run.log({"loss": loss, "val/psnr": loss * loss}, step=step)
    for step in (3, 8):
        run.log({"sample": tocsin.Text(f"text of step {step}")}, step=step)
        run.log({"worst": tocsin.Table(["file", "loss"], [["a.png", float(step)]])}, step=step)
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
