"""The fleet page with many runs: filters, sorting, keyboard, archiving."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.crowd import crowd_of
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 2000 if os.environ.get("TOCSIN_TEST_ALL") else 800


@pytest.fixture(scope="module")
def crowded(tower_of_the_module: Any, script: Callable[[str], str]) -> Any:
    """A server with many ended runs, and one that it has seen itself."""
    crowd_of(tower_of_the_module, RUNS)
    with tower_of_the_module.training(script("scripted"), "~last", "r_last", "0", "40") as process:
        assert process.wait(120) == 0
    return tower_of_the_module


@pytest.fixture
def tab(crowded: Any, visit: Callable[..., Any]) -> Any:
    """Its fleet page with rows."""
    tab = visit(crowded)
    tab.page.locator("[data-run]").first.wait_for()
    return tab


def names(tab: Any) -> list[str]:
    """Return the names of the existing rows, from the top."""
    found: list[str] = tab.page.locator("[data-run] .name a").all_inner_texts()
    return found


def by_name(tab: Any) -> None:
    """List the runs without groups, by name."""
    tab.page.get_by_label("Group by").select_option("none")
    tab.page.locator('[data-sort="name"]').click()
    tab.page.wait_for_url("**sort=name**")


def test_only_visible_rows_exist(tab: Any) -> None:
    """Only the rows of one screen exist, also at the end of the list."""
    tab.page.get_by_text(f"{RUNS + 1:,} runs".replace(",", "\u202f")).first.wait_for()
    assert tab.page.locator("[data-run]").count() < 60
    by_name(tab)
    tab.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    end = tab.page.locator("[role=table]").get_attribute("aria-rowcount")
    last = tab.page.locator(f'[aria-rowindex="{end}"]')
    last.wait_for()
    last.locator(".spark").first.wait_for()
    assert tab.page.locator("[data-run]").count() < 60


def test_what_a_filter_does_not_understand_is_marked(tab: Any) -> None:
    """The other terms apply; once it is understood, the mark is gone."""
    field = tab.page.get_by_label("Filter runs")
    field.fill("~last OR")
    expect(tab.page.locator(".misread mark")).to_have_text("OR")
    tab.page.wait_for_function("() => document.querySelectorAll('[data-run]').length === 1")
    field.fill("name~^.last$ (loss>0 OR lr<0)")
    tab.page.locator(".misread").wait_for(state="hidden")
    assert names(tab) == ["~last"]


def test_config_filters_and_columns_sort(tab: Any) -> None:
    """A filter by a config value and a sort by name are in the address, so they survive a reload."""
    tab.page.get_by_label("Filter runs").fill("config.batch_size=128 -tag:bf16")
    tab.page.get_by_text(f"{RUNS // 10} of").wait_for()
    by_name(tab)
    tab.page.reload()
    tab.page.get_by_text(f"{RUNS // 10} of").wait_for()
    tab.page.wait_for_function(f"() => {FIRST} === 'run-0009'")
    assert names(tab) == sorted(names(tab))


def test_archiving_a_run_can_be_undone(tab: Any) -> None:
    """By keyboard: E archives the focused run, Undo restores it."""
    tab.page.get_by_label("Filter runs").fill("run-0042")
    row = tab.page.locator('[data-run="c_0042"]')
    row.locator(".name a").focus()
    tab.page.keyboard.press("e")
    tab.page.get_by_role("button", name="Undo").wait_for()
    row.wait_for(state="detached")
    tab.page.get_by_role("button", name="Undo").click()
    row.wait_for()


def test_runs_are_selected_by_keyboard_to_compare(tab: Any) -> None:
    """J moves down, X selects, and the link to the comparison has the selected runs."""
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("x")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("x")
    link = tab.page.get_by_role("link", name="Compare 2 selected")
    link.wait_for()
    assert str(link.get_attribute("href")).count("run=") == 2


@LONG
def test_selecting_a_run_moves_no_row(tab: Any) -> None:
    """The actions fit beside the filter. The box above the others shows that some runs are selected."""
    tab.page.set_viewport_size({"width": 1366, "height": 900})
    top = "() => document.querySelector('.fleet').getBoundingClientRect().top"
    before = tab.page.evaluate(top)
    tab.page.locator(".pickbox").first.check()
    tab.page.get_by_text("select another").wait_for()
    assert tab.page.evaluate(top) == before
    assert tab.page.get_by_label("Select all listed").evaluate("(box) => box.indeterminate")


def test_all_filtered_runs_can_be_compared(tab: Any) -> None:
    """Every tenth run: a row each, up to twelve of a color in a trace, non-finite values marked, each run can
    be highlighted."""
    tab.page.get_by_label("Filter runs").fill("config.batch_size=128 -tag:bf16")
    tab.page.get_by_text(f"{RUNS // 10} of").wait_for()
    tab.page.get_by_label("Select all listed").click()
    tab.page.get_by_role("link", name=f"Compare {RUNS // 10} selected").click()
    traces = 10 * math.ceil(RUNS // 10 / 10 / 12)
    tab.page.wait_for_function(
        f"() => document.querySelector('[data-series=loss] .xy') && {DRAWN}() === {traces}"
    )
    expect(tab.page.locator("tr[data-run]")).to_have_count(RUNS // 10)
    tab.page.locator('[data-series="loss"] .faults', has_text="NaN").wait_for()
    tab.page.locator("tr[data-run] th").nth(3).hover()
    tab.page.locator('[data-series="loss"] .lift path').wait_for(state="attached")


def test_an_update_redraws_only_the_cells_that_changed(
    tab: Any, crowded: Any, script: Callable[[str], str]
) -> None:
    """While a new run reports, no cell of another visible row is changed."""
    by_name(tab)
    tab.page.evaluate(QUIET)
    tab.page.evaluate(WATCH)
    with crowded.training(script("scripted"), "news", "r_news", "0", "40") as process:
        assert process.wait(120) == 0
    tab.page.locator('[data-run="r_news"]').wait_for()
    assert set(tab.page.evaluate("() => [...touched]")) <= {"r_news"}


@LONG
def test_kiosk_mode_shows_every_column(tab: Any, crowded: Any) -> None:
    """No column is cut off at the right edge, from the narrowest window with a table."""
    tab.page.goto(f"{crowded.base}/?kiosk=1")
    tab.page.locator("[data-run]").first.wait_for()
    for width in (1241, 1300, 1440, 1920):
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.page.evaluate(CUT_OFF) == [], width


@LONG
def test_the_usual_columns_fit_and_stand_under_their_heads(tab: Any, crowded: Any) -> None:
    """From the narrowest window with a table, no column is cut off or shifted."""
    tab.page.goto(crowded.base)
    tab.page.locator("[data-run]").first.wait_for()
    for width in (1241, 1290, 1360, 1440, 1920):
        tab.page.set_viewport_size({"width": width, "height": 900})
        assert tab.page.evaluate(CUT_OFF) == [], width
        head, row = tab.page.evaluate(TRACKS)
        assert head == row, width


TRACKS = """() => [".fl.head", ".fl.run"].map((selector) => {
    const style = getComputedStyle(document.querySelector(selector));
    return [style.gridTemplateColumns, style.columnGap, style.paddingLeft];
})"""
CUT_OFF = """() => {
    const { right } = document.querySelector(".fleet").getBoundingClientRect();
    return [...document.querySelectorAll(".fl.head > *, .fl.run > *")]
        .filter((each) => each.getBoundingClientRect().right > right).map((each) => each.textContent);
}"""
DRAWN = """(() => document.querySelector('[data-series=loss] .plot').data
    .filter((each) => each.mode === 'lines' && !each.fill).length)"""
FIRST = "document.querySelector('[data-run] .name a')?.textContent"
QUIET = """() => new Promise((done) => {
    let timer;
    const seen = new MutationObserver(() => rest());
    const end = () => { seen.disconnect(); done(); };
    const rest = () => { clearTimeout(timer); timer = setTimeout(end, 1500); };
    seen.observe(document.querySelector(".rows"), { childList: true, characterData: true, subtree: true });
    rest();
})"""
"""What is asked for beside the rows, such as sparklines of those that came into sight, is there."""
WATCH = """() => {
    globalThis.touched = new Set();
    const note = (all) => all.forEach(({ target }) => {
        const node = target.nodeType === 1 ? target : target.parentElement;
        const cell = node?.closest(".cell, .name, .c-step");
        if (cell) touched.add(cell.closest("[data-run]").dataset.run);
    });
    const what = { childList: true, characterData: true, subtree: true };
    new MutationObserver(note).observe(document.querySelector(".rows"), what);
}"""
