"""Printed pages are complete: no chart is cut off, no name is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_printed"
UPRIGHT_PX = 720
"""Printable width of A4 in pixels."""
AT_PRINT = """() => addEventListener("afterprint", () => {
    const host = document.querySelector(".onpaper").style;
    window.printed = {
        width: parseFloat(host.getPropertyValue("--paper-width")) * host.getPropertyValue("--paper-zoom"),
        blank: document.querySelectorAll(".vitals .plot:not(:has(.xy))").length,
    };
})"""


@pytest.fixture(scope="module")
def printed(shared_tower: Any, script: Callable[[str], str]) -> Any:
    """A server with a run to print."""
    with shared_tower.training(script("scripted"), "to print", RUN, "0", "40") as process:
        assert process.wait(120) == 0
    return shared_tower


@pytest.mark.parametrize("address", [f"/runs/{RUN}", f"/compare?run={RUN}"])
def test_charts_fit_on_paper(address: str, printed: Any, visit: Callable[..., Any]) -> None:
    """They are scaled to a portrait page, and those below the fold are drawn too."""
    page = visit(printed, None).page
    page.set_viewport_size({"width": 1440, "height": 500})
    page.goto(printed.base + address)
    page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    page.evaluate(AT_PRINT)
    page.pdf()
    page.wait_for_function("() => window.printed")
    found = page.evaluate("() => window.printed")
    assert 400 < found["width"] <= UPRIGHT_PX
    assert found["blank"] == 0


def test_the_fleet_is_printed_with_names(printed: Any, visit: Callable[..., Any]) -> None:
    """Columns are below their heads although check boxes and buttons are left out."""
    page = visit(printed).page
    page.locator(f'[data-run="{RUN}"]').wait_for()
    page.emulate_media(media="print")
    name = page.locator(f'[data-run="{RUN}"] .name').bounding_box()
    assert name["width"] > 150
    assert not page.locator(f'[data-run="{RUN}"] input').is_visible()
