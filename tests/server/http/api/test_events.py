"""Events over the API."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def test_events_come_in_order_with_their_data(server: Any, trainer: Callable[..., Any]) -> None:
    """Events are returned page by page as they were sent, non-finite numbers by name."""
    run = trainer()
    for step in range(3):
        run.event("note", step=step, value=math.inf, text="<b>")
    first = server.get(f"/runs/{run.run}/events", limit=2)
    rest = server.get(f"/runs/{run.run}/events", after=first["next"])
    assert [event["step"] for event in first["items"] + rest["items"]] == [0, 1, 2]
    assert first["items"][0]["data"] == {"value": "Infinity", "text": "<b>"}
    assert (first["items"][0]["attempt"], first["items"][0]["rank"]) == (1, 0)
    assert rest["next"] is None


def test_kinds_are_left_out(server: Any, trainer: Callable[..., Any]) -> None:
    """Very frequent kinds can be excluded, so that they do not fill the page."""
    run = trainer()
    for kind in ("noise", "checkpoint", "noise"):
        run.event(kind)
    reported = server.get(f"/runs/{run.run}/events", without="noise")["items"]
    assert [event["kind"] for event in reported] == ["checkpoint"]
