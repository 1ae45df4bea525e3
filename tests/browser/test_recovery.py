"""SIGKILL of the server during a training and SIGTERM, with a page open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
STEPS = 320


def test_a_killed_server_loses_no_step(
    tower: Any, visit: Callable[..., Any], run_of: Callable[..., str], script: Callable[[str], str]
) -> None:
    """After SIGKILL and restart no step is missing or duplicated, and the page continues automatically."""
    with tower.training(script("steady"), "survivor", str(STEPS), "40") as process:
        run = run_of(tower, "survivor")
        tab = visit(tower, None)
        tab.open_run(run)
        tab.until_step(60)
        tab.page.evaluate("window.neverReloaded = true")
        tower.kill()
        tab.page.locator(".offline").wait_for()
        tower.start()
        assert process.wait(300) == 0
    assert [record["step"] for record in tower.records(run)] == list(range(STEPS))
    tab.until_step(STEPS - 1)
    assert tab.page.evaluate("window.neverReloaded")


def test_an_open_page_does_not_hold_the_server(tower: Any, visit: Callable[..., Any]) -> None:
    """On SIGTERM its socket is closed, and the server ends before the limit ``shutdown_s``."""
    page = visit(tower).page
    with page.expect_websocket():
        page.goto(f"{tower.base}/alerts")
    page.locator("h1").first.wait_for()
    tower.stop()
    assert "graceful shutdown exceeded" not in tower.log.read_text("utf-8")


def test_a_page_that_did_not_load_opens_once_the_server_is_back(
    tower: Any, visit: Callable[..., Any]
) -> None:
    """By itself: its code was requested while the server was down."""
    page = visit(tower).page
    page.get_by_text("The server answers").wait_for()
    tower.kill()
    page.locator('a[href="/settings"]').first.click()
    page.get_by_role("heading", name="This page could not be loaded").wait_for()
    tower.start()
    page.get_by_role("heading", name="Settings", exact=True).wait_for()


@LONG
def test_the_checks_of_an_empty_fleet_follow_the_server(tower: Any, visit: Callable[..., Any]) -> None:
    """While the server is down, its check is not done; once it is back, it is."""
    page = visit(tower).page
    answers = page.get_by_text("The server answers")
    answers.wait_for()
    tower.kill()
    page.get_by_text("The server does not answer").wait_for()
    assert not answers.is_visible()
    tower.start()
    answers.wait_for()
