"""The page of a run while real trainings report: new steps, zoom, non-finite values, names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
NAN_ROW = 0.94
"""Height of the rail's row of NaN marks, as a share of the chart."""


@pytest.fixture(scope="module")
def steady(shared_tower: Any, run_of: Callable[..., str], script: Callable[[str], str]) -> Iterator[str]:
    """A run that trains during the tests of this file."""
    with shared_tower.training(script("steady"), "follow me", "100000", "50"):
        yield run_of(shared_tower, "follow me")


def test_new_steps_appear_automatically_and_zoom_is_kept(
    shared_tower: Any, visit: Callable[..., Any], steady: str
) -> None:
    """The page follows a training, and a selected window stays."""
    tab = visit(shared_tower, None)
    tab.open_run(steady, "?from=5&to=25")
    tab.until_step(tab.step() + 100)
    tab.until(tab.shown_range, pytest.approx([5, 25]))
    assert "from=5&to=25" in tab.page.url


LATE = """
import sys, time, pathlib, tocsin
with tocsin.watch("live", name="late", resume="r_late") as run:
    for step in range(4_000):
        known = {"val_loss": 0.5} if pathlib.Path(sys.argv[1]).exists() else {}
        run.log({"loss": 1.0} | known, step=step)
        time.sleep(0.02)
"""
NO_REFRESH = """(() => {
    const begin = setInterval;
    globalThis.setInterval = (act, ms, ...rest) => begin(act, ms === 15_000 ? 1e9 : ms, ...rest);
})()"""


def test_a_metric_that_is_logged_late_appears(
    shared_tower: Any, visit: Callable[..., Any], run_of: Callable[..., str], tmp_path: Path
) -> None:
    """Such as the first evaluation, on an open page, without waiting for its periodic refresh."""
    signal = tmp_path / "evaluate"
    with shared_tower.training("-c", LATE, str(signal)):
        tab = visit(shared_tower, None)
        tab.page.add_init_script(NO_REFRESH)
        tab.open_run(run_of(shared_tower, "late"))
        signal.touch()
        tab.page.locator('[data-series="val_loss"]').wait_for(timeout=30_000)


@LONG
def test_a_page_that_is_opened_before_its_run_begins_shows_it(
    shared_tower: Any, visit: Callable[..., Any], tmp_path: Path
) -> None:
    """The hook prints the address before it is connected, and a busy server may take a while."""
    tab = visit(shared_tower, None)
    tab.page.goto(f"{shared_tower.base}/runs/r_late_again")
    tab.page.get_by_role("heading", name="There is no such run").wait_for()
    with shared_tower.training("-c", LATE.replace("r_late", "r_late_again"), str(tmp_path / "never")):
        tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()


@LONG
def test_without_a_zoom_the_whole_run_is_shown(
    shared_tower: Any, visit: Callable[..., Any], steady: str
) -> None:
    """Without a selected window, the newest step is always on the chart."""
    tab = visit(shared_tower, None)
    tab.open_run(steady)
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
    tab = visit(shared_tower, None)
    tab.open_run(run)
    tab.page.locator('[data-series="loss"] .faults', has_text="NaN").wait_for()
    assert tab.has_color("--critical", tab.place("loss", onset, NAN_ROW))
    assert not tab.has_color("--critical", tab.place("loss", onset / 2, NAN_ROW))


@pytest.mark.parametrize("name", represented(["<img src=x onerror=alert(1)>", "<b>x</b>"]))
def test_a_hostile_name_is_text(
    name: str, shared_tower: Any, visit: Callable[..., Any], script: Callable[[str], str]
) -> None:
    """A run's name is shown literally on the fleet page and on its own, and is never markup."""
    run = f"r_hostile{len(name)}"
    with shared_tower.training(script("scripted"), name, run, "0", "20") as process:
        assert process.wait(300) == 0
    tab = visit(shared_tower)
    tab.page.get_by_text(name).first.wait_for()
    assert tab.page.locator("main b:text-is('x'), main img").count() == 0
    tab.open_run(run)
    expect(tab.page.locator("h1")).to_have_text(name)
