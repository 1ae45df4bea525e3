"""A report opens from disk, without server or network, and shows every non-finite value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN, SECOND = "r_reported", "r_other"
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\"'&amp;"
TRACES = """(name) => [...document.querySelectorAll('[data-series]')]
    .find((each) => each.dataset.series === name).querySelector('.chart')._fullData
    .map(({ mode, name, fill, x, y, line }) =>
        ({ mode, name, fill, ink: line?.color, x: [...x], y: [...y].map(String) }))"""


@pytest.fixture(scope="module")
def reported(shared_tower: Any, script: Callable[[str], str]) -> Any:
    """A server with a run whose name, notes, tags, config and series are hostile, and a second one."""
    for first in ("0", "20"):
        with shared_tower.training(script("scripted"), HOSTILE, RUN, first, "40") as process:
            assert process.wait(120) == 0
    with shared_tower.training(script("scripted"), "other", SECOND, "0", "40", "1") as process:
        assert process.wait(120) == 0
    return shared_tower


def marks_in(page: Page, series: str) -> dict[str, list[float]]:
    """Return the steps of the marks at the top of a chart, by kind."""
    drawn = page.evaluate(TRACES, series)
    return {each["name"]: each["x"] for each in drawn if not each["name"].startswith("trace ")}


class Paper:
    """A report opened from disk by a browser without network."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page, self.messages = page, list[str]()
        page.context.set_offline(True)
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("requestfailed", lambda request: self.messages.append(request.url[:80]))
        page.goto(path.as_uri())
        page.locator(".chart .xy").first.wait_for()


@pytest.fixture
def paper(chromium: Browser) -> Iterator[Callable[[Path], Paper]]:
    """``paper(path)``: fails on any console output or network request."""
    context = chromium.new_context(viewport={"width": 1200, "height": 1000}, color_scheme="dark")
    opened: list[Paper] = []

    def come(path: Path) -> Paper:
        opened.append(Paper(context.new_page(), path))
        return opened[-1]

    yield come
    messages = [text for one in opened for text in one.messages]
    context.close()
    assert messages == []


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test saves the report."""
    return tmp_path_factory.mktemp("report") / "run.html"


@pytest.fixture
def of_run(reported: Any, visit: Callable[..., Any], paper: Callable[[Path], Paper], file: Path) -> Paper:
    """The report of the hostile run, downloaded once with the button of its page."""
    if not file.exists():
        tab = visit(reported, None)
        tab.open_run(RUN)
        with tab.page.expect_download() as download:
            tab.page.get_by_role("link", name="Report", exact=True).click()
        download.value.save_as(file)
    return paper(file)


def test_every_non_finite_value_is_marked_at_its_step(of_run: Paper) -> None:
    """NaN at 7, +Inf at 8, -Inf at 9 of the loss, and the zero that a log axis cannot show."""
    assert marks_in(of_run.page, "loss") == {"nan": [7], "pinf": [8], "ninf": [9]}
    assert marks_in(of_run.page, "grad_norm") == {"zero": [11]}


def test_values_are_drawn_exactly_and_gaps_stay_gaps(of_run: Paper) -> None:
    """Both attempts are lines, including the replayed steps, and no line crosses a non-finite value."""
    traces = of_run.page.evaluate(TRACES, "loss")
    lines = [each for each in traces if each["mode"] == "lines" and each["fill"] == "none"]
    drawn = {step: value for line in lines for step, value in zip(line["x"], line["y"], strict=True)}
    assert sorted(drawn) == list(range(60))
    assert sum(len(line["x"]) for line in lines) == 80
    assert [drawn[step] for step in (7, 8, 9)] == ["NaN"] * 3
    assert float(drawn[6]) == 1 + 1 / 7


def test_alerts_are_complete_and_link_to_their_steps(of_run: Paper, reported: Any) -> None:
    """Each alert of the run has its likely cause and what to do; its onset links to the charts."""
    alerts = reported.get("/alerts", run=RUN)["items"]
    shown = of_run.page.locator("[data-alert]")
    assert {shown.nth(at).get_attribute("data-alert") for at in range(shown.count())} == {
        each["id"] for each in alerts
    }
    assert alerts
    of_run.page.locator('[data-step="7"]').first.click()
    of_run.page.locator("#here", has_text="step 7").wait_for()
    loss = of_run.page.locator('[data-series="loss"]')
    assert loss.locator(".hair").is_visible()
    expect(loss.locator(".readout")).to_have_text("NaN")


def test_external_text_is_never_markup(of_run: Paper) -> None:
    """Name, tags, notes, settings, events and series are shown literally."""
    page = of_run.page
    expect(page.locator("h1")).to_have_text(HOSTILE)
    assert page.locator("img, main script, main i:not(.swatch, .hair)").count() == 0
    links = page.locator(".notes a").evaluate_all("(all) => all.map((each) => each.href)")
    assert links == ["https://example.org/log"]
    page.locator("details").evaluate_all("(all) => all.forEach((each) => { each.open = true; })")
    page.get_by_text("<script>alert(1)</script>").first.wait_for()


@LONG
def test_a_report_follows_the_theme_and_prints(of_run: Paper) -> None:
    """The line has different colors in dark, light and print, and in print every chart is drawn."""
    ink = "() => document.querySelector('.chart').data.find((each) => each.line && !each.fill).line.color"
    dark = of_run.page.evaluate(ink)
    of_run.page.emulate_media(color_scheme="light")
    of_run.page.wait_for_function(f"(was) => ({ink})() !== was", arg=dark)
    assert of_run.page.evaluate(ink) == "rgb(34, 88, 183)"
    of_run.page.pdf()
    undrawn = "() => [...document.querySelectorAll('.chart')].filter((each) => !each.data).length"
    assert of_run.page.evaluate(undrawn) == 0


@LONG
def test_the_value_under_the_pointer_is_shown_in_all_charts(of_run: Paper) -> None:
    """All charts show the same step; without the pointer, none does."""
    box = of_run.page.locator(".chart .xy .nsewdrag").first.bounding_box()
    assert box
    of_run.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    of_run.page.wait_for_function("() => document.getElementById('here').textContent.startsWith('step ')")
    shown = of_run.page.locator("figure .readout").all_inner_texts()
    assert len(shown) > 1
    assert all(shown)
    of_run.page.mouse.move(1, 1)
    of_run.page.wait_for_function("() => document.getElementById('here').textContent === ''")


@LONG
def test_zooming_one_chart_zooms_all(of_run: Paper) -> None:
    """Dragging over the loss zooms every chart on the page; double click resets all."""
    range_of = "(at) => document.querySelectorAll('.chart')[at].layout.xaxis.range"
    box = of_run.page.locator(".chart .xy .nsewdrag").first.bounding_box()
    assert box
    of_run.page.mouse.move(box["x"] + 100, box["y"] + 50)
    of_run.page.mouse.down()
    of_run.page.mouse.move(box["x"] + 400, box["y"] + 50, steps=4)
    of_run.page.mouse.up()
    of_run.page.wait_for_function(f"() => ({range_of})(1)[0] > 2")
    assert of_run.page.evaluate(range_of, 0) == of_run.page.evaluate(range_of, 1)


@LONG
def test_a_comparison_is_one_file(
    reported: Any, visit: Callable[..., Any], paper: Callable[[Path], Paper], tmp_path: Path
) -> None:
    """Two runs in two colors, the setting in which they differ, the non-finite values of both."""
    tab = visit(reported, None)
    tab.page.goto(f"{reported.base}/compare?run={RUN}&run={SECOND}&series=act%2Fattn")
    with tab.page.expect_download() as download:
        tab.page.get_by_role("link", name="Report", exact=True).click()
    download.value.save_as(tmp_path / "both.html")
    opened = paper(tmp_path / "both.html").page
    traces = opened.evaluate(TRACES, "loss")
    assert [each["x"] for each in traces if each["name"] == "nan"] == [[7]]
    assert len({each["ink"] for each in traces if each["mode"] == "lines" and each["fill"] == "none"}) == 2
    table = opened.locator("section", has_text="Settings that differ").first
    expect(table).to_contain_text("lr")
    expect(opened.locator('[data-series="act/attn"]')).to_have_count(1)
