"""The log tab of a run: what the script printed, beside the step at which it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
FAILING = """
import sys, tocsin
run = tocsin.watch("printing", name="printing", resume="r_printing", exit_timeout=60)
for step in range(40):
    run.log({"loss": 1 / (1 + step)}, step=step)
    print(f"epoch <b>{step}</b> is done")
print("a last warning", file=sys.stderr)
raise ValueError("the disk with the data is gone")
"""


@pytest.fixture(scope="module")
def printed(tower_of_the_module: Any) -> Any:
    """A server with a run that printed and failed."""
    with tower_of_the_module.training("-c", FAILING) as process:
        assert process.wait(120) == 1
    return tower_of_the_module


@pytest.fixture
def tab(printed: Any, visit: Callable[..., Any]) -> Any:
    """The page of that run, whose log is open because it failed."""
    opened = visit(printed, None)
    opened.open_run("r_printing")
    opened.page.get_by_role("log").wait_for()
    return opened


def test_the_log_of_a_failed_run_is_open_and_ends_with_the_reason(tab: Any) -> None:
    """Its newest lines are in view, text is never markup, and errors are named."""
    last = tab.page.locator(".console li").last
    last.get_by_text("ValueError: the disk with the data is gone").wait_for()
    expect(last).to_contain_text("stderr")
    assert last.evaluate(
        "(one) => one.getBoundingClientRect().bottom <= one.parentNode.getBoundingClientRect().bottom + 1"
    )
    expect(tab.page.get_by_text("epoch <b>39</b> is done")).to_have_count(1)


def test_lines_are_filtered_by_their_text(tab: Any) -> None:
    tab.page.get_by_label("Filter the log").fill("LAST WARN")
    tab.page.get_by_text("1 line", exact=True).wait_for()
    expect(tab.page.get_by_role("log")).to_contain_text("a last warning")
    tab.page.get_by_label("Filter the log").fill("nowhere")
    tab.page.get_by_text("No line has this text.").wait_for()


def test_the_step_of_a_line_and_the_line_of_the_charts_find_each_other(tab: Any) -> None:
    """Selecting a step moves the cross line there; the log marks the line of that step."""
    row = tab.page.locator(".console li", has_text="epoch <b>12</b>")
    row.get_by_role("button").click()
    tab.page.wait_for_url("**at=12*")
    tab.page.locator(".console li[aria-current]", has_text="epoch <b>12</b>").wait_for()
