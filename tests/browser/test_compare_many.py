"""A comparison of many runs: one request, exact values, and live updates of a run that still trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.crowd import crowd_of, values
from tests.conftest import wait_for
from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 120
LOSSES = """(runs) => {
    const rows = [...document.querySelectorAll("tr[data-run^=c_]")];
    const texts = rows.map((row) => row.querySelector("td.value").textContent);
    return texts.length === runs && texts.every((text) => /\\d/.test(text)) && texts;
}"""
DRAWN = """() => document.querySelector("[data-series=loss] .plot").data
    ?.reduce((sum, each) => sum + each.x.length, 0) ?? 0"""

DASHES = """(rows) => Object.fromEntries([...document.querySelectorAll(rows)].map((row) => [
    /run-\\d+/.exec(row.innerText)[0], row.querySelector(".stroke path").getAttribute("stroke-dasharray"),
]))"""
NAMED = "() => [...document.querySelectorAll('tr[data-run]')].every((row) => /run-\\d+/.test(row.innerText))"
START = "() => Number(document.querySelector('[data-series=loss] .plot').layout.xaxis.range[0])"
GROUP_LINES = """() => new Set((document.querySelector("[data-series=loss] .plot").data ?? [])
    .filter((each) => each.mode === "lines" && !each.fill && each.y.length > 10)
    .map((each) => each.line.color)).size"""


@pytest.fixture(scope="module")
def many(tower_of_the_module: Any) -> Any:
    """A server with 120 runs of eighty steps."""
    crowd_of(tower_of_the_module, RUNS)
    return tower_of_the_module


def address(also: str = "") -> str:
    """Return the address that compares all of them."""
    return "/compare?" + "&".join(f"run=c_{number:04}" for number in range(RUNS)) + also


def test_many_runs_are_one_request_and_their_last_values_are_exact(
    many: Any, visit: Callable[..., Any]
) -> None:
    """No run is requested alone, nor all runs; every row has the last recorded loss, to four figures."""
    page = visit(many, None).page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(many.base)))
    page.goto(many.base + address())
    texts = page.wait_for_function(LOSSES, arg=RUNS).json_value()
    for number, text in enumerate(texts):
        assert float(text.replace("−", "-")) == pytest.approx(values(number)["loss"][-1], rel=1e-3)
    page.wait_for_function(f"() => ({DRAWN})() > {RUNS} * 25")
    assert asked.count("/api/v1/compare") == 1
    assert not [url for url in asked if url.startswith(("/api/v1/runs", "/api/v1/alerts?"))]


def test_the_tooltip_shows_the_dash_of_a_line(many: Any, visit: Callable[..., Any]) -> None:
    """Of 20 runs, two have each color: each line in the tooltip looks like that in the table of runs."""
    tab = visit(many, None)
    tab.page.goto(f"{many.base}/compare?" + "&".join(f"run=c_{number:04}" for number in range(20)))
    tab.page.wait_for_function(LOSSES, arg=20)
    tab.point_at("loss", 30, 0.5, tab.page.locator(".tooltip .line").first)
    shown = tab.page.evaluate(DASHES, ".tooltip .line")
    assert set(shown.values()) == {None, "6,3"}
    assert shown.items() <= tab.page.evaluate(DASHES, "tr[data-run]").items()


def test_more_lines_than_styles_are_solid(many: Any, visit: Callable[..., Any]) -> None:
    """120 runs are drawn as one trace per color, and no line of the table is dashed."""
    page = visit(many, None).page
    page.goto(many.base + address())
    page.wait_for_function(LOSSES, arg=RUNS)
    page.wait_for_function(f"() => ({GROUP_LINES})() === 10")
    assert page.evaluate("() => document.querySelector('[data-series=loss] .plot').data.length") < 15
    page.wait_for_function(NAMED)
    assert set(page.evaluate(DASHES, "tr[data-run]").values()) == {None}


def test_a_run_that_goes_on_stays_live_among_ended_ones(
    many: Any, visit: Callable[..., Any], script: Callable[[str], str]
) -> None:
    """Its newest loss changes again and again."""
    page = visit(many, None).page
    with many.training(script("steady"), "alive", "100000", "20"):
        live = wait_for(lambda: many.run_named("alive"), "the run")
        page.goto(many.base + address(f"&run={live['id']}"))
        page.wait_for_function(LOSSES, arg=RUNS)
        value = page.locator(f"tr[data-run='{live['id']}'] td.value").first
        seen = {value.inner_text()}
        for _ in range(3):
            page.wait_for_function(
                "([run, seen]) => !seen.includes(document.querySelector("
                "`tr[data-run='${run}'] td.value`).textContent)",
                arg=[live["id"], sorted(seen)],
            )
            seen.add(value.inner_text())


def test_thousands_of_runs_are_one_line_per_group(tower: Any, visit: Callable[..., Any]) -> None:
    """Above a thousand runs, the groups are drawn and listed, also over times; no run has a line or a row."""
    crowd_of(tower, 1_010)
    page = visit(tower, None).page
    runs = "&".join(f"run=c_{number:04}" for number in range(1_010))
    page.goto(f"{tower.base}/compare?group=config.lr&{runs}")
    page.locator(".progressing", has_text="1\u202f010 runs").wait_for()
    rows = page.locator("[aria-label=Groups] tr[data-group]")
    rows.filter(has_text="±").nth(3).wait_for()
    page.locator(".progressing").wait_for(state="hidden")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("252 runs")
    page.wait_for_function(f"() => ({GROUP_LINES})() === 4")
    assert page.locator("tr[data-run]").count() == 0
    page.get_by_role("button", name="Min–max").click()
    page.wait_for_url("**band=range*")
    page.wait_for_function(f"() => ({GROUP_LINES})() === 4")
    page.locator('[data-x="wall"]').click()
    page.wait_for_function(f"() => ({START})() > 1e12 && ({GROUP_LINES})() === 4")
