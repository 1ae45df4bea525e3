"""A change of rules applies to the affected runs on a real server, from a defined record on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tocsin_server.detect.custom.threshold import read_rule
from tocsin_server.detect.custom.tuning import EVERYWHERE, Tuning
from tocsin_server.runs.rule_assignments import RuleConfig, rule_config_of
from tocsin_server.runs.run_summary import RunMetadata
from tocsin_server.store.rules import CustomRuleRow, TuningRow

Start = Callable[..., Any]
LIMIT = {"id": "mine", "series": "x", "comparison": ">", "limit": 5, "severity": "critical"}


def ask(server: Any, method: str, path: str, body: Any = None) -> Any:
    headers = {"authorization": f"Bearer {server.token}"}
    answer = httpx.request(method, f"{server.base}/api/v1{path}", json=body, headers=headers, timeout=60)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def alerts(server: Any, run: str, rule: str = "mine") -> list[Any]:
    found = ask(server, "GET", f"/alerts?run={run}")["items"]
    return [(item["state"], item["onset_step"], item["summary"]) for item in found if item["rule"] == rule]


def test_a_rule_made_by_the_api_fires_on_a_live_run_and_its_alert_resolves(
    run_server: Start, dial: Start
) -> None:
    """From the next record on, over the real socket; earlier records are not evaluated."""
    server = run_server()
    client = dial(server.base, "live", server.token)
    client.acked(client.train(range(5), loss=[1.0] * 5, x=[9.0] * 5))
    ask(server, "POST", "/rules", LIMIT)
    client.acked(client.train(range(5, 8), loss=[1.0] * 3, x=[1.0, math.nan, 9.0]))
    assert alerts(server, "live") == [("firing", 7, "x is 9, above 5")]
    client.acked(client.train(range(8, 9), loss=[1.0], x=[2.0]))
    assert alerts(server, "live") == [("resolved", 7, "x is back at 2")]


def test_a_rule_concerns_the_runs_that_it_names_and_new_ones_from_their_first_record(
    run_server: Start, dial: Start
) -> None:
    """By project and tag; a run without custom rules has no event about them."""
    server = run_server()
    ask(server, "POST", "/rules", LIMIT | {"projects": ["deblur*"], "tags": ["prod"]})
    for run, reported in (
        ("meant", {"project": "deblur-2", "tags": ["prod"]}),
        ("other", {"project": "deblur-2"}),
    ):
        client = dial(server.base, run, server.token, **reported)
        client.acked(client.train(range(2), loss=[1.0] * 2, x=[9.0] * 2))
    assert [state for state, *_ in alerts(server, "meant")] == ["firing"]
    assert alerts(server, "other") == []
    kinds = {
        run: [event["kind"] for event in ask(server, "GET", f"/runs/{run}/events")["items"]]
        for run in ("meant", "other")
    }
    assert kinds == {"meant": ["rules"], "other": []}


@pytest.mark.parametrize(
    ("act", "word"),
    [(("DELETE", "/rules/mine", None), "deleted by"),
     (("PATCH", "/rules/mine", {"enabled": False}), "switched off by"),
     (("PATCH", "/rules/mine", {"projects": ["x"]}), "no longer applies to this run"),
     (("PATCH", "/rules/mine", {"limit": 50}), "changed by")],
)  # fmt: skip
def test_an_alert_of_a_removed_rule_has_the_reason_of_its_end(
    run_server: Start, dial: Start, act: Any, word: str
) -> None:
    """The alert's history has the reason and the user."""
    server = run_server()
    ask(server, "POST", "/rules", LIMIT)
    client = dial(server.base, "open", server.token)
    client.acked(client.train(range(2), loss=[1.0] * 2, x=[9.0] * 2))
    ask(server, *act)
    client.acked(client.train(range(2, 3), loss=[1.0], x=[9.0]))
    (alert,) = [item for item in ask(server, "GET", "/alerts?run=open")["items"] if item["rule"] == "mine"]
    assert alert["state"] == "resolved"
    assert alert["summary"].startswith("Closed: the rule mine ")
    assert word in alert["summary"]
    lines = ask(server, "GET", f"/alerts/{alert['id']}/history")["items"]
    assert any(word in str(line) for line in lines)


def test_after_a_restart_the_same_rules_apply(run_server: Start, dial: Start) -> None:
    """Rules have the run's own order: their state continues, and later changes are applied first."""
    first = run_server()
    ask(first, "POST", "/rules", LIMIT | {"for": "4 steps"})
    client = dial(first.base, "again", first.token)
    client.acked(client.train(range(3), loss=[1.0] * 3, x=[9.0] * 3))
    first.stop()
    second = run_server()
    assert second.pipeline.registry.active["again"].plan.by_id["mine"].limit == 5
    client = dial(second.base, "again", second.token)
    client.acked(client.train(range(3, 6), loss=[1.0] * 3, x=[9.0] * 3))
    assert [(state, onset) for state, onset, _ in alerts(second, "again")] == [("firing", 0)]


def test_a_change_by_another_process_is_seen(
    run_server: Start, dial: Start, tocsin: Any, tmp_path: Any, eventually: Any
) -> None:
    """The command line writes to the database; the running server applies it within seconds."""
    server = run_server()
    client = dial(server.base, "live", server.token)
    client.acked(client.train(range(2), loss=[1.0] * 2, x=[9.0] * 2))
    file = tmp_path / "rules.toml"
    file.write_text('source = "team"\n[[rule]]\nid = "mine"\nseries = "x"\ncomparison = ">"\nlimit = 5\n')
    assert "+ rule mine" in tocsin("rules", "apply", str(file)).stdout
    eventually(lambda: "mine" in server.pipeline.registry.active["live"].plan.by_id, "the rule to be applied")
    client.acked(client.train(range(2, 3), loss=[1.0], x=[9.0]))
    assert [state for state, *_ in alerts(server, "live")] == ["firing"]


def test_clock_based_rules_are_tuned_too(run_server: Start, dial: Start, eventually: Any) -> None:
    """A client that is lost within a second, as info; when disabled, its alert ends."""
    server = run_server()
    settings = {"project": "*", "severity": "info", "settings": {"warning_s": 0.5}}
    ask(server, "PUT", "/rules/trainer-lost/settings", settings)
    client = dial(server.base, "gone", server.token)
    client.acked(client.train(range(2), loss=[1.0] * 2))
    client.socket.close()
    (lost,) = eventually(
        lambda: [a for a in ask(server, "GET", "/alerts?run=gone")["items"] if a["rule"] == "trainer-lost"],
        "the loss",
    )
    assert lost["severity"] == "info"
    ask(server, "PUT", "/rules/trainer-lost/settings", {"project": "*", "enabled": False})
    eventually(lambda: alerts(server, "gone", "trainer-lost")[0][0] == "resolved", "its end")


def test_a_projects_settings_precede_those_of_all_projects() -> None:
    """A rule that this version cannot read is left out."""
    rows = [
        CustomRuleRow("a", {"series": "x", "comparison": ">", "limit": 1}),
        CustomRuleRow("b", {"series": "x", "reducer": "median"}),
    ]
    tuned = [
        TuningRow("plateau", EVERYWHERE, {"enabled": False}),
        TuningRow("plateau", "p", {"enabled": True}),
        TuningRow("gone", "p", {}),
    ]
    known = rule_config_of(rows, tuned, (), 1)
    assert [rule.id for rule in known.rules] == ["a"]
    cards = {project: RunMetadata("r", project, "n") for project in ("p", "q")}
    assert known.plan_of(cards["q"]).off == {"plateau"}
    assert known.plan_of(cards["p"]).off == set()


def test_without_changes_the_plan_is_empty() -> None:
    """The plan is empty, and no run is notified."""
    rule = read_rule(LIMIT | {"enabled": False})
    assert RuleConfig(None, (rule,)).tuning_of("plateau", "p") == Tuning()
