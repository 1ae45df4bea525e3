"""The pages in Firefox: drawn, live, and without a message in the console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.every_page import LOSS, PAGES, RUN, SHOWS, VARIANTS
from tests.browser.firefox import CONTROL, ESCAPE, Firefox, firefox
from tests.matrix import LONG, represented

pytestmark = [LONG, pytest.mark.browser, pytest.mark.timeout(600)]

REPRESENTATIVES = ("/", f"/runs/{RUN}?at=9", f"/compare?run={RUN}", "/alerts?state=all", "/rules?new=1")


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


@pytest.mark.parametrize("address", represented([*PAGES, *VARIANTS], *REPRESENTATIVES))
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
    with trained.training(script("scripted"), "in another browser", RUN, "60", "20") as process:
        assert process.wait(120) == 0
    shows = "[...document.querySelectorAll('.gauge')].some((each) => /Step\\s*79\\b/.test(each.innerText))"
    fox.until(shows)
    assert fox.ask("window.opened") is True
