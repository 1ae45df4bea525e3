"""Information for the page."""

from __future__ import annotations

from typing import Any

import httpx

from tocsin_server.http.plotlyjs import VERSION


def test_the_session_has_what_the_page_needs(server: Any) -> None:
    """The user, the URL for clients, the version of plotly.js."""
    found = server.get("/session")
    assert (found["scope"], found["ingest_url"]) == ("admin", server.base)
    assert found["plotly"] == VERSION
    assert httpx.head(f"{server.base}/assets/plotly-{found['plotly']}.min.js").status_code == 200
