"""Charts composed on the run page: by name, by pattern, by formula; shared by their address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_composed"
FORMULA = "loss - act/attn"


@pytest.fixture(scope="module")
def run(shared_tower: Any, script: Callable[[str], str]) -> str:
    """A run of 40 steps, with NaN, Inf and -Inf in the loss at steps 7, 8 and 9."""
    with shared_tower.training(script("scripted"), "composed", RUN, "0", "40") as process:
        assert process.wait(120) == 0
    return RUN


def compose(tab: Any, kind: str, text: str) -> Any:
    """Fill the dialog that adds a chart, and return it."""
    tab.page.get_by_role("button", name="Add chart").click()
    dialog = tab.page.get_by_role("dialog", name="Add chart")
    dialog.get_by_label("Show").select_option(kind)
    dialog.get_by_label("Metrics or formula").fill(text)
    return dialog


def chart(tab: Any) -> Any:
    """Return the only composed chart, once it is drawn."""
    panel = tab.page.locator('[data-section="custom"] [data-series]')
    panel.scroll_into_view_if_needed()
    panel.locator(".plot .xy").first.wait_for()
    return panel


def values(tab: Any) -> list[float | None]:
    """Return the values of the first line of the composed chart."""
    found: list[float | None] = tab.page.evaluate(
        """() => document.querySelector('[data-section="custom"] .plot').data
            .find((each) => each.mode.startsWith("lines") && !each.fill)
            .y.map((y) => (Number.isFinite(y) ? y : null))"""
    )
    return found


def test_a_formula_is_drawn_with_its_faults(tab: Any) -> None:
    """loss - act/attn has the difference at each step, and marks where the loss is not finite."""
    compose(tab, "formula", FORMULA).get_by_role("button", name="Add").click()
    panel = chart(tab)
    tab.until(lambda: values(tab)[3:4], [pytest.approx(1 + 1 / 4 + 0.1 - 3)])
    assert values(tab)[7:10] == [None, None, None]
    faults = panel.locator(".faults").inner_text()
    assert all(kind in faults for kind in ("NaN", "+Inf", "−Inf"))


def test_a_link_shows_the_same_chart_with_a_tooltip(tab: Any) -> None:
    """Metrics by pattern, opened from an address: a line for each, named in the legend and the tooltip."""
    tab.open_run(RUN, f"?panel={quote('match:^act/')}")
    panel = chart(tab)
    assert panel.locator(".inks").inner_text().split() == ["act/attn", "act/mlp"]
    tooltip = tab.page.locator(".tooltip", has_text="step 13 ")
    tab.point_at("match:^act/", 13, 0.3, tooltip)
    assert tooltip.locator("b").all_inner_texts() == ["3", "2"]


def test_what_a_formula_does_not_find_is_said(tab: Any) -> None:
    """The dialog stays open and names the unknown metric; a link shows the same in the chart."""
    dialog = compose(tab, "formula", "loss - val/loss")
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_role("alert").get_by_text("no metric “val/loss”").wait_for()
    tab.open_run(RUN, f"?panel={quote('formula:loss - val/loss')}")
    tab.page.locator('[data-section="custom"]').get_by_text("no metric “val/loss”").wait_for()


def test_a_chart_is_edited_and_removed(tab: Any) -> None:
    """Both are in its menu, and both change the address."""
    tab.open_run(RUN, f"?panel={quote('list:act/attn')}")
    chart(tab).locator(".menubutton").click()
    tab.page.get_by_role("menu").get_by_text("Edit…").click()
    dialog = tab.page.get_by_role("dialog", name="Edit chart")
    dialog.get_by_label("Insert a metric").select_option("act/mlp")
    dialog.get_by_role("button", name="Save").click()
    tab.page.wait_for_url("**panel=list%3Aact%2Fattn%0Aact%2Fmlp*")
    chart(tab).locator(".menubutton").click()
    tab.page.get_by_role("menu").get_by_text("Remove").click()
    tab.page.locator('[data-section="custom"]').wait_for(state="detached")
    assert "panel=" not in tab.page.url


def test_a_composed_chart_has_full_screen_and_csv(tab: Any) -> None:
    """As every chart; the file has the records of the metrics that the formula reads."""
    tab.open_run(RUN, f"?panel={quote(f'formula:{FORMULA}')}")
    chart(tab).locator(".menubutton").click()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("menu").get_by_text("CSV of all records in the window").click()
    head = download.value.path().read_text("utf-8").splitlines()[0].split(",")
    assert {"loss", "act/attn"} <= set(head)
    chart(tab).locator(".menubutton").click()
    tab.page.get_by_role("menu").get_by_text("Full screen").click()
    tab.page.wait_for_function(
        "() => document.querySelector('[data-section=custom] .plot').clientHeight > 900"
    )


def choose(tab: Any, name: str, item: str) -> None:
    """Choose an item in the menu of a chart."""
    panel = tab.page.locator(f'[data-series="{name}"]')
    panel.scroll_into_view_if_needed()
    panel.locator(".menubutton").click()
    tab.page.get_by_role("menu").get_by_text(item).click()


def test_values_of_a_formula_are_exact(tab: Any) -> None:
    """Each step has the metrics and the result, non-finite ones by name."""
    tab.open_run(RUN, f"?panel={quote(f'formula:{FORMULA}')}")
    choose(tab, f"formula:{FORMULA}", "Show values")
    dialog = tab.page.get_by_role("dialog", name=f"Values of {FORMULA}")
    row = dialog.get_by_role("row").nth(4)
    row.wait_for()
    shown = row.get_by_role("cell").all_inner_texts()
    assert shown[0] == "3"
    assert float(shown[5]) == float(shown[3]) - float(shown[4])
    expect(dialog.get_by_role("row").nth(8).get_by_role("cell").nth(5)).to_have_text("NaN")


def test_a_custom_chart_is_pinned(tab: Any) -> None:
    """It moves to the pinned section, and the link says so."""
    tab.open_run(RUN, f"?panel={quote('list:act/attn')}")
    choose(tab, "list:act/attn", "Pin to the top")
    tab.page.locator('[data-section="pinned"] [data-series="list:act/attn"]').wait_for()
    assert "pin=list%3Aact%2Fattn" in tab.page.url
    choose(tab, "list:act/attn", "Unpin")
    tab.page.locator('[data-section="custom"] [data-series="list:act/attn"]').wait_for()


def test_a_chart_of_several_metrics_has_a_link_to_embed(tab: Any) -> None:
    """As built-in charts have; of a pattern, the metrics that match."""
    tab.open_run(RUN, f"?panel={quote('match:^act/')}")
    choose(tab, "match:^act/", "Embed…")
    tab.page.get_by_role("button", name="Create link").click()
    dialog = tab.page.get_by_role("dialog", name="Link to embed matching ^act/")
    expect(dialog.locator("pre")).to_contain_text("series=list%3Aact%2Fattn%0Aact%2Fmlp")
    dialog.get_by_role("button", name="Close").click()
