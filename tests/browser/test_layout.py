"""The layout of a run page: charts are resized, and a project has a layout for all users."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Route

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUN, OTHER = "r_layout", "r_layout_other"
CHART = "act/attn"


@pytest.fixture(scope="module")
def run(tower_of_the_module: Any, script: Callable[[str], str]) -> str:
    """Two runs of one project."""
    for name in (RUN, OTHER):
        with tower_of_the_module.training(script("scripted"), name, name, "0", "20") as process:
            assert process.wait(120) == 0
    return RUN


@pytest.fixture
def tab(run: str, tower_of_the_module: Any, visit: Callable[..., Any]) -> Any:
    """The page of the first run, with the standard layout."""
    address = f"{tower_of_the_module.base}/api/v1/projects/scripted/layout"
    headers = {"authorization": f"Bearer {tower_of_the_module.token}"}
    httpx.put(address, json={"layout": ""}, headers=headers, timeout=60).raise_for_status()
    opened = visit(tower_of_the_module, None)
    opened.open_run(run)
    return opened


def chart(tab: Any, name: str = CHART) -> Any:
    """Return a chart, drawn."""
    found = tab.page.locator(f'.sections [data-series="{name}"]')
    found.scroll_into_view_if_needed()
    found.locator(".plot .xy").first.wait_for()
    return found


def choose(tab: Any, item: str) -> None:
    """Choose an item in the menu of the chart."""
    chart(tab).locator(".menubutton").click()
    tab.page.get_by_role("menu").get_by_text(item, exact=True).click()


def test_the_description_is_cut_before_the_name(tab: Any) -> None:
    """The four vital signs, with descriptions that are too long."""
    cut = """() => {
      document.querySelectorAll('.vitals .extra').forEach((each) => each.append(' long'.repeat(99)));
      return ['.extra', 'h3'].map((part) => [...document.querySelectorAll(`.vitals .panelhead ${part}`)]
        .filter((each) => each.scrollWidth > each.clientWidth).length);
    }"""
    assert tab.page.evaluate(cut) == [4, 0]


def test_a_corner_resizes_a_chart(tab: Any) -> None:
    """Both columns and a height; the address has them, and a reload keeps them."""
    box = chart(tab).bounding_box()
    plot = chart(tab).locator(".plot").bounding_box()["height"]
    x, y = box["x"] + box["width"] - 4, box["y"] + box["height"] - 4
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + box["width"] * 0.8, y + 90, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_url("**size=2x*")
    tab.page.reload()
    assert chart(tab).bounding_box()["width"] > 1.8 * box["width"]
    assert chart(tab).locator(".plot").bounding_box()["height"] == pytest.approx(plot + 90, abs=3)


def test_the_menu_resizes_too(tab: Any) -> None:
    """For keyboards and touch; the usual size has no place in the address."""
    choose(tab, "Both columns")
    tab.page.locator(f'.is-wide[data-series="{CHART}"]').wait_for()
    choose(tab, "Usual size")
    tab.page.wait_for_function("() => !location.search.includes('size')")


def save(tab: Any) -> None:
    """Save the layout for the project."""
    tab.page.get_by_role("button", name="Layout", exact=True).click()
    tab.page.get_by_role("menuitem", name="Save for project scripted").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    tab.page.get_by_role("dialog").wait_for(state="detached")


def test_a_layout_is_shown_by_every_run_of_the_project(tab: Any) -> None:
    """Pins and sizes; an address that names another layout keeps it."""
    choose(tab, "Pin to the top")
    choose(tab, "Both columns")
    save(tab)
    tab.open_run(OTHER)
    tab.page.locator(f'[data-section="pinned"] .is-wide[data-series="{CHART}"]').wait_for()
    tab.open_run(OTHER, "?pin=act/mlp")
    chart(tab, "act/mlp")
    assert tab.page.locator(f'[data-section="pinned"] [data-series="{CHART}"]').count() == 0


def test_a_chart_is_dragged_to_another_section(tab: Any) -> None:
    """To the place of another chart, to the head of a section, and back by the menu; a reload keeps it."""
    chart(tab)
    inside = tab.page.locator('[data-section="opt"] [data-series]')
    first = tab.page.locator('[data-section="opt"] .sectionhead')
    tab.page.locator(f'[data-grip="{CHART}"]').drag_to(first)
    tab.until(lambda: inside.first.get_attribute("data-series"), CHART)
    tab.page.reload()
    tab.until(lambda: inside.first.get_attribute("data-series"), CHART)
    choose(tab, "Move to section…")
    tab.page.get_by_label("Section").fill("Mine")
    tab.page.get_by_role("dialog").get_by_role("button", name="Move").click()
    tab.page.locator(f'[data-section="Mine"] [data-series="{CHART}"]').wait_for()
    tab.page.locator(f'[data-grip="{CHART}"]').drag_to(chart(tab, "act/mlp"))
    tab.page.locator(f'[data-section="act"] [data-series="{CHART}"]').wait_for()
    assert "in=" not in tab.page.url


def show_standard_layout(tab: Any) -> None:
    """Save a layout with a pinned chart, and show the standard layout for another run."""
    choose(tab, "Pin to the top")
    save(tab)
    tab.open_run(OTHER)
    tab.page.locator('[data-section="pinned"]').wait_for()
    tab.page.get_by_role("button", name="Layout", exact=True).click()
    tab.page.get_by_role("menuitemradio", name="Standard layout").click()
    tab.page.locator('[data-section="pinned"]').wait_for(state="detached")


def test_the_standard_layout_is_in_the_address(tab: Any) -> None:
    """A reload does not show that of the project instead."""
    show_standard_layout(tab)
    tab.page.reload()
    chart(tab)
    tab.page.get_by_role("button", name="Layout", exact=True).click()
    tab.page.get_by_role("menuitemradio", name="Layout of the project", checked=False).wait_for()
    assert tab.page.locator('[data-section="pinned"]').count() == 0


def test_a_layout_has_the_x_axis(tab: Any) -> None:
    """Each run of the project opens with it; an address that names the step keeps the step."""
    tab.page.get_by_role("button", name="Relative", exact=True).click()
    save(tab)
    relative = tab.page.get_by_role("button", name="Relative", exact=True, pressed=True)
    tab.open_run(OTHER)
    relative.wait_for()
    tab.page.get_by_role("button", name="Step", exact=True).click()
    tab.page.wait_for_url("**x=step*")
    tab.page.reload()
    tab.page.get_by_role("button", name="Step", exact=True, pressed=True).wait_for()
    assert relative.count() == 0


def test_the_standard_layout_comes_back(tab: Any) -> None:
    """From the menu, for this page; saved, for all users."""
    show_standard_layout(tab)
    save(tab)
    tab.open_run(RUN)
    chart(tab)
    assert tab.page.locator('[data-section="pinned"]').count() == 0


def test_a_baseline_is_pinned_for_all_users(
    tab: Any, tower_of_the_module: Any, visit: Callable[..., Any]
) -> None:
    """Another browser offers it for each run of the project, and compares with it."""
    compare = tab.page.get_by_role("button", name="Compare", exact=True)
    compare.click()
    tab.page.get_by_role("menuitem", name="Pin as a baseline").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Pin").click()
    tab.page.get_by_role("dialog").wait_for(state="detached")
    other = visit(tower_of_the_module)
    other.open_run(OTHER)
    other.page.get_by_role("button", name="Compare", exact=True).click()
    other.page.get_by_role("menuitem", name=f"{RUN} baseline").click()
    other.page.wait_for_url(f"**/compare?run={RUN}&run={OTHER}&base={RUN}")


def test_an_open_menu_shows_baselines_that_arrive_later(
    run: str, tower_of_the_module: Any, visit: Callable[..., Any]
) -> None:
    """A reader who opens it at once need not open it again."""
    address = f"{tower_of_the_module.base}/api/v1/projects/scripted/baselines"
    headers = {"authorization": f"Bearer {tower_of_the_module.token}"}
    httpx.put(address, json={"run": run, "pinned": True}, headers=headers, timeout=60).raise_for_status()
    page, held = visit(tower_of_the_module).page, list[Route]()
    page.route(re.compile("/baselines"), lambda route: held.append(route))
    page.goto(f"{tower_of_the_module.base}/runs/{OTHER}")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_role("menuitem", name="Runs that you choose").wait_for()
    for route in held:
        route.continue_()
    page.get_by_role("menuitem", name=f"{RUN} baseline").wait_for()
    httpx.put(address, json={"run": run, "pinned": False}, headers=headers, timeout=60).raise_for_status()


def test_comparisons_have_a_layout(tab: Any, tower_of_the_module: Any) -> None:
    """A comparison opens with that of the project; one that names another keeps it."""
    address = f"{tower_of_the_module.base}/compare?run={RUN}&run={OTHER}"
    with tab.page.expect_response("**/layout?page=compare"):
        tab.page.goto(f"{address}&series=act/attn&smooth=0.5&x=relative")
    tab.page.get_by_label("Weight").wait_for()
    tab.page.get_by_role("heading", name="act/attn").wait_for()
    save(tab)
    tab.page.goto(address)
    tab.page.get_by_role("heading", name="act/attn").wait_for()
    tab.page.get_by_role("button", name="Relative", exact=True, pressed=True).wait_for()
    tab.page.goto(f"{address}&series=act/mlp")
    tab.page.get_by_role("heading", name="act/mlp").wait_for()
    assert tab.page.get_by_role("heading", name="act/attn").count() == 0
