"""The page of a run while real trainings report: new steps, zoom, non-finite values, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
NAN_ROW = 0.94
"""Height of the rail's row of NaN marks, as a share of the chart."""


def test_new_steps_come_by_themselves_and_zoom_is_kept(
    shared_tower: Any, visit: Callable[..., Any], run_of: Callable[..., str], script: Callable[[str], str]
) -> None:
    """The page follows a training, and a selected window stays."""
    with shared_tower.training(script("steady"), "follow me", "3000", "50"):
        tab = visit(shared_tower)
        tab.open_run(run_of(shared_tower, "follow me"), "?from=5&to=25")
        seen = tab.step()
        tab.until_step(seen + 100)
        assert tab.shown_range() == pytest.approx([5, 25])
        assert "from=5&to=25" in tab.page.url


def test_the_whole_run_grows_where_nobody_zoomed(
    shared_tower: Any, visit: Callable[..., Any], run_of: Callable[..., str], script: Callable[[str], str]
) -> None:
    """Without a selected window, the newest step is always on the chart."""
    with shared_tower.training(script("steady"), "grow", "3000", "50"):
        tab = visit(shared_tower)
        tab.open_run(run_of(shared_tower, "grow"))
        tab.until_step(tab.step() + 100)
        first, last = tab.shown_range()
        assert first <= 0
        assert last >= tab.step() - 50


def test_a_nan_loss_is_drawn(
    shared_tower: Any, visit: Callable[..., Any], run_of: Callable[..., str], script: Callable[[str], str]
) -> None:
    """From the step at which the loss became NaN, there are marks at the top of the chart, and none
    before."""
    with shared_tower.training(script("root_of_negative")) as process:
        assert process.wait(300) == 0
    run = run_of(shared_tower, "root-of-negative")
    reported = [record for record in shared_tower.records(run) if "loss" in record["values"]]
    losses = {record["step"]: record["values"]["loss"] for record in reported}
    onset = min(step for step, loss in losses.items() if loss == "NaN")
    tab = visit(shared_tower)
    tab.open_run(run)
    tab.page.locator('[data-series="loss"] .faults', has_text="NaN").wait_for()
    assert tab.has_color("--critical", tab.place("loss", onset, NAN_ROW))
    assert not tab.has_color("--critical", tab.place("loss", onset / 2, NAN_ROW))


@pytest.mark.parametrize("name", ["<b>x</b>", "<img src=x onerror=alert(1)>"])
def test_a_hostile_name_is_text(
    name: str,
    shared_tower: Any,
    visit: Callable[..., Any],
    run_of: Callable[..., str],
    script: Callable[[str], str],
) -> None:
    """A run's name is shown literally on the fleet page and on its own, and is never markup."""
    with shared_tower.training(script("steady"), name, "5", "100") as process:
        assert process.wait(300) == 0
    run = run_of(shared_tower, name)
    tab = visit(shared_tower)
    tab.page.get_by_text(name).first.wait_for()
    assert (
        tab.page.locator("main :is(b, img)", has_text="x").count()
        == tab.page.locator("main img").count()
        == 0
    )
    tab.open_run(run)
    assert tab.page.locator("h1").inner_text() == name
