"""Changes of rules during a run: from which record on they apply, and what happens to alerts."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin_server.core.models import AlertState
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.engine.plan import EVERY, NO_PLAN, Plan
from tocsin_server.detect.interface.context import RunContext

LIMIT = {"id": "mine", "series": "x", "comparison": ">", "limit": 5}


def ends(run: Any, rule: str) -> list[str]:
    return [item.summary for item in run.findings if item.rule == rule and item.state is AlertState.RESOLVED]


def test_a_changed_rule_applies_to_later_records(watch: Any) -> None:
    """Earlier records are not evaluated."""
    run = watch()
    run.records(loss=[1.0] * 5, x=[9] * 5)
    run.reported_by_server("rules", rules=[LIMIT])
    run.records(loss=[1.0] * 5, x=[9] * 5, start=5)
    assert [item.step for item in run.firing("mine")] == [5]


@pytest.mark.parametrize(
    "after", [[], [{**LIMIT, "limit": 6}], [{**LIMIT, "enabled": True, "labels": {"a": "b"}}]]
)
def test_a_removed_or_changed_rule_resolves_its_alert(watch: Any, after: Any) -> None:
    """Its history has the reason."""
    run = watch()
    run.reported_by_server("rules", rules=[LIMIT])
    run.records(loss=[1.0] * 5, x=[9] * 5)
    run.reported_by_server("rules", rules=after, why={"mine": "The rule was deleted by anna"})
    assert ends(run, "mine") == ["The rule was deleted by anna"]
    run.records(loss=[1.0] * 5, x=[9] * 5, start=5)
    assert len(run.firing("mine")) == 1 + len(after)


def test_a_changed_text_keeps_the_alert_and_a_changed_severity_is_sent(watch: Any) -> None:
    """A changed title does not affect the evaluation."""
    run = watch()
    run.reported_by_server("rules", rules=[LIMIT])
    run.records(loss=[1.0] * 5, x=[9] * 5)
    run.reported_by_server("rules", rules=[{**LIMIT, "title": "Too high", "severity": "critical"}])
    assert ends(run, "mine") == []
    assert run.severities("mine") == ["warning", "critical"]


def test_a_built_in_rule_is_switched_off_and_on(watch: Any) -> None:
    """Disabled: its open alert resolves and it reports nothing; enabled: it evaluates later records."""
    run = watch()
    run.records(loss=[1.0] * 20 + [float("nan")] * 5)
    off = {"nonfinite-loss": {"enabled": False}}
    run.reported_by_server("rules", builtin=off, why={"nonfinite-loss": "The rule was switched off"})
    run.records(loss=[float("nan")] * 5, start=25)
    assert run.states("nonfinite-loss") == ["firing", "resolved"]
    assert ends(run, "nonfinite-loss") == ["The rule was switched off"]
    run.reported_by_server("rules")
    run.records(loss=[float("nan")] * 5, start=30)
    assert [item.step for item in run.firing("nonfinite-loss")][-1] >= 30


def test_a_built_in_rule_uses_the_configured_severity(watch: Any) -> None:
    """Instead of its default."""
    run = watch()
    run.reported_by_server("rules", builtin={"nonfinite-loss": {"severity": "info"}})
    run.records(loss=[1.0] * 20 + [float("nan")] * 30)
    assert run.severities("nonfinite-loss") == ["info"]


def test_settings_apply_to_a_running_run(watch: Any) -> None:
    """With a fresh baseline: a spike of 30 % is one at the default, and none at twice the level."""
    for tuned, fired in (({}, 1), ({"loss-spike": {"settings": {"relative": 1.0}}}, 0)):
        run = watch()
        run.records(loss=[2.0 + 0.02 * ((step * 7) % 11 - 5) / 5 for step in range(100)])
        run.reported_by_server("rules", builtin=tuned)
        losses = [2.0 + 0.02 * ((step * 7) % 11 - 5) / 5 for step in range(500)]
        losses[400:403] = [2.6] * 3
        run.records(loss=losses, start=100)
        assert len({item.onset_step for item in run.firing("loss-spike")}) == fired


def test_an_open_alert_continues_under_changed_settings(watch: Any) -> None:
    """It ends when the rule resolves it."""
    run = watch()
    run.records(loss=[1.0] * 20 + [float("nan")] * 5)
    run.reported_by_server(
        "rules", builtin={"nonfinite-loss": {"settings": {"resolve_updates": 20, "recover_updates": 5}}}
    )
    run.records(loss=[1.0] * 60, start=25)
    assert run.states("nonfinite-loss") == ["firing", "recovering", "resolved"]


def test_a_script_cannot_change_the_rules(watch: Any) -> None:
    """Events of that kind are accepted from the server's writer only."""
    run = watch()
    run.event("rules", builtin={"nonfinite-loss": {"enabled": False}})
    run.records(loss=[1.0] * 20 + [float("nan")] * 5)
    assert run.firing("nonfinite-loss")


def test_a_plan_is_read_as_it_was_written() -> None:
    """What this version does not know is left out."""
    data = {
        "rules": [LIMIT, {"id": "new", "reducer": "median"}],
        "builtin": {"nothing": {}, "plateau": {"enabled": False}},
    }
    plan = Plan.from_plain(data)
    assert (set(plan.by_id), set(plan.off)) == ({"mine"}, {"plateau"})
    assert Plan.from_plain(plan.plain()) == plan
    assert NO_PLAN.plain() == {}


def test_barred_rules_neither_fire_nor_return_with_a_snapshot() -> None:
    """The plan stays equal to the one that is stored in the run; every other rule is evaluated."""
    plan = Plan.from_plain({"rules": [LIMIT], "builtin": {"plateau": {"severity": "info"}}})
    barred = plan.without({"mine", "nonfinite-loss"})
    assert (set(barred.by_id), set(barred.off)) == (set(), {"nonfinite-loss"})
    assert Plan.from_plain(barred.plain()) == barred
    assert plan.without({EVERY}).off >= {"nonfinite-loss", "plateau", "recurrent-instability"}
    engine = Engine(RunContext())
    engine.bar({"nonfinite-loss"})
    assert Engine.restore(RunContext(), engine.save()).plan.off == {"nonfinite-loss"}


def test_an_older_snapshot_has_no_plan() -> None:
    """After an upgrade the built-in rules have their defaults."""
    engine = Engine.restore(RunContext(), Engine(RunContext()).save())
    assert engine.plan == NO_PLAN
