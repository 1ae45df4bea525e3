"""The compare page with a sweep: groups, and what settings have to do with a metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.sweep import address, sweep_of
from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 24
LINES = """() => (document.querySelector('[data-series=loss] .plot')?.data ?? [])
    .filter((each) => each.mode.startsWith('lines') && !each.fill && each.opacity === 1)
    .map((each) => each.line.color)"""


@pytest.fixture(scope="module")
def sweep(tower_of_the_module: Any) -> Any:
    """A server with a sweep of 24 runs: four learning rates, two optimizers, three seeds."""
    sweep_of(tower_of_the_module, RUNS)
    return tower_of_the_module


@pytest.fixture
def tab(sweep: Any, visit: Callable[..., Any]) -> Any:
    """The comparison of all runs, grouped by learning rate, drawn."""
    tab = visit(sweep, None)
    tab.page.goto(f"{sweep.base}{address(RUNS)}&group=config.lr")
    tab.page.locator("tr[data-setting=lr]", has_text="24").wait_for()  # all runs are loaded
    tab.page.wait_for_function(f"() => ({LINES})().length === 4")
    return tab


def test_a_group_is_one_line_and_says_how_many_runs_are_behind_it(tab: Any) -> None:
    """At step 70 two of the six runs with a learning rate have ended, and the tooltip says so."""
    said = tab.page.locator(".tooltip .line", has_text="lr = 0.001").get_by_text("5 of 6 runs")
    tab.point_at("loss", 70, 0.5, said)


def test_diverged_runs_stay_marked(tab: Any) -> None:
    """Four of six runs with the largest learning rate are NaN: not in the mean, but marked and counted."""
    tab.page.locator('[data-series="loss"] .faults', has_text="NaN").wait_for()
    row = tab.page.locator("tr[data-group]", has_text="lr = 0.03")
    row.get_by_text("4 failed").wait_for()
    row.get_by_text("4 of 6 not finite").first.wait_for()


def test_groups_are_chosen_by_keyboard(tab: Any) -> None:
    """A second key makes more groups, and the address has both and the band."""
    tab.page.get_by_role("button", name="Group", exact=True).focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("menuitemcheckbox", name="optimizer").focus()
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function(f"() => ({LINES})().length === 8")
    tab.page.get_by_role("button", name="Min–max").press("Enter")
    tab.page.wait_for_url("**group=config.lr&group=config.optimizer&band=range*")


def test_hidden_runs_are_not_in_the_mean(tab: Any) -> None:
    """Hiding a run takes it out of its group."""
    tab.page.get_by_role("button", name="Hide sweep-000").click()
    tab.page.locator("tr[data-group]", has_text="lr = 0.0001").get_by_text("5 runs · 1 hidden").wait_for()


def test_the_table_names_what_matters_and_the_best_run(tab: Any) -> None:
    """The learning rate decides, the optimizer doesn't, and the best run is linked."""
    rows = tab.page.locator("tr[data-setting]")
    expect(rows.first).to_have_attribute("data-setting", "lr")
    expect(tab.page.locator("tr[data-setting=seed]")).to_contain_text("may be chance")
    assert tab.page.locator(".sweep p a").get_attribute("href").startswith("/runs/s_0")
    expect(tab.page.locator(".influence p")).to_contain_text("4 runs without a finite value count as worst")


def test_the_table_is_sorted_by_keyboard_and_saved(tab: Any) -> None:
    """Any column sorts it, and the CSV has every setting."""
    tab.page.locator("[data-column=key]").press("Enter")
    expect(tab.page.locator("tr[data-setting]").last).to_have_attribute("data-setting", "seed")
    assert tab.page.locator("th[aria-sort=ascending]").inner_text().startswith("Setting")
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="CSV").click()
    lines = download.value.path().read_text("utf-8").splitlines()
    assert [line.split(",")[0] for line in lines] == ["setting", "lr", "optimizer", "seed"]


def test_another_metric_is_chosen(tab: Any) -> None:
    """The address has metric and goal, and the best run changes."""
    tab.page.get_by_label("Metric", exact=True).select_option("grad_norm")
    tab.page.get_by_label("Value of the metric").select_option("max")
    tab.page.wait_for_url("**metric=grad_norm&goal=max*")
    tab.page.get_by_text("with grad_norm").wait_for()


def test_a_failed_best_run_is_marked(tab: Any) -> None:
    """Its loss was the largest before it became NaN; the best run is the best one that did not fail."""
    tab.page.get_by_label("Value of the metric").select_option("max")
    best = tab.page.locator(".sweep p").first
    expect(best).to_contain_text("Best run: sweep-021 with loss 1.477")
    expect(best).to_contain_text("better, but with a problem: sweep-023 with loss 1.491 failed")


def test_parallel_coordinates_select_runs_by_keyboard(tab: Any, eventually_true: Callable[..., Any]) -> None:
    """Every run is a line, diverged ones are marked, and the handles select runs to show alone."""
    lines = tab.page.locator(".parallel path[data-run]")
    eventually_true(lambda: lines.count() == RUNS, "a line for each run")
    tab.until(tab.page.locator(".parallel path.is-bad").count, 4)
    tab.page.get_by_role("slider", name="loss, highest").press("ArrowDown")
    tab.page.get_by_text("20 of 24 runs selected").wait_for()
    tab.page.get_by_role("button", name="Show only these").press("Enter")
    tab.page.wait_for_function("() => document.querySelectorAll('.comparetable tr.is-hidden').length === 4")
    assert tab.page.locator(".parallel path.is-bad").count() == 0


def test_what_is_drawn_for_a_size_may_change_sizes(tab: Any) -> None:
    """Only in the next frame: within the same one, the browser would report an error."""
    tab.page.add_init_script("addEventListener('error', ({ message }) => (window.failed = message))")
    tab.page.reload()
    tab.page.locator(".parallel path[data-run]").first.wait_for(state="attached")
    tab.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert tab.page.evaluate("() => window.failed ?? ''") == ""


def test_parallel_coordinates_select_runs_by_dragging(tab: Any) -> None:
    """A drag down to 0.0005 selects the two larger learning rates; a click ends it."""
    strip = tab.page.locator("[data-axis='lr'] .strip")
    strip.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
    box = strip.bounding_box()
    tab.page.mouse.move(box["x"] + 20, box["y"] + 5)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 20, box["y"] + 190, steps=4)
    tab.page.mouse.up()
    tab.page.get_by_text("12 of 24 runs selected").wait_for()
    tab.page.mouse.click(box["x"] + 20, box["y"] + 100)
    tab.page.get_by_text("Drag along an axis").wait_for()
