"""The server's disk gets full during a training, with a page open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG
from tests.small_disk import fill

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
STEPS = 200


@LONG
def test_the_page_says_that_the_disk_is_full(
    tower_on_small_disk: Any,
    visit: Callable[..., Any],
    run_of: Callable[..., str],
    script: Callable[[str], str],
) -> None:
    """The page shows the database's message during the outage, and all steps of the training arrive."""
    tower = tower_on_small_disk
    with tower.training(script("steady"), "roomless", str(STEPS), "20") as process:
        run = run_of(tower, "roomless")
        tab = visit(tower, None)
        tab.open_run(run)
        ballast = fill(tower.directory)
        notice = tab.page.locator(".storing", has_text="full")
        notice.wait_for()
        expect(notice).to_contain_text("cannot store new records")
        ballast.unlink()
        notice.wait_for(state="hidden")
        assert process.wait(300) == 0
    losses = [record["step"] for record in tower.records(run) if "loss" in record["values"]]
    assert losses == list(range(STEPS))
