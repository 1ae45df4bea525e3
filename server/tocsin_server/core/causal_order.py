"""Order simultaneous alerts from cause to effect, whichever fired first. Pure functions.

Rules of one causal chain fire within a few steps of each other, in an order that depends on rounding and
differs between CPUs. Alerts that began at about the same step are therefore ordered as in a diagnosis:
measurement, data, learning rate, loss scaler, forward pass, gradients, optimization, machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin_server.core.models import RUN_FAILED, Alert

NEAR_STEPS = 100
"""Alerts that began at most this many steps apart count as simultaneous."""

CHAINS: dict[str, tuple[str, ...]] = {
    "training": (
        # measurement
        "duplicate-steps", "step-rewind", "norm-after-zero", "scaled-grad-norm", "masked-nan",
        # data
        "nonfinite-input", "bad-shard", "same-step-failure",
        # learning rate
        "zero-lr", "lr-restart", "lr-jump", "lr-out-of-range",
        # loss scaler
        "scaler-not-updating", "scaler-at-floor", "scaler-collapse", "scaler-overflow-burst",
        "scaler-runaway",
        # forward pass
        "nonfinite-loss-component", "nonfinite-loss", "nonfinite-grad-norm", "nonfinite-weights",
        "weights-reset", "loss-saturated",
        # gradients
        "zero-grad-norm", "vanishing-gradient", "grad-precursor", "grad-explosion", "grad-norm-drift",
        "clip-ineffective", "clip-always-active",
        # optimization
        "early-climb", "loss-divergence", "loss-level-shift", "loss-spike", "loss-drift", "loss-oscillation",
        "adversarial-imbalance", "component-dominates", "recurrent-instability", "lr-on-skips",
        "rank-divergence",
    ),
    "progress": (
        "not-learning", "plateau", "slow-convergence", "stair-steps", "overfitting", "metric-degradation",
    ),
    "process": ("restart-loop", "trainer-lost", "stalled"),
    "throughput": ("straggler", "throughput-regression", "data-bound", "gpu-underused"),
}  # fmt: skip
"""Built-in rules by chain: rules of one chain can follow from each other. Nearest to the cause first."""
ORDER = tuple(rule for chain in CHAINS.values() for rule in chain)
"""Built-in rules, nearest to the cause first. Custom rules come after them."""
_CHAIN = {rule: chain for chain, rules in CHAINS.items() for rule in rules} | {RUN_FAILED: "process"}
_PLACE = {rule: place for place, rule in enumerate(ORDER)}


def place(rule: str) -> int:
    """Return the position of ``rule`` in ORDER: 0 is nearest to the cause, ``len(ORDER)`` a custom rule."""
    return _PLACE.get(rule, len(ORDER))


def chain_of(rule: str) -> str:
    """Return the chain of CHAINS that has ``rule``, or "" for a custom rule."""
    return _CHAIN.get(rule, "")


def in_order(event: tuple[int, str, str]) -> tuple[int, int, str]:
    """Return the sort key of a timeline entry: by step, and by cause within a step.

    Args:
        event: (step, text, rule); entries without a rule come first within their step.
    """
    step, text, rule = event
    return step, place(rule) if rule else -1, text


def by_cause(alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts, most severe first; simultaneous ones of a run and severity by cause."""
    oldest = sorted(alerts, key=lambda alert: (-alert.severity.level, alert.onset_ns, alert.id))
    began: dict[tuple[str, int], Alert] = {}
    keys: dict[int, tuple[int, int, str, int]] = {}
    for alert in oldest:
        group = (alert.run_id, alert.severity.level)
        first = began.get(group)
        if first is None or not _simultaneous(first, alert):
            first = began[group] = alert
        keys[id(alert)] = (-alert.severity.level, first.onset_ns, first.id, place(alert.rule))
    return sorted(oldest, key=lambda alert: keys[id(alert)])


def _simultaneous(first: Alert, other: Alert) -> bool:
    if first.onset_step is None or other.onset_step is None:
        return False
    return abs(other.onset_step - first.onset_step) <= NEAR_STEPS
