"""Results of the config check: findings with their remedies, and what could not be checked. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

LISTED = 8
"""Names that one finding spells out; the others are counted."""
FINDINGS = 64
"""Maximum number of findings in one report."""

REMEDIES = {
    "scaler-settings": "Use torch.amp.GradScaler's defaults: init_scale=2**16, growth_factor=2.0, "
    "backoff_factor=0.5, growth_interval=2000.",
    "scaler-missing": "Wrap the loss: scaler.scale(loss).backward(); scaler.step(optimizer); "
    "scaler.update(). Or use bfloat16, which needs no scaler.",
    "scaler-needless": "Remove the GradScaler, or construct it with enabled=False.",
    "lr-zero": "Set lr on the optimizer, and check the factor by which the scheduler multiplies it.",
    "lr-range": "Compare it with the recipe that the learning rate was taken from; learning rates do not "
    "transfer from one optimizer to another.",
    "clip-threshold": "Choose a max_norm near the 90th percentile of the gradient norm of healthy training.",
    "masked-values": "Find the operation that produces the NaN and fix it there; "
    "run.check(losses={...}) names the term of the loss.",
    "clamped-values": "Check the limits of the clamp: where it acts, no gradient passes.",
    "fp16-unsafe": "Compute it in float32: with torch.autocast(device_type, enabled=False): op(x.float()).",
    "eps-underflow": "Use an eps of at least 1e-4 in float16, or keep this computation in float32.",
    "frozen-parameters": "If this is intended, do nothing. Otherwise call requires_grad_(True) before you "
    "create the optimizer.",
    "missing-parameters": "Add them to the optimizer: optimizer.add_param_group({'params': [...]}).",
    "parameters-without-gradient": "Check that their module is used in forward and that its output reaches "
    "the loss without detach().",
    "constant-norm": "Report the norm before clipping with run.log(grad_norm=...), or clip with torch's "
    "clip_grad_norm_. Otherwise rules on gradients see only the clipping threshold.",
    "no-steps": "Call run.step(loss=...) once per step, because the hook sees no torch optimizer that "
    "updates these weights.",
    "shared-weights": "Register the weights once and use the same Parameter in both places, so that one "
    "update moves both.",
}
"""Check -> its remedy. The checks are the API; each has a heading in docs/reference/config-check.md."""


@dataclass(frozen=True)
class Finding:
    """One problem or note. ``severity``: warning or info."""

    check: str
    severity: str
    subject: str
    expected: str
    got: str
    remedy: str


@dataclass
class Report:
    """Contents of one ``preflight`` event: the ``checks`` that were made, and what was ``not_checkable``."""

    stage: str
    findings: list[Finding] = field(default_factory=list)
    not_checkable: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)

    def add(self, check: str, severity: str, subject: str, *, expected: str, got: str) -> None:
        """Add a finding with the remedy of its check. Findings beyond FINDINGS are left out.

        Args:
            check: Name of the check, a key of REMEDIES.
            severity: ``warning`` or ``info``.
            subject: What the finding is about, such as ``AdamW.lr``.
            expected: What is normal.
            got: What was found.
        """
        if len(self.findings) < FINDINGS:
            self.findings.append(Finding(check, severity, subject, expected, got, REMEDIES[check]))

    def unseen(self, what: str) -> None:
        """Record what cannot be checked, and why, so that it does not count as passed."""
        if what not in self.not_checkable and len(self.not_checkable) < FINDINGS:
            self.not_checkable.append(what)

    def drop_repeated(self, earlier: Report) -> None:
        """Drop the checks that have the same findings in ``earlier``, and what neither report could check."""
        for check in {one.check for one in self.findings}:
            if self._answer(check) == earlier._answer(check):
                self.findings = [one for one in self.findings if one.check != check]
                self.checks = [one for one in self.checks if one != check]
        self.not_checkable = [one for one in self.not_checkable if one not in earlier.not_checkable]

    def _answer(self, check: str) -> set[tuple[str, str]]:
        return {(one.severity, one.subject) for one in self.findings if one.check == check}

    def data(self, took_ms: float) -> dict[str, Any]:
        """Return the data of the event."""
        return {
            "stage": self.stage,
            "checks": self.checks,
            "findings": [asdict(one) for one in self.findings],
            "not_checkable": self.not_checkable,
            "took_ms": round(took_ms, 3),
        }


def some(names: Iterable[str]) -> str:
    """Return the first LISTED names, and how many more there are."""
    every = list(names)
    more = len(every) - LISTED
    return ", ".join(every[:LISTED]) + (f" and {more} more" if more > 0 else "")
