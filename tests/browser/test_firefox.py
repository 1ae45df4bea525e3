"""The pages in Firefox: drawn, live, and without a message in the console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.firefox import Firefox, firefox

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_fox"
PAGES = {
    "/": "[data-run]",
    "/?kiosk=1": "[data-run]",
    f"/runs/{RUN}?at=9": '[data-series="loss"] .plot .xy',
    f"/compare?run={RUN}": '[data-series="loss"] .plot .xy',
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
}


@pytest.fixture(scope="module")
def fox(
    shared_tower: Any, script: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Firefox]:
    """A Firefox that is logged in, and a finished run with NaN and infinities."""
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    assert path, "expected firefox-esr or firefox on the PATH: `make browser` brings it"
    with shared_tower.training(script("scripted"), "in Firefox", RUN, "0", "40") as process:
        assert process.wait(120) == 0
    with firefox(path, tmp_path_factory.mktemp("firefox")) as started:
        started.go(shared_tower.login)
        yield started


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_drawn_without_a_message(address: str, fox: Firefox, shared_tower: Any) -> None:
    """What the page is for appears; nothing is written to the console."""
    fox.go("about:blank")  # what the page before had not loaded yet is reported as an error now
    fox.said.clear()
    fox.go(shared_tower.base + address)
    fox.until(f"document.querySelector({PAGES[address]!r})")
    fox.until("document.readyState === 'complete'")
    assert fox.said == []


def test_faults_are_drawn(fox: Firefox, shared_tower: Any) -> None:
    """The panel of the loss counts the NaN and both infinities."""
    fox.go(f"{shared_tower.base}/runs/{RUN}")
    fox.until("document.querySelector('[data-series=loss] .faults')?.innerText.includes('NaN')")
    assert "Inf" in fox.ask("document.querySelector('[data-series=loss] .faults').innerText")


def test_a_run_page_follows_its_run(fox: Firefox, shared_tower: Any, script: Callable[[str], str]) -> None:
    """Steps that arrive while the page is open are shown without a reload."""
    fox.go(f"{shared_tower.base}/runs/{RUN}")
    fox.until("document.querySelector('[data-series=loss] .plot .xy')")
    fox.ask("window.opened = true")
    with shared_tower.training(script("scripted"), "in Firefox", RUN, "40", "20") as process:
        assert process.wait(120) == 0
    shows = "[...document.querySelectorAll('.gauge')].some((each) => /Step\\s*59\\b/.test(each.innerText))"
    fox.until(shows)
    assert fox.ask("window.opened") is True
