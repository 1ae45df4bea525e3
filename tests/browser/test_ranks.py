"""A distributed run: its ranks beside each other, and the system metrics in a section of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUN, ALONE = "r_ranked", "r_alone"
STEPS = 60


@pytest.fixture(scope="module")
def run(shared_tower: Any, script: Callable[[str], str]) -> str:
    """A run of three ranks, of which rank 1 is slower and ended at half of the steps."""
    with shared_tower.training(script("ranked"), RUN, str(STEPS)) as process:
        assert process.wait(120) == 0
    return RUN


def ranks(tab: Any) -> Any:
    """Return the section of the ranks."""
    return tab.page.locator('[data-section="ranks"]')


def system(tab: Any) -> Any:
    """Return the section of the system metrics."""
    return tab.page.locator('[data-section="sys"]')


def test_the_slowest_rank_and_the_one_behind_are_named(tab: Any) -> None:
    """In words, and in the table."""
    said = ranks(tab).get_by_role("status").filter(has_text="is the slowest")
    said.wait_for()
    expect(said).to_contain_text("Rank 1 is the slowest: 500 ms per step")
    expect(said).to_contain_text(f"Rank 1 is behind: step {STEPS // 2 - 1} of {STEPS - 1}.")
    cells = tab.page.locator('[data-rank="1"] td').all_inner_texts()
    assert cells[1] == str(STEPS // 2 - 1)
    assert cells[2] == "500 ms"


def test_the_spread_over_time_has_the_cross_line(tab: Any) -> None:
    """Largest less smallest step time: 0.3 s at the first step; it ends with the second rank's records."""
    panel = tab.page.locator('[data-series="spread:step_time"]')
    tab.point_at("spread:step_time", 10, 0.5, panel.locator(".hair"))
    first = "(plot) => plot.data.find((each) => each.mode.startsWith('lines') && !each.fill).y[0]"
    tab.until(lambda: panel.locator(".plot").evaluate(first), pytest.approx(0.3))


def test_a_vital_sign_that_the_run_lacks_is_said(tab: Any) -> None:
    """Also of the last one, which stays open because it has the axis of all."""
    for series in ("grad_norm", "lr"):
        expect(tab.page.locator(f'[data-series="{series}"]')).to_contain_text("not reported by this run")


def test_one_process_has_no_ranks(
    tab: Any, shared_tower: Any, script: Callable[[str], str], eventually_true: Callable[..., Any]
) -> None:
    """The section is absent."""
    with shared_tower.training(script("scripted"), "alone", ALONE, "0", "20") as process:
        assert process.wait(120) == 0
    tab.open_run(ALONE)
    tab.page.locator('[data-section="act"]').wait_for()
    assert ranks(tab).count() == 0


def test_system_metrics_are_collapsed_and_stay_open_once_opened(tab: Any) -> None:
    """In this browser, for every run; a link says so too."""
    head = system(tab).get_by_role("button", name="System")
    expect(head).to_have_attribute("aria-expanded", "false")
    head.click()
    system(tab).locator('[data-series="sys/gpu0/util_percent"]').wait_for()
    assert "open=sys" in tab.page.url
    tab.open_run(RUN)
    system(tab).locator('[data-series="sys/gpu0/memory_gib"]').wait_for()
    head.click()
    tab.open_run(RUN)
    system(tab).wait_for()
    expect(head).to_have_attribute("aria-expanded", "false")


def test_a_filter_opens_the_system_metrics_that_it_finds(tab: Any) -> None:
    """Without a click, and throughput is among them."""
    tab.page.get_by_label("Filter metrics by name").fill("sys/|step_time")
    system(tab).locator('[data-series="sys/rss_gib"]').wait_for()
    system(tab).get_by_role("heading", name="throughput, steps per second").wait_for()
