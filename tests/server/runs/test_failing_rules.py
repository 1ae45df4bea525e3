"""A rule that raises or loops harms neither the other rules nor the server."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from tests.server.detect.engine.test_batches import batch_of
from tocsin_server.core.models import Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.rules.loss.recurrent_instability import RecurrentInstability
from tocsin_server.detect.rules.nonfinite.nonfinite_loss import NonfiniteLoss
from tocsin_server.runs import loop_guard
from tocsin_server.runs.evaluators import Evaluated, LocalEvaluator, engine_of
from tocsin_server.runs.loop_guard import LoopGuard
from tocsin_server.runs.rule_processes import RAISES

Start = Callable[..., Any]
Dial = Callable[..., Any]
BAD = {"loss": math.inf, "grad_norm": math.nan}


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """``failing(act)``: nonfinite-loss calls ``act`` at a loss of infinity."""

    def patch(act: Callable[[], None]) -> None:
        proper = NonfiniteLoss.observe

        def observe(self: NonfiniteLoss, view: Any) -> None:
            if math.inf in (view.loss or ()):
                act()
            proper(self, view)

        monkeypatch.setattr(NonfiniteLoss, "observe", observe)

    return patch


def crash() -> None:
    raise ZeroDivisionError


def loop() -> None:
    while True:
        pass


def evaluated(guard: Any = None) -> Evaluated:
    """Return what the rules of a run report about one bad record."""
    results: list[Evaluated] = []
    rules = LocalEvaluator(engine_of(RunContext(run_id="r1"), None), guard or nullcontext())
    rules.evaluate(batch_of(Writer("r1", 1, 1, 0), [(0, BAD)], 0), results.append, lost=crash)
    return results[0]


def names(findings: Any) -> list[str]:
    return [finding.rule for finding in findings]


def test_the_other_rules_see_what_one_rule_fails_at(failing: Any) -> None:
    failing(crash)
    result = evaluated()
    assert (names(result.findings), result.failed) == (["nonfinite-grad-norm"], ["nonfinite-loss"])
    assert "ZeroDivisionError" in result.crash


def test_a_rule_that_loops_is_interrupted(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(loop)
    monkeypatch.setattr(loop_guard, "LOOK_S", 0.02)
    guard = LoopGuard()
    guard.start()
    result = evaluated(guard)
    guard.stop()
    assert (names(result.findings), result.failed) == (["nonfinite-grad-norm"], ["nonfinite-loss"])
    assert "EndlessRuleError" in result.crash


def test_a_rule_about_the_whole_run_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alert fires that the rule would have received."""
    monkeypatch.setattr(RecurrentInstability, "began", lambda *_: crash())
    result = evaluated()
    assert {"nonfinite-loss", "nonfinite-grad-norm"} <= set(names(result.findings))
    assert set(result.failed) == {"recurrent-instability"}


def test_an_alert_fires_without_a_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin_server.detect.engine.episodes.explain", lambda *_: crash())
    result = evaluated()
    assert "nonfinite-loss" in names(result.findings)
    assert ("ZeroDivisionError" in result.crash, result.failed) == (True, [])


def test_offline_a_rule_that_raises_is_an_error(failing: Any) -> None:
    """As in the commands that read logs: no incomplete result seems complete."""
    failing(crash)
    with pytest.raises(ZeroDivisionError):
        Engine(RunContext(run_id="r1")).observe(batch_of(Writer("r1", 1, 1, 0), [(0, BAD)], 0))


def test_a_rule_that_raises_repeatedly_is_disabled_for_its_run(
    run_server: Start, dial: Dial, failing: Any, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its alert is closed with the reason, health and the log name it, and other runs keep it."""
    failing(crash)
    server = run_server()
    client, other = (dial(server.base, run, server.token) for run in ("r1", "r2"))
    client.acked(client.train([0], loss=[math.nan]))
    for step in range(1, RAISES + 1):
        client.acked(client.train([step], loss=[math.inf]))
    assert server.health()["rules_disabled"] == [{"run": "r1", "rule": "nonfinite-loss"}]
    assert "Rule nonfinite-loss is evaluated no more for run r1" in caplog.text
    eventually(lambda: ("nonfinite-loss", "resolved") in alerts(server, "r1"), "its alert to be closed")
    client.acked(client.train([RAISES + 1], loss=[math.inf]))
    assert server.health()["rule_crashes"] == RAISES
    other.acked(other.train([0], loss=[math.nan]))
    assert alerts(server, "r2") == [("nonfinite-loss", "firing")]


def alerts(server: Any, run: str) -> list[tuple[str, str]]:
    return [(found.alert.rule, found.alert.state.value) for found in server.services.reader.alerts(run)]
