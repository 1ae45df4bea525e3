"""The counts of alerts by judgment."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench_algoperf import WITHOUT, Log, alerts_of, by_judgment, by_severity, judged
from tocsin_server.core.models import Severity
from tocsin_server.detect.rules.catalog import catalogue

KNOWN, RULE = next(iter(judged()))
LOGS = [Log("a.csv", WITHOUT, KNOWN), Log("b.csv", "spikes", "elsewhere")]


def test_an_alert_without_a_judgment_is_counted_as_such() -> None:
    found = by_judgment(LOGS, [{RULE: Severity.WARNING}, {RULE: Severity.WARNING}])

    assert found == {(RULE, judged()[KNOWN, RULE]): 1, (RULE, "not judged"): 1}


def test_a_log_counts_by_its_highest_severity() -> None:
    found = by_severity(LOGS, [{"a": Severity.INFO, "b": Severity.CRITICAL}, {}])

    assert found == {(True, "critical"): 1, (False, "none"): 1}


def test_every_judged_rule_exists() -> None:
    assert {rule for _, rule in judged()} <= {rule.id for rule in catalogue()}


def test_a_log_with_a_spike_has_the_rule_in_its_counts(tmp_path: Path) -> None:
    losses = [2.0 + 0.01 * (step % 7) for step in range(400)]
    losses[300:306] = [40.0] * 6
    rows = "".join(f"{step},{loss}\n" for step, loss in enumerate(losses))
    (tmp_path / "a.csv").write_text(f"global_step,loss\n{rows}")

    assert "loss-spike" in alerts_of(tmp_path, LOGS[0])
