"""Every page and the runs that it shows, for tests in other browsers than Chromium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import tocsin
from tests.browser.sweep import address as compared
from tests.browser.sweep import sweep_of

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


def store(tower: Any, script: Callable[[str], str]) -> None:
    """Store a sweep, a finished run of two attempts with NaN and infinities, and a run with media."""
    sweep_of(tower, SWEEP)
    for first in ("0", "20"):
        with tower.training(script("scripted"), "in another browser", RUN, first, "40") as process:
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
