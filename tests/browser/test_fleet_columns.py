"""Columns of the fleet that a user adds: any metric and setting, in any order and width, in the address."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.crowd import crowd_of, values
from tests.browser.test_accessibility import violations_of
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 30


@pytest.fixture(scope="module")
def crowded(tower_of_the_module: Any) -> Any:
    """A server with ended runs."""
    crowd_of(tower_of_the_module, RUNS)
    return tower_of_the_module


@pytest.fixture
def tab(crowded: Any, visit: Callable[..., Any]) -> Any:
    """Its fleet page with rows."""
    tab = visit(crowded)
    tab.page.locator("[data-run]").first.wait_for()
    return tab


def open_view(tab: Any, query: str) -> None:
    tab.page.goto(f"{tab.tower.base}/?group=none&{query}")
    tab.page.locator("[data-run]").first.wait_for()


def heads(tab: Any) -> list[str]:
    found: list[str] = tab.page.locator("[role=columnheader] button").all_inner_texts()
    return found


def first_cells(tab: Any) -> list[str]:
    """Return the texts of a user's columns in the first row."""
    found: list[str] = tab.page.locator("[data-run]").first.locator(".c-own b").all_inner_texts()
    return found


def test_a_metric_and_a_setting_become_columns(tab: Any) -> None:
    """Found by a part of the name; the values are exact, and the address keeps them."""
    tab.page.get_by_role("button", name="Columns").click()
    find = tab.page.get_by_label("Find a metric or setting")
    find.fill("grad")
    tab.page.get_by_role("button", name="Highest of grad_norm").click()
    find.fill("batch")
    tab.page.get_by_role("button", name="Value of config.batch_size").click()
    tab.page.get_by_role("button", name="Done").click()
    tab.page.reload()
    cell = tab.page.locator('[data-run="c_0005"] .c-own b')
    cell.nth(1).wait_for()  # settings and metrics arrive separately
    exact = max(values(5)["grad_norm"])
    assert re.match(r"[\d.]+", str(cell.nth(0).get_attribute("title")))[0] == repr(exact)  # type: ignore[index]
    assert cell.all_inner_texts() == [f"{exact:.4g}", "8"]


@LONG
def test_the_best_run_is_found_by_a_sort(tab: Any) -> None:
    """By the lowest loss, ascending at the first click."""
    open_view(tab, "columns=name,min:loss,config:lr")
    tab.page.locator('[data-sort="min:loss"]').click()
    best = min(range(RUNS), key=lambda number: min(v for v in values(number)["loss"] if v == v))
    first = tab.page.locator("[data-run]").first
    tab.until(lambda: first.get_attribute("data-run"), f"c_{best:04}")
    rate = repr(10.0 ** -(2 + best % 4)).replace("1e-05", "1e-5")
    tab.until(lambda: first.locator(".c-own b").all_inner_texts()[1:2], [rate])


@LONG
def test_columns_are_moved_by_drag_and_by_keyboard(tab: Any) -> None:
    """The cells follow their heads."""
    open_view(tab, "columns=name,step,min:loss,max:loss")
    tab.page.locator('[data-sort="max:loss"]').drag_to(tab.page.locator('[data-sort="step"]'))
    tab.until(lambda: heads(tab), ["Run", "loss max", "Step", "loss min"])
    tab.page.get_by_role("button", name="Columns").click()
    tab.page.get_by_role("button", name="Move loss min left").press("Enter")
    tab.until(lambda: heads(tab), ["Run", "loss max", "loss min", "Step"])
    columns = ["name,max:loss,min:loss,step"]
    tab.until(lambda: parse_qs(urlsplit(tab.page.url).query).get("columns"), columns)


@LONG
def test_a_column_is_resized_and_the_width_stays(tab: Any) -> None:
    """By drag and by arrow keys; the cells have the same width."""
    open_view(tab, "columns=name,min:loss")
    grip = tab.page.get_by_label("Width of loss min")
    box = grip.bounding_box()
    tab.page.mouse.move(box["x"] + 5, box["y"] + 10)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 65, box["y"] + 10, steps=4)
    tab.page.mouse.up()
    grip.press("ArrowRight")
    tab.page.reload()
    tab.page.locator("[data-run] .c-own b").first.wait_for()
    for cell in ('[data-column="min:loss"]', "[data-run] .c-own"):
        width = tab.page.locator(cell).first.bounding_box()["width"]
        assert width == pytest.approx(112 + 70, abs=2)


@LONG
def test_many_columns_are_not_cut_off(tab: Any) -> None:
    """The page scrolls to the last one."""
    metrics = [f"{kind}:{name}" for kind in ("last", "min", "max") for name in ("loss", "grad_norm", "lr")]
    open_view(tab, f"columns=name,loss,grad_norm,scale,lr,{','.join(metrics)}")
    last = tab.page.locator('[data-column="max:lr"]')
    last.scroll_into_view_if_needed()
    edge = tab.page.locator(".fleet").bounding_box()
    box = last.bounding_box()
    assert box["x"] + box["width"] <= edge["x"] + edge["width"]
    assert tab.page.evaluate("scrollX") > 0


@LONG
def test_on_a_phone_the_columns_stand_in_the_card(tab: Any) -> None:
    """With their names, below the other values, and no row covers the next."""
    tab.page.set_viewport_size({"width": 390, "height": 844})
    open_view(tab, "columns=name,loss,min:loss,max:loss,last:lr,config:seed")
    row = tab.page.locator("[data-run]").first
    row.locator(".c-own b").nth(3).wait_for()
    expect(row.locator(".c-own .micro").first).to_have_text("loss min")
    below = row.locator(".c-own b").nth(3).bounding_box()
    box = row.bounding_box()
    assert below["y"] + below["height"] <= box["y"] + box["height"]


@LONG
def test_the_mean_of_the_last_values_is_a_column_a_filter_and_a_file(tab: Any, tmp_path: Path) -> None:
    """Exact in each, and the file has the listed runs in their order."""
    tab.page.get_by_role("button", name="Columns").click()
    tab.page.get_by_label("Find a metric or setting").fill("grad")
    tab.page.get_by_label("Mean of last").fill("7")
    tab.page.get_by_role("button", name="Mean of 7 of grad_norm").click()
    tab.page.get_by_role("button", name="Done").click()
    tab.page.locator('[data-sort="mean7:grad_norm"]').click()
    means = {f"c_{n:04}": sum(values(n)["grad_norm"][-7:]) / 7 for n in range(RUNS)}
    limit = sorted(means.values())[3]
    tab.page.get_by_label("Filter runs").fill(f"-name:live mean7(grad_norm)<{limit!r}")
    tab.page.get_by_text(re.compile(r"^3 of \d+ runs")).wait_for()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="CSV").click()
    download.value.save_as(tmp_path / "runs.csv")
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    best = sorted(means, key=means.__getitem__)[:3]
    assert [row["id"] for row in rows] == best
    assert [float(row["grad_norm mean 7"]) for row in rows] == pytest.approx([means[run] for run in best])


def test_a_value_that_is_not_loaded_is_not_called_missing(tab: Any) -> None:
    """It has another mark until the server's answer has come."""
    held: list[Any] = []
    asks = re.compile(r"/runs\?.*metrics=")
    tab.page.route(asks, lambda route: held.append(route))
    open_view(tab, "columns=name,last:loss,last:gone")
    tab.page.locator("[data-run] .c-own [aria-label=loading]").first.wait_for()
    tab.page.route(asks, lambda route: route.continue_())
    for route in held:
        route.continue_()
    tab.page.locator("[data-run] .c-own b").first.wait_for()
    tab.until(lambda: tab.page.locator("[aria-label=loading]").count(), 0)


@LONG
def test_a_name_that_does_not_exist_is_said(tab: Any) -> None:
    tab.page.get_by_role("button", name="Columns").click()
    tab.page.get_by_label("Find a metric or setting").fill("nonsense")
    tab.page.get_by_text("No metric or setting contains “nonsense”.").wait_for()


@LONG
def test_a_metric_follows_a_live_run(tab: Any, script: Callable[[str], str]) -> None:
    """The newest value changes while the run trains, without a reload."""
    with tab.tower.training(script("steady"), "live", "4000", "50"):
        open_view(tab, "columns=name,last:loss&q=live")
        cell = tab.page.locator("[data-run] .c-own b")
        cell.wait_for()
        before = cell.inner_text()
        tab.page.wait_for_function(
            "(before) => { const text = document.querySelector('[data-run] .c-own b')?.textContent;"
            " return text && text !== before; }",
            arg=before,
        )


@LONG
def test_a_sparkline_follows_a_live_run(tab: Any, script: Callable[[str], str]) -> None:
    """The sparklines of a visible run are loaded again while it trains, without a reload."""
    drawn = "document.querySelector('[data-run] .spark path')?.getAttribute('d')"
    with tab.tower.training(script("steady"), "live", "4000", "50"):
        open_view(tab, "q=live")
        before = tab.page.wait_for_function(f"() => {drawn}").json_value()
        tab.page.wait_for_function(
            f"(before) => {{ const now = {drawn}; return now && now !== before; }}", arg=before
        )


@LONG
def test_a_filter_by_a_metric(tab: Any) -> None:
    """By its lowest value, without a column of it; an unknown metric is marked."""
    least = {number: min(v for v in values(number)["loss"] if v == v) for number in range(RUNS)}
    limit = sorted(least.values())[4]
    field = tab.page.get_by_label("Filter runs")
    field.fill(f"-name:live min(loss)<{limit!r} max(grad_norm)>0")
    tab.page.get_by_text(re.compile(r"^4 of \d+ runs")).wait_for()
    assert tab.page.locator(".misread").is_hidden()
    field.fill("min(los)<1")
    tab.page.locator(".misread mark", has_text="min(los)<1").wait_for()


@LONG
def test_axe_finds_nothing_in_columns_and_their_dialog(tab: Any) -> None:
    """The table with a user's columns, the dialog, and the menu of views."""
    open_view(tab, "columns=name,min:loss,config:lr")
    tab.page.locator("[data-run] .c-own b").first.wait_for()
    found = violations_of(tab)
    tab.page.get_by_role("button", name="Views").click()
    found += violations_of(tab)
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("button", name="Columns").click()
    tab.page.get_by_role("button", name="Highest of grad_norm").wait_for()
    assert [*found, *violations_of(tab)] == []
