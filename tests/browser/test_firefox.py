"""The pages in Firefox: drawn, live, and without a message in the console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

import tocsin
from tests.browser.firefox import CONTROL, ESCAPE, Firefox, firefox
from tests.browser.sweep import address as compared
from tests.browser.sweep import sweep_of
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN, SHOWS = "r_fox", "r_fox_shows"
LOSS = '[data-series="loss"] .plot .xy'
CUSTOM = '[data-section="custom"]'
SWEEP = 12
PAGES = {
    "/": "[data-run]",
    "/?kiosk=1": "[data-run]",
    f"/runs/{RUN}?at=9": LOSS,
    f"/compare?run={RUN}": LOSS,
    "/alerts?state=all": ".al",
    "/silences": ".listing .pad",
    "/routes": "[data-route]",
    "/channels": ".notice, article, .listing .pad",
    "/deliveries": ".notice, article, .listing .pad",
    "/rules": "[data-rule]",
    "/rules?new=1": ".ruleform",
    "/rules?rule=loss-spike": ".ruleform",
    "/alerts/no/such/page": ".notice",
    "/settings": ".settings table",
    f"/runs/{RUN}?panel={quote('formula:loss - act/attn')}": f"{CUSTOM} .plot",
    f"{compared(SWEEP)}&group=config.lr&band=range": LOSS,
}
"""What each page is for, as a selector."""
VARIANTS = {
    f"/runs/{RUN}?panel={quote('match:^act/')}&full={quote('match:^act/')}": f"{CUSTOM} .plot .xy",
    f"/runs/{RUN}?panel={quote('scatter:loss' + chr(10) + 'act/attn')}": f"{CUSTOM} .points",
    f"/runs/{SHOWS}?panel={quote('media:batch')}": f"{CUSTOM} img",
    f"/runs/{SHOWS}?panel={quote('media:worst')}": f"{CUSTOM} td",
    f"/runs/{RUN}?x={quote('metric:tokens')}&smooth=0.6": LOSS,
    f"/runs/{RUN}?x=relative&logx=1": LOSS,
    f"/runs/{RUN}?x=wall": LOSS,
    f"/runs/{RUN}?attempt=1": '[data-attempt="1"][aria-pressed="true"]',
    f"{compared(SWEEP)}&x=relative&smooth=20&smoothing=gaussian": LOSS,
    f"{compared(SWEEP)}&x={quote('metric:grad_norm')}": LOSS,
    f"{compared(SWEEP)}&metric=loss": ".parallel path[data-run]",
    f"{compared(SWEEP)}&chart={quote('scatter:config.lr' + chr(10) + 'last(loss)')}": ".runchart circle",
    f"{compared(SWEEP)}&chart={quote('histogram:last(loss)')}": ".runchart rect",
    f"{compared(SWEEP)}&chart={quote('bar:last(loss)')}": ".runcharts .runbars li",
}
"""The same of further charts and axes."""


@pytest.fixture(scope="module")
def trained(tower_of_the_module: Any, script: Callable[[str], str]) -> Any:
    """A server with a sweep, a finished run of two attempts with NaN and infinities, and one with media."""
    tower = tower_of_the_module
    sweep_of(tower, SWEEP)
    for first in ("0", "20"):
        with tower.training(script("scripted"), "in Firefox", RUN, first, "40") as process:
            assert process.wait(120) == 0
    place = {"url": tower.base, "token": tower.token, "spool_dir": tower.directory / "spool", "patch": False}
    shows = tocsin.watch("media", name="shows", resume=SHOWS, quiet=True, **place)
    for step in (3, 8):
        shows.log(
            {"batch": tocsin.Image([[0, 90], [180, step]]), "sample": tocsin.Text(f"of {step}")}, step=step
        )
        shows.log({"grads": tocsin.Histogram([1.0, 2.0, float("nan")]), "loss": 1.0}, step=step)
        shows.log({"worst": tocsin.Table(["file", "loss"], [["a.png", float(step)]])}, step=step)
    shows.finish()
    return tower


@pytest.fixture(scope="module")
def fox(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """A Firefox that is logged in."""
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    assert path, "expected firefox-esr or firefox on the PATH: `make browser` brings it"
    with firefox(path, tmp_path_factory.mktemp("firefox")) as started:
        started.go(trained.login)
        yield started


def opened(fox: Firefox, url: str) -> None:
    """Open a page, and forget what the page before wrote."""
    fox.go("about:blank")  # what the page before had not loaded yet is reported as an error now
    fox.said.clear()
    fox.go(url)


@pytest.mark.parametrize("address", [*PAGES, *(pytest.param(each, marks=LONG) for each in VARIANTS)])
def test_a_page_is_drawn_without_a_message(address: str, fox: Firefox, trained: Any) -> None:
    """What the page is for appears; nothing is written to the console."""
    opened(fox, trained.base + address)
    shown = (PAGES | VARIANTS)[address]
    section = shown.split(",")[0].split()[0]  # charts are drawn once they are in view
    fox.until(f"document.querySelector({section!r})?.scrollIntoView() || document.querySelector({shown!r})")
    fox.until("document.readyState === 'complete'")
    assert fox.said == []


def test_faults_are_drawn(fox: Firefox, trained: Any) -> None:
    """The panel of the loss counts the NaN and both infinities."""
    fox.go(f"{trained.base}/runs/{RUN}")
    fox.until("document.querySelector('[data-series=loss] .faults')?.innerText.includes('NaN')")
    assert "Inf" in fox.ask("document.querySelector('[data-series=loss] .faults').innerText")


def test_media_are_shown(fox: Firefox, trained: Any) -> None:
    """Picture, histogram, text and table of a run, and those of two runs side by side."""
    opened(fox, f"{trained.base}/runs/{SHOWS}")
    media = "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.innerText === 'Media')"
    fox.until(f"{media}?.click() || document.querySelector('figure img')?.naturalWidth === 2")
    fox.until("['of 8', 'a.png'].every((text) => document.querySelector('.tabs').innerText.includes(text))")
    opened(fox, f"{trained.base}/compare?run={SHOWS}&run={RUN}")
    beside = "document.querySelector('.mediacompare')"
    fox.until(f"{beside} && !({beside}.open = true) || {beside}?.querySelector('img')")
    assert fox.said == []


def test_an_embedded_chart_is_shown_and_its_link_listed(fox: Firefox, trained: Any) -> None:
    """The page of the link draws the chart; the settings list it."""
    made = trained.post(f"/runs/{RUN}/embed", {"series": "loss", "days": 1})
    opened(fox, f"{trained.base}{made['path']}")
    fox.until("document.querySelector('figure > svg path')?.getTotalLength() > 400")
    opened(fox, f"{trained.base}/settings")
    fox.until("document.querySelector('[data-embed]')")
    assert fox.said == []


def test_the_keyboard_reaches_help_search_and_zoom(fox: Firefox, trained: Any) -> None:
    """? lists the shortcuts, + zooms at the cross line, R resets, and Ctrl K finds a run."""
    opened(fox, f"{trained.base}/runs/{RUN}?at=20")
    fox.until(f"document.querySelector({LOSS!r})")
    fox.press("?")
    fox.until("document.querySelector('dialog.shortcuts[open]')")
    fox.press(ESCAPE)
    fox.until("!document.querySelector('dialog')")
    fox.press("+")
    fox.until("location.search.includes('from=')")
    fox.press("r")
    fox.until("!location.search.includes('from=')")
    fox.press("k", held=CONTROL)
    fox.until("document.querySelector('dialog.palette[open]')")
    assert fox.said == []


def test_a_run_page_follows_its_run(fox: Firefox, trained: Any, script: Callable[[str], str]) -> None:
    """Steps that arrive while the page is open are shown without a reload."""
    fox.go(f"{trained.base}/runs/{RUN}")
    fox.until(f"document.querySelector({LOSS!r})")
    fox.ask("window.opened = true")
    with trained.training(script("scripted"), "in Firefox", RUN, "60", "20") as process:
        assert process.wait(120) == 0
    shows = "[...document.querySelectorAll('.gauge')].some((each) => /Step\\s*79\\b/.test(each.innerText))"
    fox.until(shows)
    assert fox.ask("window.opened") is True
