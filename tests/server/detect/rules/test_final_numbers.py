"""An alert that recovers states how long or how far its condition held in the end."""

from __future__ import annotations

import math
from typing import Any

import pytest

WELL = [1.0 + 0.1 * (step % 7) for step in range(120)]
FINAL: dict[str, tuple[dict[str, list[float]], str]] = {
    "nonfinite-loss": ({"loss": [*WELL, *[math.nan] * 3, *WELL]}, "(3 records)"),
    "nonfinite-grad-norm": ({"grad_norm": [*WELL, *[math.nan] * 7, *WELL]}, "7 records in a row"),
    "zero-grad-norm": (
        {"grad_norm": [*WELL, *[0.0] * 33, *WELL], "loss": [*WELL, *[2.0] * 33, *WELL]},
        "for 33 records",
    ),
    "norm-after-zero": (
        {"grad_norm": [*WELL, *[0.0] * 33, *WELL], "loss": [*WELL, *WELL[:33], *WELL]},
        "for 33 records",
    ),
    "zero-lr": ({"lr": [*WELL, *[0.0] * 27, *WELL]}, "(27 updates)"),
    "masked-nan": (
        {"loss": [*WELL, *[0.0] * 9, *WELL], "grad_norm": [*WELL, *[math.nan] * 9, *WELL]},
        "in 9 records",
    ),
    "loss-saturated": ({"loss": [*WELL, *[500.0] * 190, *WELL]}, "for 190 records"),
    "grad-explosion": ({"grad_norm": [*WELL, *[60.0, 70.0, 80.0, 90.0, 99.0], *WELL]}, "→ 99 "),
    "scaler-not-updating": (
        {
            "scale": [1024.0] * 247,
            "grad_norm": [*WELL, *[math.inf] * 7, *WELL],
            "skipped": [*[0.0] * 120, *[1.0] * 7, *[0.0] * 120],
        },
        "7 overflows in a row",
    ),
    "nonfinite-input": (
        {"nonfinite/batch": [*[0.0] * 20, *[1.0] * 3, *[0.0] * 600], "loss": [*WELL * 5, *WELL[:23]]},
        "3 batches of ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 50])
@pytest.mark.parametrize("rule", FINAL)
def test_the_text_of_a_recovering_alert_is_up_to_date(watch: Any, rule: str, size: int) -> None:
    """And so are its evidence and the text after it is resolved, without more findings while it fires."""
    series, text = FINAL[rule]
    run = watch(size=size, planned_steps=10_000)
    run.records(more=series)
    found = [finding for finding in run.findings if finding.rule == rule]
    assert [finding.state.value for finding in found[-2:]] == ["recovering", "resolved"]
    assert all(text in finding.summary for finding in found[-2:])
    assert text not in found[-3].summary
    assert found[-2].diagnosis.evidence != found[-3].diagnosis.evidence


def test_a_shorter_recurrence_does_not_replace_the_longest(watch: Any) -> None:
    """The text of a stretch of 7 stays after one of 6 within the same episode."""
    run = watch(size=1)
    run.records(grad_norm=[*WELL, *[math.nan] * 7, 1.0, *[math.nan] * 6, *WELL])
    assert "7 records in a row" in run.findings[-1].summary
