"""A run that ended with alerts stays red until it is acknowledged, and is never shown as resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
Train = Callable[[str, str], str]


@pytest.fixture
def train(
    shared_tower: Any, run_of: Callable[..., str], script: Callable[[str], str], eventually_true: Any
) -> Train:
    """``train("name", "crash")``: train until the process has ended; return the run's id."""

    def begin(name: str, how: str) -> str:
        with shared_tower.training(script("broken"), name, how) as process:
            process.wait(300)
        run = run_of(shared_tower, name)
        eventually_true(lambda: shared_tower.run_named(name)["ended_ms"], f"the end of {name}")
        return run

    return begin


def fleet_row(tab: Any, tower: Any, run: str) -> Any:
    tab.page.goto(f"{tower.base}/")
    return tab.page.locator(f'[data-run="{run}"]')


def test_a_run_that_finished_with_nan_is_red_until_acknowledged(
    shared_tower: Any, visit: Callable[..., Any], train: Train
) -> None:
    """In the fleet, on its page and in the inbox; then it is among the ended runs."""
    run, tab = train("finished-with-nan", "finish"), visit(shared_tower)
    row = fleet_row(tab, shared_tower, run)
    row.locator(".why", has_text="finished with problems: Loss has been non-finite").wait_for()
    assert "critical" in row.get_attribute("class")
    tab.open_run(run)
    tab.page.get_by_role("heading", name="Finished with problems").wait_for()
    tab.page.goto(f"{shared_tower.base}/alerts?q=run:finished-with-nan%20rule:nonfinite-loss")
    tab.page.get_by_text("Run ended", exact=True).first.wait_for()
    expect(tab.page.locator(".standing").first).to_contain_text("firing when the run ended")
    tab.page.get_by_role("heading", name="Last good checkpoint").wait_for()
    tab.page.locator("#pane").get_by_text("finished-with-nan.pt (step 20, 10 steps before").wait_for()
    tab.page.locator('[data-act="ack"]').first.click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    tab.page.get_by_text("acknowledged", exact=False).first.wait_for()
    row = fleet_row(tab, shared_tower, run)
    row.locator("xpath=self::*[contains(@class, 'ended')]").wait_for()


def test_a_crash_is_an_alert_within_five_seconds(
    shared_tower: Any, visit: Callable[..., Any], train: Train
) -> None:
    """The alert is open on the fleet; the inbox has the error, the last lines and the first action."""
    tab = visit(shared_tower)
    run = train("crashes", "crash")
    row = fleet_row(tab, shared_tower, run)
    row.locator(".why", has_text="crashed: RuntimeError: CUDA error").wait_for(timeout=5000)
    tab.page.goto(f"{shared_tower.base}/alerts?q=run:crashes")
    tab.page.locator("[role=option]", has_text="Run failed").first.click()
    pane = tab.page.locator("[data-alert].diag")
    pane.get_by_text("device-side assert triggered").first.wait_for()
    expect(pane.locator("pre").first).to_contain_text("broken.py")
    pane.get_by_text("Fix the error at the end of the traceback.").wait_for()


def test_a_run_that_ends_well_is_not_red(shared_tower: Any, visit: Callable[..., Any], train: Train) -> None:
    run, tab = train("ends-well", "nothing"), visit(shared_tower)
    fleet_row(tab, shared_tower, run).locator("xpath=self::*[contains(@class, 'ended')]").wait_for()


@LONG
def test_a_new_channel_receives_what_is_firing(
    shared_tower: Any, visit: Callable[..., Any], train: Train
) -> None:
    """The delivery page shows the message to a channel that was added after the alert fired."""
    train("before-the-channel", "crash")
    headers = {"authorization": f"Bearer {shared_tower.token}"}
    channel = {"name": "added-later", "kind": "browser", "config": {}}
    answer = httpx.post(f"{shared_tower.base}/api/v1/channels", json=channel, headers=headers, timeout=60)
    answer.raise_for_status()
    tab = visit(shared_tower, None)
    tab.page.goto(f"{shared_tower.base}/deliveries")
    tab.page.get_by_text("before-the-channel").first.wait_for()


@pytest.fixture
def climbing(
    shared_tower: Any, run_of: Callable[..., str], script: Callable[[str], str], eventually_true: Any
) -> Callable[[str], Any]:
    """``with climbing("how") as run``: train to the last step of a climbing loss; the process lives on."""

    @contextmanager
    def begin(how: str) -> Iterator[str]:
        with shared_tower.training(script("climbing"), how, how):
            run = run_of(shared_tower, how)
            eventually_true(lambda: shared_tower.run_named(how)["last_step"] == 599, f"the end of {how}", 120)
            yield run

    return begin


@LONG
def test_a_loss_that_stays_up_is_never_resolved(
    shared_tower: Any, visit: Callable[..., Any], climbing: Callable[[str], Any]
) -> None:
    """The spike keeps its highest loss and a divergence fires beside it, while the run goes on."""
    tab = visit(shared_tower)
    with climbing("stays") as run:
        row = fleet_row(tab, shared_tower, run)
        row.locator(".why", has_text="Loss").wait_for()
        tab.page.goto(f"{shared_tower.base}/alerts?state=all&q=run:stays")
        tab.page.locator("[role=option]", has_text="2 alerts").first.click()
        tab.page.get_by_role("heading", name="Alerts of this incident").wait_for()
        alerts = tab.page.locator(".pane .alertline").all_inner_texts()
    assert {"Loss spike loss", "Loss divergence loss"} <= {text.split("\n")[0].strip() for text in alerts}
    assert not any("esolved" in text for text in alerts)


@LONG
def test_a_divergence_that_lasts_is_critical(
    shared_tower: Any, visit: Callable[..., Any], climbing: Callable[[str], Any]
) -> None:
    tab = visit(shared_tower)
    with climbing("diverges") as run:
        fleet_row(tab, shared_tower, run)
        tab.page.goto(f"{shared_tower.base}/alerts?q=run:diverges%20rule:loss-divergence%20severity:critical")
        tab.page.locator("[role=option]", has_text="times its best").first.wait_for()


@LONG
def test_a_value_function_that_grows_is_not_red(
    shared_tower: Any, visit: Callable[..., Any], climbing: Callable[[str], Any]
) -> None:
    """Its loss rises to four times the first value, because its targets do."""
    tab = visit(shared_tower)
    with climbing("values") as run:
        row = fleet_row(tab, shared_tower, run)
        row.wait_for()
        assert "critical" not in row.get_attribute("class")
