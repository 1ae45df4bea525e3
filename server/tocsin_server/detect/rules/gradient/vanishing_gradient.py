"""Detect a gradient norm that is almost zero for hundreds of records.

A warning if the norm is above 0 but below a millionth of the early norm (the median of the first 50), or
below 1e-8, in 200 records in a row. Info if the loss is below half of its first value, because the run has
probably converged. It recovers after 100 updates with a usual norm and resolves after 300.

Signals:
    `grad_norm`, `loss`
Warm-up:
    50 records for the relative limit
Does not fire on:
    - small losses, which have small gradients: a norm of 1e-4 at a loss of 5e-4 is healthy
Likely causes:
    - saturated activations
    - depth without residual connections or normalization
    - float16 underflow
First action:
    Use a loss scaler or bfloat16, and check normalization and initialization.
Source:
    SageMaker Debugger, VanishingGradient (1e-7); AutoTrainer. The limits relative to the run are tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    early_records: int = sdk.setting(
        50, "records", "Records with a norm above 0 that define the early norm; also the warm-up"
    )
    vanished_ratio: float = sdk.setting(1e-6, "x early norm", "Norm below which it has vanished")
    vanished_norm: float = sdk.setting(
        1e-8, "grad norm", "Norm below which it has vanished, whatever the early norm (fp16 ends at 6e-8)"
    )
    vanished_records: int = sdk.setting(200, "records", "Records in a row with a vanished norm")
    converged_ratio: float = sdk.setting(0.5, "x first loss", "Loss below which the run has converged")


class State(sdk.RuleState):
    """The early norms until there are enough, then their median; the current streak; first and last loss."""

    early: list[float] = msgspec.field(default_factory=list)
    usual: float = 0.0
    streak: int = 0
    since: tuple[int, int] = (0, 0)
    first_loss: float | None = None
    loss: float | None = None


class VanishingGradient(sdk.Rule[Settings, State]):
    """Warning if the loss has not fallen; info if it has, because it may have converged."""

    title = "Gradients have nearly vanished"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "zero-grad-norm", "norm-after-zero")
    needs = ("grad_norm",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        norms = view.grad_norm
        if norms is None:
            return
        losses = view.loss
        if self._nothing_new(norms, losses):
            return
        for row, norm in enumerate(norms):
            if losses is not None:
                self._follow(losses[row])
            if norm is not None and norm != 0.0 and math.isfinite(norm):
                self._one(view, row, norm)

    def _nothing_new(self, norms: sdk.Values, losses: sdk.Values | None) -> bool:
        """Handle the common case quickly: every norm is far from vanishing."""
        state, limits = self.state, self.settings
        if not state.usual or state.streak or self.episode.state or not sdk.positive(norms):
            return False
        if min(norms) <= max(limits.vanished_norm, limits.vanished_ratio * state.usual):  # type: ignore[type-var,operator]
            return False
        if losses is not None:
            if not sdk.all_finite(losses) or losses[-1] is None or state.first_loss is None:
                return False
            state.loss = losses[-1]
        return True

    def _follow(self, loss: float | None) -> None:
        state = self.state
        if loss is not None and math.isfinite(loss):
            state.first_loss = loss if state.first_loss is None else state.first_loss
            state.loss = loss

    def _one(self, view: sdk.View, row: int, norm: float) -> None:
        state, limits = self.state, self.settings
        if len(state.early) < limits.early_records:
            state.early.append(norm)
            state.usual = sdk.middle(sorted(state.early)) if len(state.early) == limits.early_records else 0.0
        if norm > max(limits.vanished_norm, limits.vanished_ratio * state.usual):
            state.streak = 0
            self.settle(view, row)
            return
        if not state.streak:
            state.since = view.place(row)
        state.streak += 1
        if state.streak >= limits.vanished_records:
            self._fire(view, row, norm)

    def _fire(self, view: sdk.View, row: int, norm: float) -> None:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("grad norm", norm, "", view.step[row]),
            ("early norm", state.usual, "median of the first records", None),
            ("in a row", float(state.streak), "records", None),
        ]
        if state.loss is not None:
            evidence.append(("loss", state.loss, "", view.step[row]))
        times = sdk.count(state.streak, "record")
        summary = f"Gradient norm is {sdk.number(norm)} in {times}, down from {sdk.number(state.usual)}"
        converged = self._converged()
        self.fire(
            view, row, sdk.INFO if converged else sdk.WARNING, state.since, summary, evidence,
            level=sdk.grade(state.streak), kind="converged" if converged else "vanished", size=state.streak,
        )  # fmt: skip

    def _converged(self) -> bool:
        first, now = self.state.first_loss, self.state.loss
        return (
            first is not None
            and now is not None
            and first > 0
            and now < self.settings.converged_ratio * first
        )


def vanished(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of vanishing gradients."""
    if case.result.kind == "converged":
        return sdk.Cause(
            "converged", "The loss has fallen far, so training has probably converged.",
            "training that has converged", (sdk.Remedy("Stop the run if the validation metric no "
            "longer improves."),),
            "Check the validation metric: it no longer improves.",
        )  # fmt: skip
    return sdk.Cause(
        "vanishing",
        "Updates are too small to change the weights: saturated activations, a very deep "
        "network without residual connections or normalization, or a tiny loss weight"
        + (", or gradients that underflow fp16." if case.scaled else "."),
        "vanishing gradients",
        (
            sdk.remedies.CHECK_GRAPH,
            sdk.Remedy(
                "Use a loss scaler or bfloat16; fp16 cannot represent values below 6e-8.",
                "scaler = torch.amp.GradScaler()",
            )
            if case.scaled
            else None,
            sdk.Remedy(
                "Add normalization layers, change the initialization, or raise the weight of the loss."
            ),
        ),
        "Log the gradient norm of each layer: it shrinks toward the input.",
    )


CAUSES = ((sdk.GRADIENT, vanished),)
