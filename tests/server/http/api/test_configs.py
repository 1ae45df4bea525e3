"""The configurations of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("config", [{"lr": 1e-3, "amp": {"dtype": "fp16"}}, {"odd": "<b>"}])
def test_configs_are_listed_as_they_were_given(
    config: dict[str, Any], server: Any, trainer: Callable[..., Any]
) -> None:
    """Nested, with the original names, and only of the requested project."""
    run = trainer(config=config, project="configured")
    found = {row["id"]: row["config"] for row in server.get("/configs", project="configured")["items"]}
    assert found[run.run] == config
    assert server.get("/configs", project="another")["items"] == []
