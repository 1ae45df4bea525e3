"""Steps, times and metrics as x axis of a run and of a comparison."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser import overnight
from tests.browser.overnight import NAN_AT, NIGHT_S, STEPS, TOKENS
from tests.matrix import LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
LINE = """(series) => {
    const lines = (document.querySelector(`[data-series="${series}"] .plot`)?.data ?? [])
        .filter((each) => each.mode.startsWith("lines") && !each.fill && each.yaxis !== "y2");
    return lines.flatMap(({ x, y }, line) => [
        ...(line ? [[null, null]] : []),
        ...[...x].map((at, i) => [at, Number.isFinite(y[i]) ? y[i] : null]),
    ]);
}"""


@pytest.fixture(scope="module")
def nights(tower_of_the_module: Any) -> Any:
    """A server with a run that was killed at night and resumed, and one that was not."""
    tower_of_the_module.stop()
    overnight.store(tower_of_the_module.directory / "tocsin.db")
    tower_of_the_module.start()
    return tower_of_the_module


@pytest.fixture
def tab(nights: Any, visit: Callable[..., Any]) -> Any:
    """A tab of it."""
    return visit(nights)


def points(tab: Any, series: str, until: str) -> list[tuple[float, float | None]]:
    """Return the points of a chart's lines, once a condition on them (``all``) holds."""
    tab.page.wait_for_function(f"(series) => {{ const all = ({LINE})(series); return {until}; }}", arg=series)
    return [(x, y) for x, y in tab.page.evaluate(LINE, series)]


def asked(tab: Any) -> dict[str, list[str]]:
    """Return the parameters of the address."""
    return parse_qs(urlsplit(tab.page.url).query)


def choose(tab: Any, metric: str) -> None:
    """Select a metric as x axis."""
    tab.page.get_by_label("Metric as x axis").select_option(metric)
    tab.page.wait_for_url("**x=metric*")


@LONG
def test_the_chart_of_a_scale_that_a_run_lacks_is_never_shown_open(tab: Any) -> None:
    """From the first frame on, the learning rate is where it stays."""
    tab.page.add_init_script("""
        window.places = new Set();
        const look = () => {
            const rate = document.querySelector('[data-series="lr"]');
            const loss = document.querySelector('[data-series="loss"]');
            if (rate?.checkVisibility({ visibilityProperty: true }))
                places.add(rate.offsetTop - loss.offsetTop);
            requestAnimationFrame(look);
        };
        look();""")
    tab.open_run("o_whole")
    assert len(tab.page.evaluate("[...places]")) == 1


@LONG
def test_a_metric_is_the_x_axis_of_all_charts_of_a_run(tab: Any) -> None:
    """Each loss is at the tokens of its step; the address has the choice, and a reload keeps it."""
    tab.open_run("o_whole")
    choose(tab, "tokens")
    tab.page.reload()
    found = points(tab, "loss", "all.length && all.at(-1)[0] > 1e6")
    xs = [x for x, _ in found]
    assert xs == [step * TOKENS for step in range(STEPS)]
    assert asked(tab)["x"] == ["metric:tokens"]
    tab.page.locator('[data-series="loss"] .vh', has_text="The x axis is tokens.").wait_for(state="attached")


def test_values_without_the_metric_are_left_out_and_counted(tab: Any) -> None:
    """Before step 50 there is no epoch; the head of each chart says how many values that are."""
    tab.open_run("o_whole")
    choose(tab, "train/epoch")
    found = points(tab, "lr", "all.length && all.at(-1)[0] < 4")
    assert {x for x, _ in found} == {0.5, 1, 1.5, 2, 2.5}
    head = tab.page.locator('[data-series="lr"] .panelhead')
    head.get_by_text("50 values without train/epoch left out").wait_for()


def test_a_fault_keeps_its_place_on_a_metric(tab: Any) -> None:
    """The NaN of step 40 is marked at the tokens of step 40, and the tooltip names step and tokens."""
    tab.open_run("o_whole", "?x=metric%3Atokens")
    points(tab, "loss", "all.length && all.at(-1)[0] > 1e6")
    mark = """() => [...document.querySelector('[data-series=loss] .plot').data
        .find((each) => each.name === "nan").x]"""
    assert tab.page.evaluate(mark) == [NAN_AT * TOKENS]
    tab.page.mouse.move(*tab.place("loss", NAN_AT * TOKENS, 0.3))
    said = tab.page.locator(".tooltip", has_text=f"step {NAN_AT} ").inner_text()
    assert "NaN" in said
    assert "tokens 1.638e5" in said


@LONG
def test_a_zoom_on_a_metric_shows_its_range(tab: Any) -> None:
    """A drag on the learning rate, which rises and falls, shows that range of it; R shows all again."""
    tab.open_run("o_whole", "?x=metric%3Alr")
    points(tab, "loss", "all.length && all.at(-1)[0] < 1e-3")
    left, right = tab.place("loss", 2e-4, 0.5), tab.place("loss", 4e-4, 0.5)
    tab.page.mouse.move(*left)
    tab.page.mouse.down()
    tab.page.mouse.move(*right, steps=5)
    tab.page.mouse.up()
    tab.page.wait_for_url("**xfrom=*")
    low, high = tab.shown_range()
    assert low == pytest.approx(2e-4, rel=0.02)
    assert high == pytest.approx(4e-4, rel=0.02)
    tab.page.keyboard.press("r")
    tab.page.wait_for_function("() => !location.search.includes('xfrom')")


@LONG
@pytest.mark.parametrize("page", ["run", "compare"])
def test_a_log_axis_shows_the_first_steps_one_by_one(page: str, tab: Any) -> None:
    """Of a run of 40,000 steps, of which a linear axis shows buckets. What is at step 0 is left out."""
    if page == "run":
        tab.open_run("o_long")
    else:
        tab.page.goto(f"{tab.tower.base}/compare?run=o_long&run=o_whole")
    tab.page.get_by_label("Log x axis").click()
    tab.page.wait_for_url("**logx=1*")
    found = points(tab, "loss", "all.length > 100 && all[1][0] < 0.31 && all[2][0] < 0.48")
    assert [10**x for x, _ in found[:9]] == pytest.approx(list(range(1, 10)))
    assert found[8][1] == pytest.approx(2 * math.exp(-9 / 120) + 0.3 + 0.02 * math.sin(9))
    tab.page.get_by_label("Log x axis").click()
    points(tab, "loss", "all.length > 100 && all[1][0] > 10")


@LONG
def test_a_picture_names_its_x_axis(tab: Any, tmp_path: Any) -> None:
    """A chart on its own has no page around it that says so."""
    tab.open_run("o_whole", "?x=metric:tokens&logx=1")
    points(tab, "loss", "all.length > 100")
    tab.page.locator('[data-series="loss"] .menubutton').click()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("menu").get_by_text("SVG", exact=True).click()
    download.value.save_as(tmp_path / "loss.svg")
    assert "tokens (log)" in (tmp_path / "loss.svg").read_text()


@LONG
def test_runs_are_compared_by_a_metric(tab: Any) -> None:
    """The same control; a zoom is in units of the metric, and each run is asked for its own steps."""
    tab.page.goto(f"{tab.tower.base}/compare?run=o_killed&run=o_whole")
    tab.page.locator('[data-series="loss"] .plot .xy').first.wait_for()
    choose(tab, "tokens")
    points(tab, "loss", "all.length && all.at(-1)[0] > 1e6")
    tab.page.goto(f"{tab.page.url}&from=409600&to=819200")
    found = points(tab, "loss", "all.length > 50 && all.at(-1)[0] < 9e5")
    inside = [x / TOKENS for x, _ in found if x is not None and 409600 <= x <= 819200]
    assert set(range(100, 201)) <= set(inside)
    tab.page.get_by_label("Metric as x axis").select_option("")
    tab.page.wait_for_function("() => !location.search.includes('x=')")


@LONG
def test_a_run_without_the_metric_says_so_in_a_comparison(tab: Any) -> None:
    """Runs that never reported the metric have no line, and their row says why."""
    tab.page.goto(f"{tab.tower.base}/compare?run=o_killed&run=o_whole&x=metric%3Aunknown")
    tab.page.locator("tr[data-run=o_whole]", has_text="no unknown").wait_for()


@pytest.mark.parametrize("page", represented(["/runs/o_killed?", "/compare?run=o_killed&run=o_whole&"]))
@pytest.mark.parametrize("axis", ["relative", "wall"])
def test_the_night_between_two_attempts_is_a_gap(page: str, axis: str, tab: Any) -> None:
    """No line leads from the evening to the morning: it ends within a minute, and begins 14 hours later."""
    tab.page.goto(f"{tab.tower.base}{page}x={axis}&smooth=0.5&smoothing=time")
    night_ms = NIGHT_S * 1000
    found = points(
        tab, "loss", f"all.some(([b]) => b !== null && all.some(([a]) => a !== null && b - a > {night_ms}))"
    )
    through = [
        (a, b)
        for (a, y), (b, z) in itertools.pairwise(found)
        if y is not None and z is not None and a is not None and b is not None and b - a > night_ms / 2
    ]
    assert through == []
