"""What the page needs to know."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import httpx


def test_the_session_tells_the_page_what_it_needs(server: Any) -> None:
    """Who is logged in, where trainers report to, which plotly.js there is."""
    found = server.get("/session")
    assert (found["scope"], found["ingest_url"]) == ("admin", server.base)
    assert found["plotly"] == version("plotly")
    assert httpx.head(f"{server.base}/assets/plotly-{found['plotly']}.min.js").status_code == 200
