"""What a training reports, from its script through socket and store to the API and its page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
STEPS, BAD, LATE = 150, 60, 140
"""As in ``trainings/talkative.py``."""


@pytest.fixture(scope="module")
def run(
    shared_tower: Any, script: Callable[[str], str], run_of: Callable[..., str], eventually_true: Any
) -> str:
    """A run that has reported everything and has failed."""
    with shared_tower.training(script("talkative"), "talkative") as process:
        assert process.wait(300) == 1
    found = run_of(shared_tower, "talkative")
    eventually_true(lambda: shared_tower.get(f"/runs/{found}")["state"] == "failed", "the end of the run")
    return found


@pytest.fixture(scope="module")
def steps(run: str, shared_tower: Any) -> dict[str, list[int]]:
    """Return the name of each series -> its steps, in the order of arrival."""
    found: dict[str, list[int]] = {}
    for record in shared_tower.records(run):
        for name in record["values"]:
            found.setdefault(name, []).append(record["step"])
    return found


def test_every_series_has_its_steps(steps: dict[str, list[int]]) -> None:
    """Vital signs at every step, checks of both micro-steps, nested, sparse and late names."""
    every = list(range(STEPS))
    for name in ("loss", "loss_n", "grad_norm", "scale", "lr", "skipped", "stepped", "probe/mean", "index"):
        assert steps[name] == every, name
    for name in ("nonfinite/batch", "loss/near", "loss/flat"):
        assert steps[name] == [step for step in every for _ in range(2)], name
    assert steps["val/psnr"] == [49, 99, 149]
    assert steps["late"] == every[LATE:]


def test_every_event_reaches_the_api(run: str, shared_tower: Any) -> None:
    """Events with their steps and data: expected, metric, phases, checkpoints, the bad batch by name."""
    events = shared_tower.get(f"/runs/{run}/events", limit=1000)["items"]
    reported = {
        kind: [(e["step"], e["data"]) for e in events if e["kind"] == kind]
        for kind in {e["kind"] for e in events}
    }
    assert reported["expect"] == [(0, {"what": "lr-restart", "steps": [100]})]
    assert reported["metric"] == [(49, {"name": "val/psnr", "goal": "max", "unit": "dB"})]
    assert reported["checkpoint"][-1] == (149, {"path": "step-149.pt"})
    assert [(step, data["state"]) for step, data in reported["phase"]][:2] == [(49, "begin"), (49, "end")]
    assert reported["loss-components"] == [(0, {"names": ["near", "flat"]})]
    assert (BAD, {"id": f"shard-{BAD}"}) in reported["batch"]
    ((step, data),) = reported["nonfinite-input"]
    assert (step, data["inputs"][0]["name"], data["inputs"][0]["nan"]) == (BAD, "image", 1)


def test_the_page_says_why_it_failed(run: str, tab: Any, shared_tower: Any) -> None:
    """Out of memory: type and message on top, the last lines of the traceback below."""
    assert shared_tower.get(f"/runs/{run}")["error"]["type"] == "OutOfMemoryError"
    card = tab.page.get_by_label("How the run ended")
    card.get_by_text("Tried to allocate 2.00 GiB").first.wait_for()
    expect(card.get_by_role("heading")).to_contain_text("OutOfMemoryError")
    card.get_by_text("Last lines").click()
    card.locator("pre", has_text="talkative.py").wait_for()


def test_the_page_says_where_the_norm_comes_from(tab: Any) -> None:
    """The script's own clip, with its threshold."""
    tab.page.locator('[data-series="grad_norm"]').get_by_text("from the script's clipping at 0.5").wait_for()


@LONG
def test_the_overhead_gauge_has_a_number(tab: Any) -> None:
    """Microseconds per step and their share of it, as measured by the hook."""
    gauge = tab.page.locator(".gauge", has_text="Overhead")
    gauge.get_by_text("µs/step").wait_for()
    expect(gauge).to_contain_text("% of the step")


@LONG
def test_the_config_check_lists_findings_and_remedies(tab: Any) -> None:
    """A scaler in the wrong place, a rate far out of range, masked and clamped values; each with a remedy."""
    tab.page.get_by_role("tab", name="Config check").click()
    rows = tab.page.locator("table.configcheck tbody tr")
    rows.first.wait_for()
    found = {row.locator("code").inner_text(): row.inner_text() for row in rows.all()}
    assert {"scaler-settings", "lr-range", "masked-values", "clamped-values"} <= set(found)
    assert "growth_interval" in found["scaler-settings"]
    assert "2 times" in found["clamped-values"]
    assert all(row.locator('[data-head="Remedy"]').inner_text() for row in rows.all())
