"""Charts of the compared runs: scatter, bars and histogram, added on the compare page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.sweep import address, sweep_of
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 24
SCATTER = "scatter:config.lr\nlast(loss)"


@pytest.fixture(scope="module")
def sweep(tower_of_the_module: Any) -> Any:
    """A server with a sweep of 24 runs; the loss of four of them becomes NaN."""
    sweep_of(tower_of_the_module, RUNS)
    return tower_of_the_module


@pytest.fixture
def compare(sweep: Any, visit: Callable[..., Any]) -> Callable[..., Any]:
    """``compare("bar:loss", ...)``: return the page that compares all runs, with these charts."""

    def opened(*charts: str) -> Any:
        page = visit(sweep, None).page
        page.goto(f"{sweep.base}{address(RUNS)}" + "".join(f"&chart={quote(each)}" for each in charts))
        page.locator("tr[data-setting=lr]", has_text="24").wait_for()  # all runs are loaded
        return page

    return opened


def words(page: Any, text: str) -> None:
    """Wait until a chart says so."""
    page.locator(".runchart-words", has_text=text).wait_for()


@LONG
def test_a_scatter_chart_is_added_and_shared_by_its_link(compare: Callable[..., Any]) -> None:
    """Each finite run is a point; runs of NaN are counted; the address has the chart."""
    page = compare()
    page.get_by_role("region", name="Charts of runs").get_by_role("button", name="Add chart").click()
    dialog = page.get_by_role("dialog", name="Add chart of runs")
    dialog.get_by_label("X axis").fill("config.lr")
    dialog.get_by_label("Y axis").fill("loss")
    dialog.get_by_role("button", name="Add").click()
    words(page, "20 runs")
    words(page, "4 runs without a finite value")
    expect(page.locator(".runchart circle")).to_have_count(RUNS - 4)
    assert f"chart={quote(SCATTER)}" in page.url


@LONG
def test_a_point_names_its_run_and_values(compare: Callable[..., Any]) -> None:
    """After a click, below the chart, with a link."""
    page = compare(SCATTER)
    words(page, "20 runs")
    page.locator('circle[data-run="s_005"]').dispatch_event("click")
    named = page.locator("[data-chart] p", has=page.get_by_role("link", name="sweep-005"))
    expect(named).to_contain_text("0.0003")


def test_bars_are_by_value_with_nan_last(compare: Callable[..., Any], sweep: Any) -> None:
    """Of every visible run; the best is the one that the server knows."""
    page = compare("bar:last(loss)")
    words(page, "24 runs")
    bars = page.locator(".runbars li")
    expect(bars.last.locator("b")).to_have_text("NaN")
    rows = sweep.get("/runs", metrics="loss")["items"]
    finite = [row for row in rows if isinstance(row["metrics"]["loss"]["last"], float)]
    best = min(finite, key=lambda row: row["metrics"]["loss"]["last"])
    expect(bars.first).to_have_attribute("data-run", best["id"])
    page.get_by_role("button", name=f"Hide {best['name']}").click()
    words(page, "23 runs")


@LONG
def test_a_histogram_counts_every_finite_run(compare: Callable[..., Any]) -> None:
    """A bin names its runs."""
    page = compare("histogram:last(loss)")
    words(page, "20 runs")
    counts = page.locator(".runchart rect title").all_text_contents()
    assert sum(int(text.split()[0]) for text in counts) == RUNS - 4
    fullest = max(range(len(counts)), key=lambda i: int(counts[i].split()[0]))
    page.locator(".runchart rect").nth(fullest).dispatch_event("click")
    page.locator("[data-chart] p a").first.wait_for()


@LONG
def test_values_are_a_table(compare: Callable[..., Any]) -> None:
    """For each run, from the menu of the chart."""
    page = compare(SCATTER)
    words(page, "20 runs")
    page.locator("[data-chart] .menubutton").click()
    page.get_by_role("menuitem", name="Show values").click()
    dialog = page.get_by_role("dialog", name="Values of last(loss) by config.lr")
    row = dialog.get_by_role("row", name="sweep-010")
    assert row.get_by_role("cell").all_inner_texts()[1:] == ["0.03", "NaN"]
    expect(dialog.get_by_role("row")).to_have_count(RUNS + 1)
