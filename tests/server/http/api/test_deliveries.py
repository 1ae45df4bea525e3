"""Parameters of the delivery log. Its content is tested with the senders."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.http.api.test_channels import ask


@pytest.mark.parametrize("query", ["state=nonsense", "limit=0", "limit=1001"])
def test_an_invalid_parameter_is_named(server: Any, query: str) -> None:
    """The error has the parameter and the expected values."""
    answer = ask(server, "GET", f"/deliveries?{query}")
    assert (answer.status_code, answer.json()["subject"]) == (422, query.split("=")[0])


def test_an_empty_log_is_one(server: Any) -> None:
    """An unknown channel has no deliveries, and an unknown delivery has no message and cannot be retried."""
    assert ask(server, "GET", "/deliveries?channel=nobody").json() == {"items": [], "next": None}
    assert ask(server, "POST", "/deliveries/nothing/retry").status_code == 404
    assert ask(server, "GET", "/deliveries/nothing/message").status_code == 404
