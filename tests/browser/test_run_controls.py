"""The run page's controls: stored in the address, exact files, external data shown as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN, EARLIER = "r_controls", "r_controls_before"
Train = Callable[..., None]


@pytest.fixture(scope="module")
def run(shared_tower: Any, script: Callable[[str], str]) -> str:
    """A run of two attempts: steps 0 to 39, then again from 20 to 59; before it, one of the same name."""
    trained = [("controls 1", EARLIER, "0"), ("controls 2", RUN, "0"), ("controls 2", RUN, "20")]
    for name, run_id, first in trained:
        with shared_tower.training(script("scripted"), name, run_id, first, "40") as process:
            assert process.wait(120) == 0
    return RUN


def choose(tab: Any, series: str, item: str) -> None:
    """Open a chart's menu and select an item."""
    tab.page.locator(f'[data-series="{series}"] .menubutton').click()
    tab.page.get_by_role("menu").get_by_text(item, exact=True).click()


LINES = """document.querySelector('[data-series=loss] .plot').data
    .filter((each) => each.mode === 'lines' && !each.fill)"""
VIOLATIONS = """
    globalThis.bad = [];
    addEventListener('securitypolicyviolation', (event) => bad.push(event.blockedURI));
"""


def lines(tab: Any) -> int:
    """Return the number of lines in the chart of the loss, without envelopes and marks."""
    return int(tab.page.evaluate(f"() => {LINES}.length"))


def test_the_address_has_the_settings_of_the_charts(tab: Any) -> None:
    """X axis, smoothing and a log axis are in the address, so they survive a reload."""
    tab.page.locator('[data-x="relative"]').click()
    tab.page.get_by_label("Smoothing").fill("0.7")
    choose(tab, "lr", "Log (powers of ten)")
    tab.page.wait_for_url("**axis=log%3Alr*")
    tab.page.reload()
    tab.page.locator('[data-series="lr"] .plot .xy').first.wait_for()
    expect(tab.page.locator('[data-x="relative"]')).to_have_attribute("aria-pressed", "true")
    expect(tab.page.get_by_label("Smoothing")).to_have_value("0.7")
    axis = "document.querySelector('[data-series=lr] .plot')._fullLayout.yaxis.type"
    tab.until(lambda: tab.page.evaluate(axis), "log")


def test_smoothing_keeps_the_raw_line_and_every_mark(tab: Any) -> None:
    """With smoothing on, the raw line and the three marks are drawn as before."""
    before = lines(tab)
    tab.page.get_by_label("Smoothing").fill("0.8")
    tab.page.wait_for_function(f"(n) => {LINES}.length > n", arg=before)
    faults = tab.page.locator('[data-series="loss"] .faults').inner_text()
    assert all(kind in faults for kind in ("NaN", "+Inf", "−Inf"))


@LONG
@pytest.mark.parametrize(
    ("kind", "unit"), represented([("time", "Weight"), ("gaussian", "Points"), ("mean", "Points")])
)
def test_a_kind_of_smoothing_is_chosen_and_its_amount_typed(kind: str, unit: str, tab: Any) -> None:
    """The kind and a typed amount are in the address and survive a reload; a typed amount is limited."""
    tab.page.get_by_label("Kind of average").select_option(kind)
    tab.page.wait_for_url(f"**smoothing={kind}*")
    amount = tab.page.get_by_label(unit, exact=True)
    amount.fill("9000")
    amount.press("Enter")
    tab.page.reload()
    tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    expect(tab.page.get_by_label("Kind of average")).to_have_value(kind)
    expect(amount).to_have_value({"Weight": "0.99", "Points": "200"}[unit])


def test_an_older_attempt_can_be_shown(tab: Any) -> None:
    """Selecting attempt 1 draws the replayed steps completely and in a different color."""
    tab.page.locator('[data-attempt="1"]').click()
    tab.page.wait_for_url("**attempt=1*")
    tab.page.wait_for_function(f"() => {LINES}.filter((each) => each.opacity === 1).length === 3")


@LONG
def test_a_run_is_compared_with_its_previous_attempt(tab: Any) -> None:
    """From the menu Compare: the attempt is drawn completely; Attempts shows what changed."""
    compare = tab.page.get_by_role("button", name="Compare", exact=True)
    compare.click()
    tab.page.get_by_role("menuitemcheckbox", name="Previous attempt").click()
    tab.page.wait_for_url("**attempt=1*")
    tab.page.wait_for_function(f"() => {LINES}.filter((each) => each.opacity === 1).length === 3")
    tab.page.get_by_role("tab", name="Attempts").click()
    changed = tab.page.get_by_role("region", name="What changed")
    expect(changed).to_contain_text("Compared with attempt 1")
    expect(changed).to_contain_text("0 → 20")


@LONG
def test_a_run_is_compared_with_the_previous_run_of_its_name(tab: Any) -> None:
    """The newest earlier run of the project whose name differs only in its number."""
    tab.page.get_by_role("button", name="Compare", exact=True).click()
    tab.page.get_by_role("menuitem", name="previous run").click()
    tab.page.wait_for_url(f"**/compare?run={EARLIER}&run={RUN}&base={EARLIER}")
    tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()


def test_the_csv_of_a_panel_is_exact(tab: Any, tmp_path: Path) -> None:
    """The file of a chart has every record, with NaN and both infinities as text."""
    with tab.page.expect_download() as download:
        choose(tab, "loss", "CSV of all records in the window")
    download.value.save_as(tmp_path / "loss.csv")
    rows = [line.split(",") for line in (tmp_path / "loss.csv").read_text("utf-8").splitlines()]
    at, step = rows[0].index("loss"), rows[0].index("step")
    reported = [(int(row[step]), row[at]) for row in rows[1:] if row[at]]
    found = dict(reported)
    assert len(reported) == 80
    assert [found[n] for n in (7, 8, 9)] == ["nan", "inf", "-inf"]


@LONG
@pytest.mark.parametrize(("kind", "begins"), [("PNG", b"\x89PNG"), ("SVG", b"<svg")])
def test_a_panel_is_saved_as_a_picture(kind: str, begins: bytes, tab: Any, tmp_path: Path) -> None:
    """Charts are drawn, PNG and SVG are created, and the Content-Security-Policy reports nothing."""
    tab.page.add_init_script(VIOLATIONS)
    tab.page.reload()
    tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    with tab.page.expect_download() as download:
        choose(tab, "loss", kind)
    download.value.save_as(tmp_path / "picture")
    assert (tmp_path / "picture").read_bytes().startswith(begins)
    assert tab.page.evaluate("() => bad") == []


@LONG
def test_series_are_filtered_pinned_and_moved_by_keyboard(tab: Any) -> None:
    """Part of a name filters, a pin moves a series to the top, arrow keys change the order."""
    tab.page.get_by_label("Filter metrics").fill("^act/")
    section = tab.page.locator('[data-section="act"] [data-series]')
    tab.page.wait_for_function("() => document.querySelectorAll('.sections [data-series]').length === 2")
    section.first.locator(".grip").focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.wait_for_url("**order=*")
    expect(section.first).to_have_attribute("data-series", "act/mlp")
    choose(tab, "act/attn", "Pin to the top")
    pinned = tab.page.locator('[data-section="pinned"] [data-series]')
    pinned.wait_for()
    expect(pinned).to_have_attribute("data-series", "act/attn")


@LONG
def test_a_panel_is_full_screen_until_escape(tab: Any) -> None:
    """Full screen and back by keyboard."""
    choose(tab, "loss", "Full screen")
    tab.page.wait_for_url("**full=loss*")
    height = "() => document.querySelector('[data-series=loss] .plot').clientHeight"
    tab.page.wait_for_function(f"() => ({height})() > 900")
    tab.page.keyboard.press("Escape")
    tab.page.wait_for_function(f"() => ({height})() < 400")
    assert "full=" not in tab.page.url


def test_hostile_notes_tags_config_and_series_are_text(tab: Any) -> None:
    """Markup in notes, tags, config, events and series is shown literally; no link runs a script."""
    tab.page.locator('[data-series="<img src=x onerror=alert(1)>"]').wait_for()
    for name in ("Notes", "Events", "Config"):
        tab.page.get_by_role("tab", name=name, exact=True).click()
    assert tab.page.locator("main img, main i:text('tag'), main script").count() == 0
    expect(tab.page.locator(".markdown strong")).to_have_text("Baseline")
    links = tab.page.locator(".markdown a").evaluate_all("(all) => all.map((each) => each.href)")
    assert links == ["https://example.org/log"]


@LONG
def test_the_values_of_a_chart_are_readable_as_a_table(tab: Any) -> None:
    """The table has every digit, and words for non-finite values."""
    choose(tab, "loss", "Show values")
    table = tab.page.get_by_role("dialog").locator("tbody")
    table.get_by_text("NaN").wait_for()
    assert {"+Inf", "−Inf"} <= set(table.locator("td").all_inner_texts())
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("dialog").wait_for(state="detached")


@LONG
def test_the_layers_of_a_blow_up_are_a_heat_map(
    shared_tower: Any, visit: Callable[..., Any], script: Callable[[str], str]
) -> None:
    """After a NaN gradient, the map names the first non-finite layers and can be read with the arrow keys."""
    with shared_tower.training(script("root_of_negative")) as process:
        assert process.wait(300) == 0
    run = shared_tower.run_named("root-of-negative")["id"]
    tab = visit(shared_tower, None)
    tab.open_run(run)
    heat = tab.page.get_by_label("Gradient norms by layer", exact=True)
    heat.get_by_text("First non-finite value at step").wait_for()
    heat.locator("canvas").focus()
    tab.page.keyboard.press("ArrowLeft")
    heat.get_by_role("status").filter(has_text="step").wait_for()


def point(tab: Any, series: str, step: float) -> Any:
    """Move the pointer to a step of a chart, and return the tooltip once it is there."""
    tooltip = tab.page.locator(".tooltip", has_text=f"step {step:.0f} ")
    tab.point_at(series, step, 0.3, tooltip)
    return tooltip


@LONG
def test_a_tooltip_has_value_step_and_time(tab: Any) -> None:
    """Of the series under the pointer, also of a metric below; a fault has its name; it leaves with the
    pointer."""
    said = point(tab, "loss", 8).inner_text()
    assert "+Inf" in said
    assert "Loss · attempt 1" in said
    assert ":" in said.splitlines()[0]
    metric = tab.page.locator('[data-series="act/attn"] .plot')
    metric.scroll_into_view_if_needed()
    metric.locator(".xy").first.wait_for()
    tooltip = point(tab, "act/attn", 33)
    expect(tooltip.locator("b")).to_have_text("3")
    tab.page.mouse.move(2, 2)
    tooltip.wait_for(state="hidden")


@LONG
def test_a_click_pins_the_tooltip_until_escape(tab: Any) -> None:
    """It stays when the pointer leaves, with the cross line, and both leave with Escape."""
    tooltip = point(tab, "loss", 30)
    tab.page.mouse.down()
    tab.page.mouse.up()
    tab.page.locator(".tooltip.is-pinned").wait_for()
    tab.page.mouse.move(2, 2)
    tab.page.wait_for_url("**at=30*")
    expect(tooltip).to_contain_text("step 30 ")
    assert tab.page.locator(".cross.pinned").is_visible()
    tab.page.keyboard.press("Escape")
    tooltip.wait_for(state="hidden")
    tab.page.locator(".cross").wait_for(state="hidden")


@LONG
def test_a_chart_starts_a_rule_that_lacks_only_its_limit(tab: Any) -> None:
    """The rule is for the series of the chart, in the project of the run."""
    tab.page.get_by_role("button", name="Chart menu of Grad norm").click()
    tab.page.get_by_role("menuitem", name="New alert rule").click()
    tab.page.locator("[data-field=limit]:focus, [data-field=limit] :focus").wait_for()
    expect(tab.page.locator("[data-field=series]")).to_have_value("grad_norm")
    assert tab.page.locator("[data-field=projects]").input_value() != ""


@LONG
def test_a_run_is_compared_with_runs_that_are_chosen(tab: Any, run: str) -> None:
    """The menu leads to the runs of the project, with this one selected."""
    tab.page.get_by_role("button", name="Compare", exact=True).click()
    tab.page.get_by_role("menuitem", name="Runs that you choose").click()
    tab.page.wait_for_url(f"**pick={run}*")
    tab.page.locator(f"[data-run='{run}']").get_by_role("checkbox", checked=True).wait_for()


@LONG
def test_keys_in_a_dialog_leave_the_page_behind_it(tab: Any) -> None:
    """R, which shows the whole run, does not reset the zoom while the list of keys is open."""
    tab.page.keyboard.press("+")
    tab.page.wait_for_url("**from=*")
    tab.page.keyboard.press("?")
    tab.page.get_by_role("dialog").get_by_role("button", name="Close").focus()
    tab.page.keyboard.press("r")
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("dialog").wait_for(state="detached")
    assert "from=" in tab.page.url
