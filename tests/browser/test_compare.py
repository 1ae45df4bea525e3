"""The compare page: overlaid runs, their differences, and names shown as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = ("r_left", "r_right")
HOSTILE = "<img src=x onerror=alert(1)>\u202e\"'"
INKS = """() => document.querySelector('[data-series=loss] .plot').data
    .filter((each) => each.mode === 'lines' && !each.fill).map((each) => each.line.color)"""

VALUES = """() => [...document.querySelector('[data-series=loss] .plot').data
    .find((each) => each.mode === 'lines' && !each.fill).y].map((each) => (isFinite(each) ? each : null))"""


LINES = """() => {
    const lines = document.querySelector('[data-series=loss] .plot').data
        .filter((each) => each.mode === 'lines' && !each.fill).map((each) => [...each.y]);
    return [lines.slice(0, 2), lines.slice(2)];
}"""


@pytest.fixture(scope="module")
def pair(shared_tower: Any, script: Callable[[str], str]) -> str:
    """Two runs of forty steps, 0.01 apart in loss; the address that compares them."""
    for seed, (run, name) in enumerate(zip(RUNS, ("left", HOSTILE), strict=True)):
        with shared_tower.training(script("scripted"), name, run, "0", "40", str(seed)) as process:
            assert process.wait(120) == 0
    return "/compare?run=r_left&run=r_right"


@pytest.fixture
def tab(pair: str, shared_tower: Any, visit: Callable[..., Any]) -> Any:
    """That comparison, drawn."""
    tab = visit(shared_tower, None)
    tab.page.goto(shared_tower.base + pair)
    tab.page.wait_for_function(
        f"() => document.querySelector('[data-series=loss] .xy') && ({INKS})().length === 2"
    )
    return tab


def test_each_run_keeps_its_color(tab: Any) -> None:
    """After the first run is hidden and removed, the second keeps its color."""
    first, second = tab.page.evaluate(INKS)
    assert first != second
    tab.page.get_by_role("button", name="Hide left").click()
    tab.page.wait_for_function(f"() => ({INKS})().length === 1")
    tab.until(lambda: tab.page.evaluate(INKS), [second])
    tab.page.get_by_role("button", name="Remove left").click()
    tab.page.wait_for_url("**slots=1*")
    assert tab.page.evaluate(INKS) == [second]


def test_the_difference_to_the_baseline(tab: Any) -> None:
    """The second run is 0.01 above the first, and its three non-finite values stay marked."""
    tab.page.get_by_role("button", name="Difference to baseline").click()
    script = f"() => ({INKS})().length === 1"
    tab.page.wait_for_function(script)
    drawn = [value for value in tab.page.evaluate(VALUES) if value is not None]
    assert drawn == pytest.approx([0.01] * len(drawn))
    tab.page.locator('[data-series="loss"] .faults', has_text="NaN").wait_for()


@LONG
def test_runs_are_smoothed_as_on_the_run_page(tab: Any) -> None:
    """By kind and number: a running mean of three points, of values that differ from point to point."""
    tab.page.get_by_label("Kind of average").select_option("mean")
    tab.page.get_by_label("Points").fill("3")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**smooth=3*smoothing=mean*")
    tab.page.wait_for_function(f"() => ({INKS})().length === 4")  # each with its raw line
    raw = tab.page.evaluate(LINES)[0][0]
    tab.until(lambda: tab.page.evaluate(LINES)[0][1][1], pytest.approx(sum(raw[:3]) / 3))


@LONG
def test_labels_beside_an_axis_do_not_overlap(tab: Any) -> None:
    """The label of the NaN and Inf marks is above the highest number of the axis."""
    loss = tab.page.locator('[data-series="loss"]').first
    marks = loss.locator(".annotation-text")
    expect(marks).to_have_text("NaN/Inf")
    tops = [tick.bounding_box()["y"] for tick in loss.locator(".ytick text").all()]
    label = marks.bounding_box()
    assert tops
    assert label["y"] + label["height"] <= min(tops)


@LONG
def test_runs_of_one_step_are_dots_at_it(shared_tower: Any, script: Callable[[str], str], tab: Any) -> None:
    """The axis has room on both sides of the only step."""
    with shared_tower.training(script("scripted"), "single", "r_single", "5", "1") as process:
        assert process.wait(120) == 0
    tab.page.goto(f"{shared_tower.base}/compare?run=r_single")
    drawn = "document.querySelector('[data-series=loss] .plot').data"
    dots = f"() => {drawn}.map((each) => [each.mode, ...each.x])"
    tab.until(lambda: tab.page.evaluate(dots), [["markers", 5]])
    assert tab.shown_range() == [4, 6]


def test_a_series_that_no_run_reports_shows_only_its_head(shared_tower: Any, tab: Any) -> None:
    """The lowest chart that is left has the axis, at which the cross line finds its values."""
    logged = "import tocsin; run = tocsin.watch('p', name='plain', resume='r_plain', console=False)"
    with shared_tower.training("-c", f"{logged}; [run.log(loss=1.0, step=k) for k in range(9)]") as process:
        assert process.wait(120) == 0
    tab.page.goto(f"{shared_tower.base}/compare?run=r_plain")
    heads = tab.page.locator(".vitals .panel", has_text="not reported by these runs")
    expect(heads).to_have_count(3)
    expect(heads.locator(".plot:visible")).to_have_count(0)
    expect(tab.page.locator("[data-series=loss] .xtick").first).to_be_visible()


def test_only_settings_that_differ_are_listed(tab: Any) -> None:
    """The learning rate differs, the batch size does not, and a hostile key is text."""
    table = tab.page.get_by_label("Settings that differ")
    table.get_by_text("lr", exact=True).wait_for()
    assert table.get_by_text("batch_size").count() == 0
    tab.page.get_by_role("button", name="Show equal settings").click()
    table.get_by_text("<b>key</b>").wait_for()
    assert tab.page.locator("main img, main table b").count() == 0


@LONG
@pytest.mark.parametrize("align", represented(["relative", "tokens"]))
def test_runs_are_aligned(align: str, tab: Any) -> None:
    """Aligned by time and by tokens, both are drawn, and the address has the alignment."""
    tab.page.locator(f'[data-x="{align}"]').click()
    tab.page.wait_for_url(f"**x={align}*")
    tab.page.wait_for_function(f"() => ({INKS})().length === 2")


@LONG
@pytest.mark.parametrize("align", represented(["step", "relative", "tokens"]))
def test_a_zoom_asks_for_finer_buckets(align: str, tab: Any) -> None:
    """In each alignment, the visible window is requested by the steps of each run."""
    tab.page.locator(f'[data-x="{align}"]').click()
    tab.page.wait_for_function(f"() => ({INKS})().length === 2")
    box = tab.page.locator('[data-series="loss"] .nsewdrag').first.bounding_box()
    tab.page.mouse.move(box["x"] + 200, box["y"] + 40)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 500, box["y"] + 40, steps=5)
    with tab.page.expect_response(lambda answer: answer.url.endswith("/compare")) as zoomed:
        tab.page.mouse.up()
    tab.page.wait_for_url("**from=*")
    tab.page.wait_for_function(f"() => ({INKS})().length === 2")
    asked = zoomed.value.request.post_data_json["runs"]
    assert [run["id"] for run in asked] == list(RUNS)
    assert all(0 <= run["from"] <= run["to"] for run in asked)


@LONG
def test_a_run_is_added_by_its_name(tab: Any, shared_tower: Any) -> None:
    """A run is added by keyboard to an empty comparison."""
    tab.page.goto(f"{shared_tower.base}/compare")
    tab.page.get_by_text("No runs selected").wait_for()
    tab.page.get_by_label("Add a run").focus()
    tab.page.wait_for_function("() => document.querySelectorAll('#all-runs option').length > 1")
    tab.page.get_by_label("Add a run").fill("left")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**run=r_left*")


@LONG
def test_hovering_highlights_a_run_without_redrawing_the_chart(tab: Any) -> None:
    """A run is highlighted by its row or its line. Runs without a line dim no other run."""
    lifted = tab.page.locator('[data-series="loss"] .lift path')
    tab.page.evaluate("() => { document.querySelector('[data-series=loss] .scatterlayer').old = true; }")
    tab.page.locator("tr[data-run=r_right] th").hover()
    lifted.wait_for(state="attached")
    tab.page.mouse.move(*tab.place("loss", 20, 0.5))
    tab.page.get_by_role("button", name="Hide left").focus()
    tab.page.locator("tr[data-run=r_left].is-lit").wait_for()
    expect(tab.page.locator(".cross span")).to_contain_text("left")
    tab.page.keyboard.press("Enter")
    lifted.wait_for(state="detached")
    tab.page.keyboard.press("Enter")
    lifted.wait_for(state="attached")
    tab.page.get_by_role("button", name="Difference to baseline").click()
    tab.page.locator("tr[data-run=r_left] th").hover()
    tab.page.locator("tr[data-run=r_left].is-lit").wait_for()
    lifted.wait_for(state="detached")
    assert tab.page.evaluate("() => document.querySelector('[data-series=loss] .scatterlayer').old")


def test_a_tooltip_lists_the_values_at_the_pointer(tab: Any) -> None:
    """The step, then both runs, the nearer line first; a name is text; it leaves with the pointer."""
    box = tab.page.locator('[data-series="loss"] .plot').bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 30)
    tooltip = tab.page.locator(".tooltip")
    tooltip.wait_for()
    assert tooltip.locator(".micro").first.inner_text().startswith("step ")
    names = [HOSTILE.replace("\u202e", ""), "left"]
    assert sorted(name.replace("\u202e", "") for name in tooltip.locator(".clip").all_inner_texts()) == names
    assert re.search(r": .*\d:\d\d:\d\d", tooltip.locator(".note").inner_text())
    values = [float(text) for text in tooltip.locator("b").all_inner_texts()]
    assert abs(values[0] - values[1]) == pytest.approx(0.01, abs=1e-3)
    tab.page.mouse.move(box["x"] + box["width"] / 2, 2)
    tooltip.wait_for(state="hidden")


@LONG
def test_a_click_pins_the_tooltip_and_its_button_releases_it(tab: Any) -> None:
    """The values of both runs stay when the pointer leaves."""
    tooltip = tab.page.locator(".tooltip", has_text="step 20")
    tab.point_at("loss", 20, 0.5, tooltip)
    tab.page.mouse.down()
    tab.page.mouse.up()
    tab.page.wait_for_url("**at=20*")
    tab.page.mouse.move(2, 2)
    tab.until(tooltip.locator(".line").count, 2)
    tooltip.get_by_title("Release (Esc)").click()
    tooltip.wait_for(state="hidden")
    assert "at=" not in tab.page.url


@LONG
@pytest.mark.parametrize("width", [390, 1440])
def test_a_long_name_at_the_crosshair_does_not_widen_the_page(
    width: int, tab: Any, shared_tower: Any, eventually_true: Callable[..., Any]
) -> None:
    """Also at the right edge of the chart."""
    tab.page.set_viewport_size({"width": width, "height": 900})
    rename = """(name) => fetch("/api/v1/runs/r_left", { method: "PATCH", body: JSON.stringify({ name }),
        headers: { "content-type": "application/json" } })"""
    tab.page.evaluate(rename, "L" * 200)
    try:
        tab.page.reload()
        tab.page.get_by_role("button", name="Hide LLL").wait_for()
        tab.page.wait_for_function("() => document.querySelector('[data-series=loss] .xy')")
        cross = tab.page.locator(".cross span", has_text="LLL")

        def pointed() -> bool:  # a chart that is drawn again loses the pointer
            for height in (0.08, 0.085):  # just below the line of this run, which is the lower one
                tab.page.mouse.move(*tab.place("loss", 38.9, height))
            return bool(cross.is_visible())

        eventually_true(pointed, "the name at the crosshair")
        assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= width
    finally:
        tab.page.evaluate(rename, "left")


@LONG
def test_only_the_changed_row_is_redrawn(tab: Any) -> None:
    """Hiding one run leaves the other's row, and the focus stays."""
    for run in RUNS:  # the rows are complete with their alerts
        tab.page.locator(f"tr[data-run={run}] .alertsum").wait_for()
    tab.page.evaluate("() => document.querySelectorAll('tr[data-run]').forEach((row) => { row.old = true; })")
    tab.page.get_by_role("button", name="Hide left").focus()
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("button", name="Show left").wait_for()
    olds = "() => [...document.querySelectorAll('tr[data-run]')].map((row) => Boolean(row.old))"
    assert tab.page.evaluate(olds) == [False, True]
    tab.until(lambda: tab.page.evaluate("() => document.activeElement.ariaLabel"), "Show left")


@LONG
def test_removing_a_run_by_keyboard_focuses_the_next(tab: Any) -> None:
    """The focus moves so that several runs can be removed one after another."""
    tab.page.get_by_role("button", name="Remove left").focus()
    tab.page.keyboard.press("Enter")
    tab.page.locator("tr[data-run=r_left]").wait_for(state="detached")
    tab.until(lambda: tab.page.evaluate("() => document.activeElement.dataset.act"), "drop r_right")


@LONG
def test_charts_say_that_every_run_is_hidden(tab: Any) -> None:
    """The chart says that all runs are hidden, not that there are no values."""
    for name in ("left", HOSTILE):
        tab.page.get_by_role("button", name=f"Hide {name}").click()
    tab.page.locator('[data-series="loss"] .plot.is-empty').wait_for()
    script = "() => getComputedStyle(document.querySelector('[data-series=loss] .plot'), '::after').content"
    tab.until(lambda: tab.page.evaluate(script), '"every run is hidden"')


@LONG
def test_an_address_with_a_thousand_runs_opens_completely(tab: Any, pair: str, shared_tower: Any) -> None:
    """The long address works unchanged; the page writes it behind a #, which the skip link preserves."""
    others = "&".join(f"run=r_not_there_{number:016}" for number in range(998))
    tab.page.goto(f"{shared_tower.base}{pair}&{others}")
    tab.page.wait_for_function("() => document.querySelectorAll('tr[data-run]').length === 1000")
    tab.page.get_by_role("button", name="Hide left").click()
    tab.page.wait_for_function("() => location.hash.startsWith('#?run=r_left') && !location.search")
    tab.page.reload()
    tab.page.wait_for_function("() => document.querySelectorAll('tr[data-run]').length === 1000")
    tab.page.locator("a.skip").focus()
    tab.page.keyboard.press("Enter")
    place = "() => document.activeElement.id + location.hash.slice(0, 5)"
    tab.until(lambda: tab.page.evaluate(place), "main#?run")
