"""The pages in WebKit, the engine of Safari: drawn and live. Its driver does not report the console.

Runs where Debian's webkit2gtk-driver and xvfb are installed (``make webkit``); else its tests are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.every_page import LOSS, PAGES, RUN, VARIANTS
from tests.browser.webkit import WebKit, programs, webkit
from tests.matrix import ALL

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not ALL or programs() is None, reason="long, and needs WebKitGTK: make webkit test-all"
    ),
]


@pytest.fixture(scope="module")
def safari(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebKit]:
    """A window that is logged in."""
    found = programs()
    assert found
    with webkit(*found, tmp_path_factory.mktemp("webkit")) as started:
        started.go(trained.login)
        yield started


@pytest.mark.parametrize("address", [*PAGES, *VARIANTS])
def test_a_page_is_drawn(address: str, safari: WebKit, trained: Any) -> None:
    """What the page is for appears."""
    safari.go(trained.base + address)
    shown = (PAGES | VARIANTS)[address]
    section = shown.split(",")[0].split()[0]  # charts are drawn once they are in view
    safari.until(
        f"document.querySelector({section!r})?.scrollIntoView() || document.querySelector({shown!r})"
    )


def test_a_new_step_appears(safari: WebKit, trained: Any, script: Callable[[str], str]) -> None:
    """The live socket works."""
    safari.go(f"{trained.base}/runs/{RUN}")
    safari.until(f"document.querySelector({LOSS!r})")
    with trained.training(script("scripted"), "in another browser", RUN, "60", "20") as process:
        assert process.wait(120) == 0
    safari.until("document.body.innerText.includes('steps 0 \u2013 79')")
