"""A comparison of many runs: one request, exact values, and live updates of the run that goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.crowd import crowd_of, values
from tests.conftest import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 120
LOSSES = """(runs) => {
    const rows = [...document.querySelectorAll("tr[data-run^=c_]")];
    const texts = rows.map((row) => row.querySelector("td.value").textContent);
    return texts.length === runs && texts.every((text) => /\\d/.test(text)) && texts;
}"""
DRAWN = """() => document.querySelector("[data-series=loss] .plot").data
    ?.reduce((sum, each) => sum + each.x.length, 0) ?? 0"""


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
    """Without a request for a single run, every row has the last recorded loss, to four figures."""
    page = visit(many).page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(many.base)))
    page.goto(many.base + address())
    texts = page.wait_for_function(LOSSES, arg=RUNS).json_value()
    for number, text in enumerate(texts):
        assert float(text.replace("−", "-")) == pytest.approx(values(number)["loss"][-1], rel=1e-3)
    page.wait_for_function(f"() => ({DRAWN})() > {RUNS} * 25")
    assert asked.count("/api/v1/compare") == 1
    assert not [url for url in asked if url.startswith(("/api/v1/runs/", "/api/v1/alerts?"))]


def test_a_run_that_goes_on_stays_live_among_ended_ones(
    many: Any, visit: Callable[..., Any], script: Callable[[str], str]
) -> None:
    """Its newest loss changes again and again."""
    page = visit(many).page
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
