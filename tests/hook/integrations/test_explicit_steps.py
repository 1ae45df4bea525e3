"""Steps that are read from the methods of an engine or optimizer."""

from __future__ import annotations

import logging

import pytest

from tocsin.integrations.explicit_steps import ExplicitSteps


class Engine:
    """An engine of a version without ``backward``."""

    def step(self) -> str:
        """Step."""
        return "stepped"


def test_a_method_that_is_missing_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It names the framework and the method; the others are read."""
    steps, engine, calls = ExplicitSteps("engines", {}), Engine(), list[str]()
    with caplog.at_level(logging.WARNING, "tocsin"):
        for _ in range(2):
            steps._replace(engine, "backward", lambda *_: None)
        steps._replace(engine, "step", lambda owner, original: calls.append(original()))
    engine.step()
    assert calls == ["stepped"]
    (record,) = caplog.records
    assert "engines (unknown version): Engine.backward cannot be used" in record.getMessage()
