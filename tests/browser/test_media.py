"""What a script logs besides numbers is on the tab Media; its results are on the tab Summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

import tocsin
from tests.matrix import LONG

HOSTILE = "<img src=x onerror=document.title='run'>"


@pytest.fixture(scope="module")
def run(tower_of_the_module: Any, run_of: Callable[[Any, str], str]) -> str:
    """A run with two objects of each kind and a result."""
    tower = tower_of_the_module
    place = {"url": tower.base, "token": tower.token, "spool_dir": tower.directory / "spool", "patch": False}
    run = tocsin.watch("media", name="shows", quiet=True, **place)
    for step in (3, 8):
        run.log({"batch": tocsin.Image(torch.rand(3, 6, 9), caption=HOSTILE)}, step=step)
        run.log({"sample": tocsin.Text(f"{HOSTILE} of step {step}")}, step=step)
        run.log({"grads": tocsin.Histogram(torch.tensor([1.0, 2.0, float("nan")]))}, step=step)
        run.log({"worst": tocsin.Table(["file", "loss"], [[HOSTILE, float(step)]])}, step=step)
    run.summary["best"] = 0.93
    run.log(loss=1.0, step=9)
    run.finish()
    return run_of(tower, "shows")


@pytest.fixture
def panel(run: str, visit: Callable[..., Any], tower_of_the_module: Any) -> Any:
    """The open tab; ``panel.page`` is its page."""
    tab = visit(tower_of_the_module, None)
    tab.page.goto(f"{tower_of_the_module.base}/runs/{run}")
    tab.page.get_by_role("tab", name="Media").click()
    return tab.page.get_by_role("tabpanel", name="Media")


def test_every_kind_is_shown_and_no_text_is_a_page(panel: Any) -> None:
    picture = panel.get_by_role("figure", name="batch").locator("img")
    picture.wait_for()
    panel.page.wait_for_function("image => image.complete", arg=picture.element_handle())
    assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [9, 6]
    panel.get_by_text(f"{HOSTILE} of step 8").wait_for()
    panel.get_by_role("img", name="Histogram of 3 values: 1 to 2, 1 NaN").wait_for()
    panel.get_by_role("cell", name=HOSTILE).wait_for()
    assert panel.page.title() != "run"


@LONG
def test_the_slider_goes_to_an_earlier_step(panel: Any) -> None:
    figure = panel.get_by_role("figure", name="sample")
    figure.get_by_text("step 8", exact=True).wait_for()
    figure.get_by_role("slider", name="Step of sample").press("ArrowLeft")
    figure.get_by_text("of step 3").wait_for()
    expect(figure.get_by_text("step 3", exact=True)).to_have_count(1)


@LONG
def test_the_results_are_on_their_own_tab(panel: Any) -> None:
    panel.page.get_by_role("tab", name="Summary").click()
    results = panel.page.get_by_role("tabpanel", name="Summary")
    assert " ".join(results.inner_text().split()) == "best 0.93"


@LONG
def test_two_runs_are_compared_side_by_side(
    run: str, run_of: Callable[[Any, str], str], visit: Callable[..., Any], tower_of_the_module: Any
) -> None:
    """At one step; a run shows its newest object until then."""
    tower = tower_of_the_module
    place = {"url": tower.base, "token": tower.token, "spool_dir": tower.directory / "spool", "patch": False}
    other = tocsin.watch("media", name="beside", quiet=True, **place)
    other.log({"sample": tocsin.Text("other of step 5")}, step=5)
    other.log(loss=1.0, step=9)
    other.finish()
    page = visit(tower, None).page
    page.goto(f"{tower.base}/compare?run={run}&run={run_of(tower, 'beside')}")
    page.get_by_text("Media side by side").click()
    part = page.locator(".mediacompare")
    part.get_by_label("Name").select_option("sample")
    mine = part.get_by_role("figure", name="shows")
    mine.get_by_text("of step 8").wait_for()
    slider = page.get_by_role("slider", name="Step", exact=True)
    slider.press("ArrowLeft")
    mine.get_by_text("of step 3").wait_for()
    page.locator(".mediacompare").get_by_role("figure", name="beside").get_by_text(
        "other of step 5"
    ).wait_for()
