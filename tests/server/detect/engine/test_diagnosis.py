"""The diagnosis: the same symptom with different causes has different texts."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from tocsin_server.core.models import Diagnosis

ONSET, COUNT = 400, 440
RATE = 1e-3


def flat(count: int, level: float, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    return [level * (1 + draw.gauss(0, 0.03)) for _ in range(count)]


def collapse(watch: Any, torch_scale: Any, *, init: float = 65536.0, **series: list[float]) -> Diagnosis:
    """Return the last diagnosis of a scale that collapses from ``ONSET`` on, with these series."""
    scale, skipped = torch_scale([step >= ONSET for step in range(COUNT)], init=init)
    norm = [math.inf if skip else 1.0 for skip in skipped]
    run = watch()
    run.event("checkpoint", 300, path="ckpt/300.pt")
    run.event("checkpoint", 410, path="ckpt/410.pt")
    run.records(**{"grad_norm": norm, "lr": [RATE] * COUNT, **series}, scale=scale, skipped=skipped)
    diagnosis: Diagnosis = run.firing("scaler-collapse")[-1].diagnosis
    return diagnosis


def ramp(values: list[float], start: int, factor: float) -> list[float]:
    """Return ``values`` that grow by ``factor`` per step from ``start`` on."""
    return [value * factor ** max(0, step - start) for step, value in enumerate(values)]


def test_flat_loss_is_one_operation(watch: Any, torch_scale: Any) -> None:
    """Overflows in the middle of a flat loss at high scales: one operation exceeds fp16."""
    diagnosis = collapse(watch, torch_scale, init=2.0**60, loss=flat(COUNT, 2.0))
    assert "one operation that exceeds the range of fp16" in diagnosis.cause
    assert "x = x.float()" in diagnosis.remedies[0].code


def test_rising_loss_and_norm_is_the_learning_rate(watch: Any, torch_scale: Any) -> None:
    """Loss and norm left their level before the first overflow: training diverged."""
    norm = [
        value if step < ONSET else math.inf for step, value in enumerate(ramp(flat(COUNT, 1.0), 380, 1.2))
    ]
    diagnosis = collapse(watch, torch_scale, loss=ramp(flat(COUNT, 2.0), 380, 1.05), grad_norm=norm)
    assert "learning rate that is too high" in diagnosis.cause
    assert "0.0002" in diagnosis.remedies[0].code
    assert any("non-finite at any scale" in text for text in diagnosis.alternatives)


def test_a_schedule_is_lowered_at_its_base(watch: Any) -> None:
    """The scheduler would overwrite a lower rate at its next step, so the base rates are lowered."""
    spike = [*flat(COUNT, 2.0), 30.0, 30.0, 30.0]
    plain, scheduled = watch(), watch(schedulers=({"scheduler": "LambdaLR"},))
    for run in (plain, scheduled):
        run.records(loss=spike, lr=[RATE] * len(spike))
    code = [
        [remedy.code for remedy in run.firing("loss-spike")[0].diagnosis.remedies]
        for run in (plain, scheduled)
    ]
    assert any("group['lr'] = " in text for text in code[0])
    assert any("scheduler.base_lrs" in text for text in code[1])


def test_nonfinite_at_every_scale_is_the_forward_pass(watch: Any, torch_scale: Any) -> None:
    """Values are infinite down to scales below 1 while the loss was flat, so scaling is not the cause."""
    diagnosis = collapse(watch, torch_scale, loss=flat(COUNT, 2.0))
    assert "non-finite at every scale" in diagnosis.cause
    assert any("overflows fp16" in text for text in diagnosis.alternatives)


def test_a_learning_rate_that_rose_comes_first(watch: Any, torch_scale: Any) -> None:
    """A warm restart shortly before the onset is named with its step and factor."""
    rates = [5e-5] * 340 + [5e-5 * 1.04 ** (step - 340) for step in range(340, COUNT)]
    diagnosis = collapse(watch, torch_scale, loss=flat(COUNT, 2.0), lr=rates)
    assert diagnosis.cause.startswith("Likely the learning rate: it rose 10.1x")
    assert diagnosis.timeline[0] == (340, "Learning rate rises 10.1x, 5e-5 → 5.058e-4", "")


def test_a_bypassed_scaler_ranks_before_the_model(watch: Any) -> None:
    """Abandoned steps at a constant scale: the loop is the cause, whatever the norm is."""
    run = watch()
    run.records(loss=[12.06] * 40, grad_norm=[1.0] * 20 + [math.inf] * 20, scale=[65536.0] * 40,
                stepped=[1.0] * 20 + [0.0] * 20, start=1000)  # fmt: skip
    causes = {finding.rule: finding.diagnosis.cause for finding in run.findings}
    assert set(causes) == {"scaler-not-updating", "nonfinite-grad-norm"}
    assert all("is not informed of the overflows" in cause for cause in causes.values())


def test_nan_out_of_nowhere_is_a_batch_or_an_operation(watch: Any) -> None:
    """No scaler, no precursor."""
    run = watch()
    run.records(loss=[*flat(100, 2.0), math.nan], grad_norm=[*flat(100, 1.0), math.nan])
    assert "one batch, or an unprotected log" in run.firing("nonfinite-loss")[0].diagnosis.cause


def test_the_newest_checkpoint_before_the_onset_is_named(watch: Any, torch_scale: Any) -> None:
    """Not the one that was saved after it."""
    diagnosis = collapse(watch, torch_scale, loss=flat(COUNT, 2.0))
    assert "ckpt/300.pt" in [remedy.code for remedy in diagnosis.remedies]


def test_the_timeline_is_in_order_of_steps(watch: Any, torch_scale: Any) -> None:
    """Each rule has an entry at its onset."""
    loss = [*flat(ONSET, 2.0), *[math.nan] * (COUNT - ONSET)]
    timeline = collapse(watch, torch_scale, loss=loss).timeline
    assert [step for step, _, _ in timeline] == sorted(step for step, _, _ in timeline)
    assert {"scaler-collapse", "scaler-overflow-burst", "nonfinite-loss"} <= {rule for _, _, rule in timeline}


def test_another_rules_finding_updates_an_open_alert(watch: Any, torch_scale: Any) -> None:
    """The burst is updated with another cause once the norm is infinite at a scale of 1."""
    scale, skipped = torch_scale([step >= ONSET for step in range(COUNT)])
    run = watch()
    run.records(loss=flat(COUNT, 2.0), scale=scale, skipped=skipped,
                grad_norm=[math.inf if skip else 1.0 for skip in skipped])  # fmt: skip
    causes = [finding.diagnosis.cause for finding in run.firing("scaler-overflow-burst")]
    assert "one operation" in causes[0]
    assert "at every scale" in causes[-1]


@pytest.mark.parametrize("lr", [None, RATE])
def test_every_alert_has_cause_evidence_remedy_and_confirmation(
    watch: Any, torch_scale: Any, lr: float | None
) -> None:
    """Every diagnosis is complete, and has no exclamation marks."""
    scale, skipped = torch_scale([step >= ONSET for step in range(COUNT)])
    run = watch()
    run.records(loss=[*flat(ONSET, 2.0), *[math.nan] * 40], scale=scale, skipped=skipped, lr=[lr] * COUNT)
    run.records(start=COUNT, loss=[*flat(300, 2.0), *[9.0] * 30], grad_norm=[0.0] * 330, lr=[0.0] * 330)
    for finding in run.findings:
        diagnosis = finding.diagnosis
        assert diagnosis.cause
        assert diagnosis.evidence
        assert diagnosis.remedies
        assert diagnosis.how_to_confirm
        assert "!" not in finding.summary + diagnosis.cause + diagnosis.how_to_confirm


def test_a_gradient_that_was_there_and_is_exactly_zero_is_saturation(watch: Any) -> None:
    """A critic at its clamp: the graph was connected until the onset, so it is not called detached."""
    run = watch()
    run.records(
        loss=[-10.0 * step for step in range(100)] + [-1000.0] * 30, grad_norm=[6.4] * 100 + [0.0] * 30
    )
    diagnosis = run.firing("zero-grad-norm")[-1].diagnosis
    assert "saturation" in diagnosis.cause
    assert ("grad norm before", 6.4) in [(item.name, item.value) for item in diagnosis.evidence]
    assert "forward_hook" in diagnosis.remedies[0].code


def test_a_gradient_that_was_never_above_zero_is_a_detached_graph(watch: Any) -> None:
    """Zero from the first step: this is not saturation."""
    run = watch()
    run.records(loss=[0.7] * 30, grad_norm=[0.0] * 30)
    assert "detached graph" in run.firing("zero-grad-norm")[-1].diagnosis.cause


def test_the_cause_outlives_the_records_that_show_it(watch: Any, torch_scale: Any) -> None:
    """A thousand steps into a collapse its start is not in memory: the first cause stays."""
    count = ONSET + 1600
    scale, skipped = torch_scale([step >= ONSET for step in range(count)])
    norm = [
        value if step < ONSET else math.inf for step, value in enumerate(ramp(flat(count, 1.0), 380, 1.2))
    ]
    loss = [value if step < ONSET else math.inf for step, value in enumerate(flat(count, 2.0))]
    run = watch()
    run.records(loss=loss, grad_norm=norm, lr=[RATE] * count, scale=scale, skipped=skipped)
    for rule in ("scaler-overflow-burst", "nonfinite-loss", "nonfinite-grad-norm", "scaler-collapse"):
        last = run.firing(rule)[-1]
        assert "learning rate that is too high" in last.diagnosis.cause, rule
    assert run.firing("nonfinite-loss")[-1].step >= ONSET + 999


def test_a_condition_from_the_start_is_no_part_of_an_episode(watch: Any, torch_scale: Any) -> None:
    """A clip that never acts is reported separately, and is not in the timeline of a collapse."""
    scale, skipped = torch_scale([step >= ONSET for step in range(COUNT)])
    run = watch(clips={"": 1e7})
    run.records(
        loss=flat(COUNT, 2.0),
        grad_norm=[math.inf if skip else 1.0 for skip in skipped],
        scale=scale,
        skipped=skipped,
    )
    assert run.firing("clip-ineffective")[0].step < ONSET
    timeline = run.firing("scaler-collapse")[-1].diagnosis.timeline
    assert timeline[0][0] >= ONSET
    assert "clip-ineffective" not in {rule for _, _, rule in timeline}


def test_a_clip_that_never_acts_is_part_of_an_explosion(watch: Any) -> None:
    """The threshold should have limited such a norm."""
    run = watch(clips={"": 1e7})
    run.records(loss=flat(COUNT, 2.0), grad_norm=ramp(flat(COUNT, 1.0), ONSET, 1.5))
    timeline = run.firing("grad-explosion")[-1].diagnosis.timeline
    assert "clip-ineffective" in {rule for _, _, rule in timeline}


def test_a_timeline_of_several_series_names_them(watch: Any) -> None:
    """Two losses that are constant are distinguished by their names."""
    run = watch()
    run.records(loss=[1000.0] * 64, more={"loss/D": [-1000.0] * 64})
    texts = [text for _, text, _ in run.firing("loss-saturated")[-1].diagnosis.timeline]
    assert [text.rpartition(" ")[2] for text in sorted(texts)] == ["(loss)", "(loss/D)"]
