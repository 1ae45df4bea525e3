"""The main use case: a real training collapses while the browser shows it and raises the alert."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(900)]
RUNS_BEYOND_MS = 600_000


@pytest.fixture(scope="module")
def collapsing(tower_of_the_module: Any, run_of: Callable[..., str]) -> Iterator[tuple[Any, str]]:
    """The demo's deblurring at full speed; the server and the run."""
    command = ["-m", "tocsin_server.demo.trainings.deblur", "--steps-per-s", "0"]
    with tower_of_the_module.training(*command):
        yield tower_of_the_module, run_of(tower_of_the_module, "restorer-fp16")


@pytest.fixture
def tab(collapsing: tuple[Any, str], visit: Callable[..., Any]) -> Any:
    """The run's page, opened before the collapse."""
    opened = visit(collapsing[0], None)
    opened.open_run(collapsing[1])
    opened.page.locator("[data-alert]", has_text="Scaler collapse").first.wait_for(timeout=RUNS_BEYOND_MS)
    return opened


def test_the_alert_shows_the_onset_of_the_collapse(tab: Any, collapsing: tuple[Any, str]) -> None:
    """The alert appears on the open page; its onset is within 20 steps of the first overflow."""
    tower, run = collapsing
    shown = tab.page.locator("[data-alert] button", has_text="Onset").first.inner_text()
    skipped = [r["step"] for r in tower.records(run) if r["values"].get("skipped") == 1.0]
    first_burst = min(step for step in skipped if step > 30)
    assert abs(int(re.sub(r"\D", "", shown)) - first_burst) <= 20


def test_non_finite_losses_are_drawn(tab: Any) -> None:
    """The non-finite losses are marked at the top of the loss chart and counted next to its title."""
    tab.page.locator('[data-series="loss"] .faults', has_text=re.compile("NaN|Inf")).wait_for()


def test_the_title_counts_open_incidents(tab: Any, collapsing: tuple[Any, str]) -> None:
    """The number before the title is the number of open incidents in the API."""
    firing = re.compile(r"^\((\d+)\) restorer-fp16")
    for _ in range(100):
        reported = firing.match(tab.page.title())
        if reported and int(reported[1]) == len(collapsing[0].get("/incidents", state="open")["items"]):
            return
        tab.page.wait_for_timeout(200)
    raise AssertionError(f"the title is {tab.page.title()!r}")
