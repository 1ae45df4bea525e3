"""Charts are sketched while plotly.js loads, where it draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import PATIENCE_MS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
TRAINING = """
import math, tocsin
run = tocsin.watch("browser", name="sketched", resume="r_sketched", patch=False, exit_timeout=60)
for step in range(50):
    run.step(loss=1 / (1 + step) if step < 40 else math.nan, step=step, grad_norm=2.0 + step % 7, lr=0.1)
run.finish()
"""
PLOTLY = "**/plotly-*.min.js"
CHART = '[data-series="{}"] .plot'
BOX = """(node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return [x, y, x + width, y + height];
}"""
SKETCHED = ".sketch svg path[fill=none][stroke-linejoin]"
DRAWN = ".scatterlayer .js-line"


@pytest.fixture(scope="module")
def sketched(shared_tower: Any) -> Any:
    """A server with a run whose loss becomes NaN."""
    with shared_tower.training("-c", TRAINING) as process:
        assert process.wait(120) == 0
    return shared_tower


@pytest.fixture
def page(sketched: Any, chromium: Browser) -> Iterator[Page]:
    """A tab in a new profile: the other tests' may have plotly.js in its memory, and then requests none."""
    profile = chromium.new_context(viewport={"width": 1440, "height": 1200})
    profile.set_default_timeout(PATIENCE_MS)
    profile.request.get(sketched.login)
    yield profile.new_page()
    profile.unroute_all(behavior="ignoreErrors")
    profile.close()


@pytest.fixture
def load_plotly(sketched: Any, page: Page) -> Callable[[], None]:
    """Open the page of the run; plotly.js loads when this is called, and has then drawn the charts."""
    held: list[Route] = []
    free = False
    page.route(PLOTLY, lambda route: route.continue_() if free else held.append(route))
    page.goto(f"{sketched.base}/runs/r_sketched")

    def release() -> None:
        nonlocal free
        free = True
        for route in held:
            route.continue_()
        page.locator(CHART.format("lr")).locator(".xy").first.wait_for()

    return release


def test_a_chart_is_seen_before_plotly_has_loaded(page: Page, load_plotly: Callable[[], None]) -> None:
    expect(page.locator(CHART.format("loss")).locator(SKETCHED)).to_be_visible()
    expect(page.locator(CHART.format("loss")).locator(".sketch")).to_contain_text("⊗")


@pytest.mark.parametrize("series", ["loss", "grad_norm"])
def test_plotly_draws_lines_where_they_were_sketched(
    series: str, page: Page, load_plotly: Callable[[], None]
) -> None:
    """Within a pixel, on a linear and on a logarithmic axis; nothing of the sketch stays."""
    chart = page.locator(CHART.format(series))
    line = chart.locator(SKETCHED)
    line.wait_for()
    page.evaluate("document.fonts.ready")
    before = line.evaluate(BOX)
    load_plotly()
    chart.locator(DRAWN).last.wait_for(state="attached")
    assert chart.locator(DRAWN).last.evaluate(BOX) == pytest.approx(before, abs=1)
    assert chart.locator(".sketch").count() == 0


def test_sketches_stay_if_plotly_does_not_load(sketched: Any, page: Page) -> None:
    page.route(PLOTLY, lambda route: route.abort())
    held: list[Route] = []
    page.route("**/api/v1/runs/r_sketched?*", lambda route: held.append(route))
    page.goto(f"{sketched.base}/runs/r_sketched")
    reason = page.get_by_role("status").filter(has_text="plotly.js")
    expect(reason).to_be_visible()
    for details in held:
        details.continue_()
    page.get_by_role("tab").first.wait_for()
    expect(reason).to_be_visible()
    expect(page.locator(CHART.format("loss")).locator(SKETCHED)).to_be_visible()
