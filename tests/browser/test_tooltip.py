"""The tooltip at the pointer: of one place, and as long as the pointer is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tocsin
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
LOSSES = {"rising": [0.0, 10.0, 20.0, 30.0], "flat": [4.0] * 4}
PIXEL = """([step, value]) => {
    const plot = document.querySelector('[data-series="loss"] .plot');
    const { x, y } = plot.getBoundingClientRect(), { xaxis, yaxis } = plot._fullLayout;
    return [x + xaxis._offset + xaxis.l2p(step), y + yaxis._offset + yaxis.l2p(value)];
}"""
COUNT = """() => {
    const tooltip = document.querySelector(".charts > .tooltip");
    window.lost = 0;
    const look = () => {
        window.lost += tooltip.hidden;
        requestAnimationFrame(look);
    };
    look();
}"""


@pytest.fixture(scope="module")
def crossing(shared_tower: Any, run_of: Callable[[Any, str], str]) -> list[str]:
    """Two runs of four steps, whose lines cross before step 1."""
    spool = shared_tower.directory / "spool"
    place = {"url": shared_tower.base, "token": shared_tower.token, "spool_dir": spool, "patch": False}
    for name, losses in LOSSES.items():
        run = tocsin.watch("tooltips", name=name, quiet=True, **place)
        for step, loss in enumerate(losses):
            run.log({"loss": loss}, step=step)
        run.finish()
    return [run_of(shared_tower, name) for name in LOSSES]


def test_values_and_their_order_are_of_the_same_step(
    crossing: list[str], shared_tower: Any, visit: Callable[..., Any]
) -> None:
    """Before step 1 the rising line is nearer, but at step 0, whose values are shown, the flat one is."""
    tab = visit(shared_tower, f"/compare?run={crossing[0]}&run={crossing[1]}")
    tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    tab.until(lambda: len(tab.page.evaluate(PIXEL, [0.45, 4.6])), 2)
    tooltip = tab.page.locator(".tooltip", has_text="step 0")

    def shown() -> list[str]:
        tab.page.mouse.move(*tab.page.evaluate(PIXEL, [0.45, 4.6]))
        return list(tooltip.locator(".clip, b").all_inner_texts())

    tab.until(lambda: sorted(shown()), ["0", "4", "flat", "rising"])
    assert shown() == ["flat", "4", "rising", "0"]


@pytest.fixture
def live(shared_tower: Any, script: Callable[[str], str], run_of: Callable[[Any, str], str]) -> Iterator[str]:
    """A run that is not finished."""
    with shared_tower.training(script("steady"), "tooltip-live", "4000", "20"):
        yield run_of(shared_tower, "tooltip-live")


@LONG
def test_live_records_do_not_take_the_tooltip_away(
    live: str, shared_tower: Any, visit: Callable[..., Any]
) -> None:
    """The pointer rests in a chart that is drawn again with every record."""
    tab = visit(shared_tower, None)
    tab.open_run(live)
    tab.until_step(20)
    tab.page.mouse.move(*tab.page.evaluate(PIXEL, [8, 1]), steps=3)
    tab.page.locator(".charts > .tooltip .line").first.wait_for()
    tab.page.evaluate(COUNT)
    tab.until_step(tab.step() + 60)
    assert tab.page.evaluate("() => window.lost") == 0
