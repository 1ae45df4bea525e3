"""Find the files of ``web/``, which the pages and reports are made of."""

from __future__ import annotations

from pathlib import Path

from tocsin_server.core.errors import StartError
from tocsin_server.http import plotlyjs
from tocsin_server.report.page import Assets, assets_of


def web_directory() -> Path:
    """Return ``web/`` of the installed package or the root of the checkout. Raises StartError."""
    here = Path(__file__).resolve().parents[1]
    for place in (here / "web", here.parent.parent / "web"):
        if (place / "index.html").is_file():
            return place
    raise StartError(f"There is no index.html in {here / 'web'}. Install tocsin-server again.")


def report_assets() -> Assets:
    """Return what every report contains: plotly.js, the script and the style sheet. Raises StartError."""
    return assets_of(web_directory(), plotlyjs.installed().script.decode("utf-8"))
