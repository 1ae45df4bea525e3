"""What assistive technology reads of a chart: the accessibility tree of Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG
from tocsin_server.demo.trainings import wgan

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_in_words"
CHARTS = {"Loss by step", "Grad norm by step", "Loss scale by step", "Learning rate by step"}


@pytest.fixture(scope="module")
def described(shared_tower: Any, script: Callable[[str], str]) -> Any:
    """A server with a finished run of 40 steps: NaN, +Inf, -Inf at steps 7 to 9, and a gradient of zero."""
    with shared_tower.training(script("scripted"), "in words", RUN, "0", "40") as process:
        assert process.wait(120) == 0
    return shared_tower


def charts(page: Any) -> dict[str, str]:
    """Return the charts of a page, once all are described: their names and descriptions for assistive
    technology."""
    page.locator(".vitals .panel").first.wait_for()
    page.wait_for_function(
        """() => [...document.querySelectorAll(".vitals .plot")].every((each) => each.hidden ||
        document.getElementById(each.getAttribute("aria-describedby")).textContent)"""
    )
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in nodes if node.get("role", {}).get("value") == "image"]
    return {node["name"]["value"]: node.get("description", {}).get("value", "") for node in images}


def test_a_chart_of_a_run_is_described(described: Any, visit: Callable[..., Any]) -> None:
    """Start, end, extremes with their steps, and each kind of non-finite value with its first step."""
    tab = visit(described, None)
    tab.open_run(RUN)
    found = charts(tab.page)
    assert found.keys() >= CHARTS
    text = found["Loss by step"]
    assert text.startswith("Steps 0 to 39: starts at 2 and ends at 1.125. Lowest 1.026 at step 38")
    assert "1 NaN, at step 7. 1 +Inf, at step 8. 1 −Inf, at step 9." in text
    assert text.endswith("Alert: Non-finite loss (critical) from step 7.")
    assert found["Loss scale by step"].startswith("Steps 0 to 39: constant at 2¹⁶. Alert")


def test_a_chart_off_the_screen_is_described(described: Any, visit: Callable[..., Any]) -> None:
    """On a phone only the first one is drawn at once, but screen readers read without scrolling."""
    tab = visit(described, None)
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.open_run(RUN)
    assert charts(tab.page)["Learning rate by step"].startswith("Steps 0 to 39: constant at 0.001000.")


def test_a_zoom_is_described(described: Any, visit: Callable[..., Any]) -> None:
    """The description is of the visible steps."""
    tab = visit(described, None)
    tab.open_run(RUN, "?from=20&to=30")
    tab.page.locator("p.vh", has_text=re.compile("^Steps 20 to 30")).first.wait_for(state="attached")
    assert "NaN" not in charts(tab.page)["Loss by step"]


def test_a_chart_of_a_comparison_is_described(described: Any, visit: Callable[..., Any]) -> None:
    """By run, with its exact last value."""
    tab = visit(described, None)
    tab.page.goto(f"{described.base}/compare?run={RUN}")
    tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    text = charts(tab.page)["Loss by step"]
    assert text.startswith("in words: starts at 2 and ends at 1.125, lowest 1.026")


def test_a_chart_of_an_incident_is_described(
    described: Any, visit: Callable[..., Any], alerting: Callable[..., Any]
) -> None:
    """With the alert, and a menu that lists the values; the menu is reached and used by keys."""
    with alerting(described, "r_words_nan"):
        (incident,) = described.get("/incidents", run="r_words_nan", state="open")["items"]
        page = visit(described, None).page
        page.goto(f"{described.base}/incidents/{incident['id']}")
        page.locator('.onset [data-series="loss"] .plot .xy').first.wait_for()
        assert "(critical) from step 20" in charts(page)["Loss by step"]
        page.get_by_role("button", name="Chart menu of Loss", exact=True).focus()
        for key in ("Enter", "Enter"):
            page.keyboard.press(key)
        dialog = page.get_by_role("dialog", name="Values of loss")
        dialog.locator("tbody tr").nth(20).wait_for()
        heads = dialog.get_by_role("columnheader").all_inner_texts()
        assert heads == ["Step", "Attempt", "Rank", "Value", "Time"]
        expect(dialog.get_by_role("region", name="Records")).to_have_count(1)


def test_every_chart_has_its_own_menu(described: Any, visit: Callable[..., Any]) -> None:
    """By name, in a list of all buttons."""
    tab = visit(described, None)
    tab.open_run(RUN)
    names = tab.page.locator(".vitals .menubutton").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert len(set(names)) == len(names) == 4


def test_critic_and_generator_share_a_chart(shared_tower: Any, visit: Callable[..., Any]) -> None:
    """Of the demo's GAN: two lines with a key, both in words, in the chart of the loss."""
    with shared_tower.training(wgan.__file__, "--steps", "60", "--steps-per-s", "0") as process:
        assert process.wait(300) == 0
    tab = visit(shared_tower, None)
    tab.open_run(shared_tower.run_named("wgan-clamped")["id"])
    loss = tab.page.locator('[data-series="loss"]').first
    loss.locator(".inks", has_text="generator").wait_for()
    assert loss.locator(".inks").inner_text().split() == ["critic", "generator"]
    loss.locator("p.vh", has_text="generator: Steps 0 to 59: starts at").wait_for(state="attached")
    dashes = (
        "() => document.querySelector('[data-series=loss] .plot').data.map(({ line }) => line.dash ?? '')"
    )
    tab.until(lambda: tab.page.evaluate(dashes).count("6px,3px"), 1)
