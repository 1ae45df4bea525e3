"""Check the settings of optimizers: learning rates, and eps in float16. Reads no tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .findings import Report

CHECKS = ("lr-zero", "lr-range", "eps-underflow")
RANGES = {
    "adam": (1e-8, 5e-3),
    "lion": (1e-9, 1e-3),
    "sgd": (1e-6, 10.0),
    "rmsprop": (1e-7, 5e-2),
    "adagrad": (1e-5, 1.0),
    "muon": (1e-5, 0.5),
}
"""Family -> usual learning rates. Adam's maximum is that of the rule lr-out-of-range; the others are at least
ten times beyond published recipes, so that only typos are found."""
DECADE = 10.0
"""A rate within this factor of the range is only information, because small models train with it."""
FP16_EPS = 2.0**-25
"""Half of float16's smallest number, which rounds to 0."""

Named = Mapping[str, Any]


def check_rates(optimizers: Named, report: Report) -> None:
    """Find rates of 0, and rates far from those of the optimizer's family."""
    report.checks += ["lr-zero", "lr-range"]
    for subject, optimizer, group in _groups(optimizers):
        rate, meant = group.get("lr"), _meant(optimizer, group)
        if not isinstance(rate, (int, float)) or not isinstance(meant, (int, float)):
            why = "there is none" if rate is None else "it is a tensor and is not read"
            report.unseen(f"learning rate of {subject}: {why}")
        elif meant == 0:
            report.add("lr-zero", "warning", subject, expected="above 0", got="0: nothing is learned")
        else:
            _check_range(subject, optimizer, float(meant), report)


def check_rates_still(optimizers: Named, report: Report) -> None:
    """Check again after a few steps, when a warm-up should have raised the rate above 0."""
    check_rates(optimizers, report)
    for subject, optimizer, group in _groups(optimizers):
        rate = group.get("lr")
        if isinstance(rate, (int, float)) and rate == 0 and _meant(optimizer, group):
            report.add(
                "lr-zero",
                "warning",
                subject,
                expected="above 0 at this step",
                got="still 0 after the warm-up began",
            )


def _meant(optimizer: Any, group: dict[str, Any]) -> Any:
    """Return the rate that the script has set: a warm-up starts at 0, and not every scheduler stores the
    target.
    """
    rate = group.get("lr")
    if "initial_lr" in group or not isinstance(rate, (int, float)) or rate != 0:
        return group.get("initial_lr", rate)
    return optimizer.defaults.get("lr", rate)


def _check_range(subject: str, optimizer: Any, rate: float, report: Report) -> None:
    family = _family(type(optimizer).__name__)
    if family is None:
        report.unseen(f"range of the learning rate of {subject}: not known for this kind of optimizer")
        return
    low, high = RANGES[family]
    if not math.isfinite(rate) or not low <= abs(rate) <= high or rate < 0:
        near = math.isfinite(rate) and low / DECADE <= rate <= high * DECADE
        report.add(
            "lr-range", "info" if near else "warning", subject,
            expected=f"{low:g} to {high:g} for {family}", got=f"{rate:g}",
        )  # fmt: skip


def _family(name: str) -> str | None:
    name = name.lower()
    return next(
        (family for family in ("adagrad", "adam", "lion", "rmsprop", "muon", "sgd") if family in name), None
    )


def check_eps(optimizers: Named, report: Report) -> None:
    """Find an eps that is 0 in float16 if the optimizer computes in float16."""
    report.checks.append("eps-underflow")
    for subject, _, group in _groups(optimizers):
        eps = group.get("eps")
        halves = sum(str(param.dtype) == "torch.float16" for param in group["params"])
        if halves and isinstance(eps, float) and eps <= FP16_EPS:
            got = f"{eps:g}, which is 0 in float16 ({halves} parameters): 0/0 is NaN"
            report.add(
                "eps-underflow", "warning", f"eps of {subject}", expected=f"above {FP16_EPS:.1e}", got=got
            )


def _groups(optimizers: Named) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for name, optimizer in optimizers.items():
        many = len(optimizer.param_groups) > 1
        for k, group in enumerate(optimizer.param_groups):
            yield f"{name} ({type(optimizer).__name__})" + (f" group {k}" if many else ""), optimizer, group
