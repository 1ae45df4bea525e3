"""The rules page in a real Chromium: a rule is written, tested on a stored run, saved, disabled, deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_rules"


@pytest.fixture(scope="module")
def stored(shared_tower: Any, script: Callable[[str], str]) -> Any:
    """A server with one stored run of 60 steps."""
    with shared_tower.training(script("scripted"), "ruled", RUN, "0", "60") as process:
        assert process.wait(120) == 0
    return shared_tower


def rules(tower: Any) -> dict[str, Any]:
    return {rule["id"]: rule for rule in tower.get("/rules")["custom"]}


def remove(tower: Any, *ids: str) -> None:
    for rule in ids:
        headers = {"authorization": f"Bearer {tower.token}"}
        httpx.delete(f"{tower.base}/api/v1/rules/{rule}", headers=headers, timeout=60)


def until(true: Callable[[], Any], what: str) -> Any:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited for {what}")


def test_a_rule_is_written_by_keyboard_and_tested_on_a_stored_run(stored: Any, visit: Any) -> None:
    """While typing, the strip of the run shows where it would have fired; then it is saved and listed."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?new=1")
    page.get_by_label("Title").wait_for()
    page.keyboard.type("Loss is there")
    page.get_by_label("Runs", exact=True).fill(RUN)
    page.get_by_label("Limit", exact=True).fill("-1e9")
    row = page.locator(f'[data-trial="{RUN}"]')
    row.locator("svg .mark").first.wait_for(state="attached")
    assert "alert" in row.locator(".strip svg").get_attribute("aria-label")
    expect(page.locator(".ruleform pre")).to_contain_text('id = "loss-is-there"')
    page.keyboard.press("Enter")
    page.locator('[data-rule="loss-is-there"]').wait_for()
    assert page.url.endswith("/rules")
    assert rules(stored)["loss-is-there"]["limit"] == -1e9
    remove(stored, "loss-is-there")


@LONG
def test_a_chart_of_a_backtest_is_shown_larger(stored: Any, visit: Any) -> None:
    """With its alerts as links, and it stays large at the next test."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?new=1")
    page.get_by_label("Runs", exact=True).fill(RUN)
    page.get_by_label("Limit", exact=True).fill("-1e9")
    row = page.locator(f'[data-trial="{RUN}"]')
    row.get_by_role("button", name="Larger chart").click()
    assert row.locator(".is-large").bounding_box()["height"] > 200
    page.get_by_label("Limit", exact=True).fill("-2e9")
    page.get_by_text("is above −2e9").first.wait_for()
    expect(row.get_by_role("button", name="Larger chart")).to_have_attribute("aria-expanded", "true")
    assert row.get_by_role("link", name="step 0").get_attribute("href").startswith(f"/runs/{RUN}?")


@LONG
def test_a_doubtful_limit_becomes_a_ratio(stored: Any, visit: Any) -> None:
    """The warning has a button for it, and the sentence follows."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?new=1")
    page.get_by_label("Limit", exact=True).fill("5")
    page.get_by_role("button", name="its ratio to the mean over 200 steps").click()
    page.get_by_text("the newest value of loss divided by its mean over 200 steps is above 5").wait_for()
    assert page.get_by_role("button", name="its ratio to the mean").count() == 0


def test_errors_are_shown_at_their_fields(stored: Any, visit: Any) -> None:
    """The field shows the server's error, and the rule is not saved."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?new=1")
    page.get_by_label("Title").fill("Bad")
    page.get_by_label("Limit", exact=True).fill("five")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Expected a finite number, got five.").wait_for()
    expect(page.get_by_label("Limit", exact=True)).to_have_attribute("aria-invalid", "true")
    assert "bad" not in rules(stored)


@LONG
def test_an_unsaved_rule_is_kept_while_the_page_is_left(stored: Any, visit: Any) -> None:
    """An edit is kept after a click elsewhere, and gone after Discard."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?new=1")
    page.get_by_label("Title").fill("Half a rule")
    page.get_by_role("link", name="Fleet").first.click()
    page.go_back()
    page.get_by_text("Restored your unsaved changes").wait_for()
    expect(page.get_by_label("Title")).to_have_value("Half a rule")
    page.get_by_role("link", name="Discard").click()
    page.get_by_role("link", name="New rule").click()
    page.get_by_label("Title").wait_for()
    expect(page.get_by_label("Title")).to_have_value("")


@LONG
def test_each_unsaved_rule_is_kept_separately(stored: Any, visit: Any) -> None:
    """Opening another rule in between loses nothing; also for the settings of a built-in rule."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?new=1")
    page.get_by_label("Title").fill("Half a rule")
    page.get_by_label("Where").get_by_role("link", name="Rules").click()
    page.locator('[data-focus="open-loss-spike"]').click()
    page.get_by_label("Severity").select_option("critical")
    page.get_by_label("Where").get_by_role("link", name="Rules").click()
    page.get_by_role("link", name="New rule").click()
    page.get_by_text("Restored your unsaved changes").wait_for()
    expect(page.get_by_label("Title")).to_have_value("Half a rule")
    page.get_by_role("link", name="Discard").click()
    page.locator('[data-focus="open-loss-spike"]').click()
    page.get_by_text("Restored your unsaved changes").wait_for()
    expect(page.get_by_label("Severity")).to_have_value("critical")
    page.get_by_role("link", name="Discard").click()


@LONG
def test_a_rule_is_copied_disabled_deleted_and_restored(stored: Any, visit: Any) -> None:
    """Each takes effect immediately, and a button undoes it."""
    stored.post("/rules", {"id": "mine", "title": "Mine", "series": "loss", "comparison": ">", "limit": 1e9})
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?q=mine")
    page.get_by_role("switch", name="Enable Mine").click()
    until(lambda: rules(stored)["mine"]["enabled"] is False, "the rule to be off")
    page.get_by_role("button", name="Delete Mine").click()
    page.locator(".undo", has_text="Deleted: Mine").get_by_role("button", name="Undo").click()
    until(lambda: "mine" in rules(stored), "the rule to be back")
    page.get_by_role("button", name="Copy Mine").click()
    page.get_by_role("button", name="Save").click()
    page.locator('[data-rule="mine-copy"]').wait_for()
    assert rules(stored)["mine-copy"]["enabled"] is False
    remove(stored, "mine", "mine-copy")


def test_a_pack_and_a_built_in_rule_are_enabled_and_disabled(stored: Any, visit: Any) -> None:
    """The pack's rules are switched together; a built-in rule is off in all projects, and on again."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules")
    page.get_by_role("switch", name="Enable pack Adversarial training").click()
    page.locator('[data-rule="gan-critic-large"]').wait_for()
    page.get_by_role("switch", name="Enable pack Adversarial training").click()
    page.locator('[data-rule="gan-critic-large"]').wait_for(state="detached")
    for on in (False, True):
        page.locator(f'[aria-label="Enable Plateau"][aria-checked="{str(not on).lower()}"]').click()
        until(lambda on=on: built_in(stored, "plateau")["enabled"] is on, "the rule to be switched")  # type: ignore[misc]
    assert built_in(stored, "plateau")["tunings"] == []


def built_in(tower: Any, rule: str) -> Any:
    return next(item for item in tower.get("/rules")["items"] if item["id"] == rule)


@LONG
def test_a_built_in_rule_is_set_for_a_project(stored: Any, visit: Any) -> None:
    """Severity and a number; an invalid number is reported at its field."""
    page = visit(stored, None).page
    page.goto(f"{stored.base}/rules?rule=loss-spike&project=elsewhere")
    page.get_by_label("Severity", exact=True).select_option("info")
    page.get_by_label("Relative", exact=True).fill("-3")
    page.get_by_role("button", name="Save").click()
    page.locator("[data-field='settings.relative'][aria-invalid]").wait_for()
    page.get_by_label("Relative", exact=True).fill("0.7")
    page.get_by_role("button", name="Save").click()
    page.locator('[data-rule="loss-spike"]').wait_for()
    (tuning,) = built_in(stored, "loss-spike")["tunings"]
    assert (tuning["project"], tuning["severity"], tuning["settings"]) == (
        "elsewhere",
        "info",
        {"relative": 0.7},
    )
    headers = {"authorization": f"Bearer {stored.token}"}
    httpx.delete(f"{stored.base}/api/v1/rules/loss-spike/settings?project=elsewhere", headers=headers)


@LONG
def test_the_address_has_the_view_and_no_page_is_wider_than_a_phone(stored: Any, visit: Any) -> None:
    """Search and filters are read from the address and written to it."""
    page = visit(stored, None).page
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{stored.base}/rules?q=scaler&severity=critical")
    page.locator('[data-rule="scaler-collapse"]').wait_for()
    assert page.locator('[data-rule="loss-spike"]').count() == 0
    page.get_by_label("Search rules").fill("no such rule")
    page.get_by_text("No built-in rule matches.").wait_for()
    assert "q=no+such+rule" in page.url
    for address in ("/rules", "/rules?new=1", "/rules?rule=loss-spike", "/rules?rule=none"):
        page.goto(f"{stored.base}{address}")
        page.locator("h1").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
