"""SIGKILL of the server during a training, with a page open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
STEPS = 320


def test_a_killed_server_loses_no_step(
    tower: Any, visit: Callable[..., Any], run_of: Callable[..., str], script: Callable[[str], str]
) -> None:
    """After SIGKILL and restart no step is missing or duplicated, and the page continues automatically."""
    with tower.training(script("steady"), "survivor", str(STEPS), "40") as process:
        run = run_of(tower, "survivor")
        tab = visit(tower)
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
