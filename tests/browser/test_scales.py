"""Charts without outliers and within limits: in the menu, in the address, on the run page and in Compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.matrix import LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_spiked"
SPIKE = 300
TOP = "(top) => document.querySelector('[data-series=loss] .plot')?._fullLayout?.yaxis.range[1] {} top"
LAST = "document.querySelector('[data-series=grad_norm] .plot')?._fullLayout?.xaxis.range[1]"
VALUES = """() => [...document.querySelectorAll("[data-series=loss] .readout, tr[data-run] td.value")]
    .map((each) => each.textContent).join(" ")"""
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
REPLACED = """() => {
    const drag = document.querySelector("[data-series=loss] .nsewdrag");
    const { left, top } = drag.getBoundingClientRect();
    const place = { clientX: left + 50, clientY: top + 20, bubbles: true, pointerType: "mouse" };
    drag.dispatchEvent(new PointerEvent("pointermove", place));
    drag.replaceWith(drag.cloneNode());
}"""
MARK = "document.querySelector('[data-series=loss] .plot')?.data?.find((each) => each.name === 'above')"


@pytest.fixture(scope="module")
def run(shared_tower: Any, script: Callable[[str], str]) -> str:
    """A run whose loss is between 1 and 2 but for a spike of a million and a NaN."""
    with shared_tower.training(script("spiked"), "spiked", RUN) as process:
        assert process.wait(120) == 0
    return RUN


def choose(tab: Any, item: str) -> None:
    """Select an item of the menu of the loss."""
    tab.page.locator('[data-series="loss"] .menubutton').click()
    tab.page.get_by_role("menu").get_by_text(item, exact=True).click()


@pytest.mark.parametrize("page", represented(["run", "compare"]))
def test_without_outliers_a_spike_is_a_mark_at_the_edge(page: str, tab: Any, shared_tower: Any) -> None:
    """The axis ends near the other values, the fault keeps its mark, and a reload keeps the choice."""
    if page == "compare":
        tab.page.goto(f"{shared_tower.base}/compare?run={RUN}")
        tab.page.locator('[data-series="loss"] .xy').first.wait_for()
    choose(tab, "Linear")
    tab.page.wait_for_function(TOP.format(">"), arg=1e6)
    choose(tab, "Ignore outliers")
    tab.page.wait_for_url("**clip=loss*")
    tab.page.reload()
    tab.page.wait_for_function(f"() => {MARK}")
    tab.until(lambda: tab.page.evaluate(f"() => {MARK}.x[0]"), pytest.approx(SPIKE, abs=1))
    tab.page.wait_for_function(TOP.format("<"), arg=5)
    tab.page.locator('[data-series="loss"] .faults', has_text="1 NaN").wait_for()
    choose(tab, "Ignore outliers")
    tab.page.wait_for_function(TOP.format(">"), arg=1e6)


@LONG
def test_keys_pressed_while_a_menu_loads_act_on_its_items(
    run: str, shared_tower: Any, visit: Callable[..., Any]
) -> None:
    """Nothing is lost if the reader is faster than the network; the second item is the log scale."""
    tab, held = visit(shared_tower, None), list[Any]()
    tab.page.route("**/*panelmenuitems*.js*", lambda route: held.append(route))
    tab.open_run(run)
    tab.page.locator('[data-series="loss"] .menubutton').focus()
    for key in ("Enter", "ArrowDown", "ArrowDown", "Enter"):
        tab.page.keyboard.press(key)
    tab.until(lambda: len(held), 1)
    held[0].continue_()
    tab.page.wait_for_url("**axis=log%3Aloss*")


@LONG
def test_limits_are_typed_and_reset_in_the_menu(tab: Any) -> None:
    """An error says what to type; the address has the limits until they are reset."""
    choose(tab, "Linear")
    choose(tab, "Limits…")
    tab.page.get_by_label("Smallest value").fill("1.5")
    tab.page.get_by_label("Largest value").fill("one")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_text("“one” is not a number").wait_for()
    tab.page.get_by_label("Largest value").fill("1.75")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**limits=1.5..1.75*")
    tab.page.wait_for_function(TOP.format("<"), arg=2)
    choose(tab, "Reset limits")
    tab.page.wait_for_function(TOP.format(">"), arg=1e6)
    assert "limits" not in tab.page.url


@LONG
@pytest.mark.parametrize("page", represented(["run", "compare"]))
def test_a_box_zooms_both_axes_until_a_double_click(page: str, tab: Any, shared_tower: Any) -> None:
    """It is part of the address, and pins no cross line."""
    if page == "compare":
        tab.page.goto(f"{shared_tower.base}/compare?run={RUN}")
        tab.page.wait_for_function(f"() => {LAST} > 300")
    mouse = tab.page.mouse
    mouse.move(*tab.place("grad_norm", 100, 0.2))
    mouse.down()
    mouse.move(*tab.place("grad_norm", 300, 0.8), steps=4)
    mouse.up()
    tab.page.wait_for_url("**limits=*")
    tab.page.wait_for_url("**from=*")
    assert "grad_norm" in tab.page.url
    tab.until(lambda: tab.shown_range("grad_norm"), pytest.approx([100, 300], abs=3))
    assert "at=" not in tab.page.url
    mouse.dblclick(*tab.place("grad_norm", 200, 0.5))
    tab.page.wait_for_function("() => !/limits|from/.test(location.search)")


@LONG
@pytest.mark.parametrize("page", represented(["run", "compare"]))
def test_the_wheel_zooms_with_ctrl_and_r_resets_both_axes(page: str, tab: Any, shared_tower: Any) -> None:
    """Over the plot the steps, over the labels of the value axis the values; without Ctrl, the page
    scrolls."""
    if page == "compare":
        tab.page.goto(f"{shared_tower.base}/compare?run={RUN}")
    tab.page.wait_for_function(f"() => {LAST} > 300")
    mouse, keyboard = tab.page.mouse, tab.page.keyboard
    x, y = tab.place("grad_norm", 200, 0.5)
    mouse.move(x, y)
    mouse.wheel(0, -100)
    assert "from=" not in tab.page.url
    x, y = tab.place("grad_norm", 200, 0.5)
    mouse.move(x, y)
    keyboard.down("Control")
    mouse.wheel(0, -100)
    tab.page.wait_for_url("**from=*")
    left = tab.page.locator('[data-series="grad_norm"] .plot').bounding_box()["x"]
    mouse.move(left + 10, y)
    mouse.wheel(0, -100)
    tab.page.wait_for_url("**limits=*")
    keyboard.up("Control")
    keyboard.press("r")
    tab.page.wait_for_function("() => !/from=|limits=/.test(location.search)")
    keyboard.press("+")
    tab.page.wait_for_url("**from=*")


@LONG
def test_the_wheel_zooms_after_a_click_until_the_pointer_leaves(tab: Any) -> None:
    """Before the click and after the pointer left, the wheel scrolls the page."""
    tab.page.wait_for_function(f"() => {LAST} > 300")
    mouse = tab.page.mouse
    mouse.move(*tab.place("grad_norm", 200, 0.5))
    mouse.down()
    mouse.up()
    mouse.wheel(0, -100)
    tab.page.wait_for_url("**from=*")
    mouse.move(2, 2)
    mouse.move(*tab.place("grad_norm", 200, 0.5))
    zoomed = tab.shown_range("grad_norm")
    mouse.wheel(0, 60)
    tab.page.wait_for_function("() => scrollY > 0")
    assert tab.shown_range("grad_norm") == zoomed


@LONG
@pytest.mark.parametrize("page", represented(["run", "compare"]))
def test_an_axis_is_dragged(page: str, tab: Any, shared_tower: Any) -> None:
    """At its values up and down, at its steps to the side."""
    if page == "compare":
        tab.page.goto(f"{shared_tower.base}/compare?run={RUN}")
    tab.page.wait_for_function(f"() => {LAST} > 300")
    x, y = tab.place("grad_norm", 0, 0.5)
    drag(tab, (x - 10, y), (x - 10, y + 30))
    tab.page.wait_for_url("**limits=*")
    tab.page.keyboard.press("r")
    tab.page.wait_for_function("() => !/limits/.test(location.search)")
    x, y = tab.place("lr", 300, 0)
    drag(tab, (x, y + 10), (x - 80, y + 10))
    tab.page.wait_for_url("**to=*")


def drag(tab: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Move the pointer with its button pressed."""
    tab.page.mouse.move(*start)
    tab.page.mouse.down()
    tab.page.mouse.move(*end, steps=5)
    tab.page.mouse.up()


@LONG
@pytest.mark.parametrize("page", represented(["run", "compare"]))
def test_values_stay_while_the_pointer_is_beside_a_plot(page: str, tab: Any, shared_tower: Any) -> None:
    """At the labels of the value axis, where no step is."""
    if page == "compare":
        tab.page.goto(f"{shared_tower.base}/compare?run={RUN}")
    tab.page.wait_for_function(f"() => {LAST} > 300")
    before = tab.page.evaluate(VALUES)
    assert any(letter.isdigit() for letter in before)
    x, y = tab.place("loss", 0, 0.5)
    tab.page.mouse.move(x - 30, y, steps=3)
    tab.page.evaluate(FRAMES)
    assert tab.page.evaluate(VALUES) == before


@LONG
def test_a_chart_drawn_under_the_pointer_keeps_its_tooltip(tab: Any) -> None:
    """It replaces the elements to which the pointer moved."""
    tab.page.wait_for_function(f"() => {LAST} > 300")
    tab.page.evaluate(REPLACED)
    tab.page.locator(".tooltip", has_text="step").wait_for()


@LONG
@pytest.mark.parametrize("page", represented(["run", "compare"]))
def test_two_fingers_zoom_the_steps(page: str, shared_tower: Any, chromium: Any, run: str) -> None:
    """One finger scrolls the page."""
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.request.get(shared_tower.login)
    phone = context.new_page()
    phone.goto(f"{shared_tower.base}/{'runs/' if page == 'run' else 'compare?run='}{run}")
    plot = phone.locator('[data-series="loss"] .plot')
    plot.scroll_into_view_if_needed()
    plot.locator(".xy").first.wait_for()
    box = plot.bounding_box()
    y = box["y"] + box["height"] / 2
    session = context.new_cdp_session(phone)
    for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 90)):
        middle = box["x"] + box["width"] / 2
        points = [{"x": middle + side * apart, "y": y, "id": side + 1} for side in (-1, 1)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    phone.wait_for_url("**from=*")
    context.close()


def test_a_chart_says_how_many_values_a_point_stands_for(tab: Any) -> None:
    """On a narrow screen the whole run is downsampled; zoomed in, the note and its sentence are gone."""
    tab.page.set_viewport_size({"width": 420, "height": 844})
    words = tab.page.locator('[data-series="loss"] > p.vh')
    words.get_by_text("Each point is the mean of up to").wait_for(state="attached")
    tab.open_run(RUN, "?from=10&to=40")
    words.get_by_text("Steps 10 to 40").wait_for(state="attached")
    tab.until(lambda: "Each point" in words.inner_text(), False)


@LONG
def test_the_words_follow_a_chart_that_is_drawn_late(tab: Any) -> None:
    """Off the screen it is not drawn yet, and its words don't say what its points are; then they do."""
    tab.page.set_viewport_size({"width": 420, "height": 300})
    tab.page.reload()
    words = tab.page.locator('[data-series="lr"] > p.vh')
    words.get_by_text("Steps 0 to 399").wait_for(state="attached")
    assert "Each point" not in words.inner_text()
    tab.page.locator('[data-series="lr"]').scroll_into_view_if_needed()
    words.get_by_text("Each point is the last of up to 2 values").wait_for(state="attached")
