"""Saved views of the fleet: for all users, one of them the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.browser.crowd import crowd_of
from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]
RUNS = 12
MADE = {"name": "best loss", "columns": "name,min:loss", "sort": "min:loss", "grouping": "none"}


@pytest.fixture(scope="module")
def crowded(tower_of_the_module: Any) -> Any:
    """A server with ended runs of four projects."""
    crowd_of(tower_of_the_module, RUNS)
    return tower_of_the_module


@pytest.fixture
def tab(crowded: Any, visit: Callable[..., Any]) -> Any:
    """Its fleet page without saved views."""
    headers = {"authorization": f"Bearer {crowded.token}"}
    for view in crowded.get("/views")["items"]:
        httpx.delete(f"{crowded.base}/api/v1/views/{view['id']}", headers=headers).raise_for_status()
    tab = visit(crowded)
    tab.page.locator("[data-run]").first.wait_for()
    return tab


def choose(tab: Any, text: str) -> None:
    """Select an item of the menu of views."""
    tab.page.get_by_role("button", name="Views").click()
    tab.page.get_by_role("menu", name="Saved views").get_by_text(text, exact=True).click()


def heads(tab: Any) -> list[str]:
    found: list[str] = tab.page.locator("[role=columnheader] button").all_inner_texts()
    return found


def test_a_view_is_saved_and_shown_again(tab: Any) -> None:
    """With its filter, columns and order; another browser finds it by its name in the address."""
    query = "q=tag:fp16&columns=name,min:loss&sort=min:loss&group=none"
    tab.page.goto(f"{tab.tower.base}/?{query}")
    choose(tab, "Save as a new view")
    tab.page.get_by_label("Name").fill("best of fp16")
    tab.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    tab.page.get_by_role("dialog").wait_for(state="detached")
    choose(tab, "Standard view")
    tab.page.wait_for_function("() => document.querySelectorAll('.colhead').length > 5")
    tab.page.goto(f"{tab.tower.base}/?view=best+of+fp16")
    tab.page.get_by_text(f"{RUNS // 2} of {RUNS} runs").wait_for()
    assert heads(tab) == ["Run", "loss min ↑"]


def test_a_view_is_changed_and_deleted(tab: Any) -> None:
    view = tab.tower.post("/views", MADE)
    tab.page.reload()
    choose(tab, "best loss")
    tab.page.get_by_label("Filter runs").fill("tag:bf16")
    choose(tab, "Save changes to best loss")
    tab.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    tab.page.get_by_role("dialog").wait_for(state="detached")
    assert tab.tower.get("/views")["items"][0] | {"updated_ms": 0} == view | {
        "filter": "tag:bf16", "updated_ms": 0,
    }  # fmt: skip
    choose(tab, "Rename or delete…")
    tab.page.get_by_role("button", name="Delete best loss").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_text("No saved views.").wait_for()
    assert tab.tower.get("/views")["items"] == []


def test_a_view_is_renamed_without_showing_it(tab: Any) -> None:
    """The page keeps what it shows."""
    tab.tower.post("/views", MADE)
    tab.page.reload()
    tab.page.locator("[data-run]").first.wait_for()
    before = heads(tab)
    choose(tab, "Rename or delete…")
    tab.page.get_by_role("button", name="Edit best loss").click()
    tab.page.get_by_label("Name").fill("lowest loss")
    tab.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    tab.page.get_by_role("button", name="Edit lowest loss").wait_for()
    tab.page.get_by_role("button", name="Done").click()
    assert (heads(tab), tab.tower.get("/views")["items"][0]["name"]) == (before, "lowest loss")


def test_the_default_is_shown_at_first(tab: Any) -> None:
    """That of all projects without a filter, that of a project for a filter by it."""
    tab.tower.post("/views", MADE | {"is_default": True})
    tab.tower.post("/views", MADE | {"project": "nmt", "columns": "name,max:loss", "is_default": True})
    tab.page.goto(tab.tower.base)
    tab.page.locator('[data-column="min:loss"]').wait_for()
    tab.page.goto(f"{tab.tower.base}/?q=project:nmt")
    tab.page.locator('[data-column="max:loss"]').wait_for()
    tab.page.get_by_text(f"{RUNS // 4} of {RUNS} runs").wait_for()


def test_the_standard_view_stays_after_a_reload(tab: Any) -> None:
    """The address says so; without it, the default is shown again."""
    tab.tower.post("/views", MADE | {"is_default": True})
    tab.page.goto(tab.tower.base)
    tab.page.locator('[data-column="min:loss"]').wait_for()
    choose(tab, "Standard view")
    tab.page.reload()
    tab.page.locator("[data-run]").first.wait_for()
    tab.page.get_by_role("button", name="Views").click()
    assert "loss min" not in heads(tab)


def test_a_name_in_use_is_said_at_the_field(tab: Any) -> None:
    tab.tower.post("/views", MADE)
    choose(tab, "Save as a new view")
    tab.page.get_by_label("Name").fill("best loss")
    tab.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    tab.page.locator(".fielderror", has_text="Expected an unused name").wait_for()


def test_a_view_that_does_not_exist_is_named(tab: Any) -> None:
    """The address was shared before the view was deleted."""
    tab.page.goto(f"{tab.tower.base}/?view=gone")
    tab.page.locator(".undo", has_text="No view “gone”: renamed or deleted").wait_for()
