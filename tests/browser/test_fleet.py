"""The fleet page with two thousand runs: filters, sorting, keyboard, archiving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.crowd import crowd_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 2000


@pytest.fixture(scope="module")
def crowded(tower_of_the_module: Any) -> Any:
    """A server with two thousand runs, four hundred of them since it was started."""
    crowd_of(tower_of_the_module, RUNS, live=400)
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


def test_only_rows_in_sight_exist(tab: Any) -> None:
    """Of two thousand rows one screen exists, also at the end of the list."""
    tab.page.get_by_text("2\u202f000 runs").first.wait_for()
    assert tab.page.locator("[data-run]").count() < 60
    tab.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    end = tab.page.locator("[role=table]").get_attribute("aria-rowcount")
    last = tab.page.locator(f'[aria-rowindex="{end}"]')
    last.wait_for()
    last.locator(".spark").first.wait_for()
    assert tab.page.locator("[data-run]").count() < 60


def test_config_filters_and_columns_sort(tab: Any) -> None:
    """A filter by a config value and a sort by name are in the address, so they survive a reload."""
    tab.page.get_by_label("Filter runs").fill("config.batch_size=128 -tag:bf16")
    tab.page.get_by_text("200 of").wait_for()
    tab.page.get_by_label("Group by").select_option("none")
    tab.page.locator('[data-sort="name"]').click()
    tab.page.wait_for_url("**sort=name**")
    tab.page.reload()
    tab.page.get_by_text("200 of").wait_for()
    tab.page.wait_for_function(f"() => {FIRST} === 'run-0009'")
    assert names(tab) == sorted(names(tab))


def test_a_run_is_archived_and_the_archiving_undone(tab: Any) -> None:
    """By keyboard: E archives the focused run, Undo restores it."""
    tab.page.get_by_label("Filter runs").fill("run-0042")
    row = tab.page.locator('[data-run="c_0042"]')
    row.locator(".name a").focus()
    tab.page.keyboard.press("e")
    tab.page.get_by_role("button", name="Undo").wait_for()
    row.wait_for(state="detached")
    tab.page.get_by_role("button", name="Undo").click()
    row.wait_for()


def test_runs_are_picked_by_keyboard_to_compare(tab: Any) -> None:
    """J moves down, X selects, and the link to the comparison has the selected runs."""
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("x")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("x")
    link = tab.page.get_by_role("link", name="Compare 2 selected")
    link.wait_for()
    assert str(link.get_attribute("href")).count("run=c_") == 2


def test_all_that_a_filter_lists_are_compared(tab: Any) -> None:
    """Two hundred runs: a row each, traces grouped by style, non-finite values marked, each run can be
    highlighted."""
    tab.page.get_by_label("Filter runs").fill("config.batch_size=128 -tag:bf16")
    tab.page.get_by_text("200 of").wait_for()
    tab.page.get_by_label("Select all listed").click()
    tab.page.get_by_role("link", name="Compare 200 selected").click()
    tab.page.wait_for_function(f"() => document.querySelector('[data-series=loss] .xy') && {DRAWN}() === 60")
    assert tab.page.locator("tr[data-run]").count() == 200
    assert "NaN" in tab.page.locator('[data-series="loss"] .faults').inner_text()
    tab.page.locator("tr[data-run] th").nth(3).hover()
    tab.page.locator('[data-series="loss"] .lift path').wait_for(state="attached")


def test_an_update_redraws_only_the_cells_that_changed(
    tab: Any, crowded: Any, script: Callable[[str], str]
) -> None:
    """While a new run reports, no cell of another visible row is changed."""
    tab.page.get_by_label("Group by").select_option("none")
    tab.page.evaluate(QUIET)
    tab.page.evaluate(WATCH)
    with crowded.training(script("scripted"), "news", "r_news", "0", "40") as process:
        assert process.wait(120) == 0
    tab.page.locator('[data-run="r_news"]').wait_for()
    assert set(tab.page.evaluate("() => [...touched]")) <= {"r_news"}


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
