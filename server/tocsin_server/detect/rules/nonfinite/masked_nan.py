"""Detect a finite loss that hides a NaN.

Critical if the loss is exactly 0 in three records while the gradient norm is not finite, or is constant
within 1e-5 in five records while the norm is NaN. A warning if no norm is known and the loss fell from more
than a fifth of its first value to exactly 0 for 20 records. It recovers after 5 healthy updates and
resolves after 50.

Signals:
    `loss`, `grad_norm`, `lr`
Warm-up:
    none
Does not fire on:
    - a loss of 0 with a finite norm, which is `loss-saturated`
    - a single overflow on a skipped step
Likely causes:
    - `logging_nan_inf_filter` of the Hugging Face Trainer
    - `nan_to_num` in the graph
    - averages that leave NaN out
    - labels that are all ignored
First action:
    Set `logging_nan_inf_filter=False`, and search the model for `nan_to_num`.
Source:
    Hugging Face Transformers, `trainer.py`; many public reports of `loss: 0.0, grad_norm: nan`.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "with normal values"
    recover_updates: int = 5
    resolve_updates: int = 50
    zero_records: int = sdk.setting(
        3, "records", "Records in a row with a loss of exactly 0 and a non-finite norm"
    )
    zero_records_without_norm: int = sdk.setting(
        20, "records", "Records in a row with a loss of exactly 0 and no known norm"
    )
    flat_records: int = sdk.setting(5, "records", "Records in a row with a constant loss and a norm of NaN")
    constant_range: float = sdk.setting(1e-5, "relative", "Range of the loss within which it is constant")
    min_loss_before: float = sdk.setting(0.2, "x first loss", "Smallest loss before a fall to exactly 0")


class State(sdk.RuleState):
    """Counts of the current stretch.

    ``zeros`` and ``flat``: losses of exactly 0 or constant, with a non-finite norm; ``alone``: losses
    of exactly 0 without any norm.
    """

    zeros: int = 0
    alone: int = 0
    flat: int = 0
    anchor: float = 0.0
    last: float = 0.0
    first: float = 0.0
    norms: bool = False
    fall: sdk.Fall = msgspec.field(default_factory=sdk.Fall)
    since: tuple[int, int] = (0, 0)


class MaskedNan(sdk.Rule[Settings, State]):
    """Critical if the norm is non-finite; warning if there is only a drop to exactly 0."""

    title = "Finite loss hides a NaN"
    severity = sdk.CRITICAL
    inhibited_by = ("nonfinite-loss",)
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        losses, norms, state = view.loss, view.grad_norm, self.state
        if losses is None or (self._nothing_new(view, norms) and 0.0 not in losses):
            return
        for row, loss in enumerate(losses):
            if loss is None or not math.isfinite(loss):
                continue
            norm = norms[row] if norms is not None else None
            state.norms = state.norms or norm is not None
            bad = norm is not None and not math.isfinite(norm)
            self._one(view, row, loss, bad=bad, over=norm is not None and math.isinf(norm))
            if loss:
                state.last = abs(loss)

    def _nothing_new(self, view: sdk.View, norms: list[float | None] | None) -> bool:
        state = self.state
        if state.zeros or state.alone or state.flat or self.episode.state or self.quantum("loss"):
            return False
        if norms is not None:
            state.norms = True
            if not sdk.all_finite(norms):
                return False
        losses = view.loss or []
        state.first = state.first or next((abs(loss) for loss in losses if loss and math.isfinite(loss)), 0.0)
        newest = losses[-1] if losses else None
        state.last = abs(newest) if newest and math.isfinite(newest) else state.last
        return True

    def _one(self, view: sdk.View, row: int, loss: float, *, bad: bool, over: bool) -> None:
        """Process one record.

        Args:
            view: The records being checked.
            row: Index of the record in ``view``.
            loss: The loss of the record.
            bad: Whether its norm is non-finite.
            over: Whether its norm is infinite, as at an overflow.
        """
        state, limits = self.state, self.settings
        if not (state.zeros or state.alone or state.flat):
            state.since, state.anchor = view.place(row), loss
        still = abs(loss - state.anchor) <= limits.constant_range * abs(state.anchor)
        state.first = state.first or abs(loss)
        zero = state.fall.is_zero(loss, self.quantum("loss"))
        fell = state.last >= limits.min_loss_before * state.first > 0 and zero
        state.zeros = state.zeros + 1 if bad and loss == 0.0 else 0
        state.alone = state.alone + 1 if loss == 0.0 and not state.norms and (fell or state.alone) else 0
        state.flat = state.flat + 1 if bad and still and not over else 0
        if state.zeros >= limits.zero_records:
            self._fire(view, row, sdk.CRITICAL, "zero", state.zeros)
        elif state.flat >= limits.flat_records:
            self._fire(view, row, sdk.CRITICAL, "flat", state.flat)
        elif state.alone >= limits.zero_records_without_norm:
            self._fire(view, row, sdk.WARNING, "alone", state.alone)
        elif self.episode.state and not bad and loss != 0.0:
            self.settle(view, row)

    def _fire(self, view: sdk.View, row: int, severity: int, kind: str, times: int) -> None:
        state, level = self.state, sdk.grade(times)
        evidence: list[sdk.Fact] = [
            ("loss", state.anchor, "", view.step[row]),
            ("in a row", float(times), "records", None),
        ]
        rates = view.value("lr", row)
        if rates == 0.0:
            evidence.append(("learning rate", 0.0, "", view.step[row]))
        norm = "" if kind == "alone" else " while the gradient norm is not finite"
        summary = (
            f"Loss is {sdk.number(state.anchor)} in {sdk.count(times, 'record')}{norm}, which hides a NaN"
        )
        self.fire(view, row, severity, state.since, summary, evidence, level=level, kind=kind, size=times)


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    skipped = any(fact[0] == "learning rate" for fact in case.result.evidence)
    rate = (
        (" The learning rate of 0 is a consequence: updates are skipped, so the schedule does not advance.")
        if skipped
        else ""
    )
    return sdk.Cause(
        "masked",
        "The reported loss is not the one that is trained: a logging filter or an average "
        f"drops NaN, or nan_to_num or a mask hides it.{rate}",
        "a filter that hides NaN",
        (
            sdk.Remedy(
                "Turn off the logger's NaN filter (Hugging Face Trainer hides NaN by default).",
                "TrainingArguments(..., logging_nan_inf_filter=False)",
            ),
            sdk.Remedy("Search for torch.nan_to_num and for batches in which all labels are ignored (-100)."),
            sdk.remedies.FIND_MODULE,
            sdk.remedies.BF16,
        ),
        "Print the loss tensor before backward(): it is NaN.",
    )


CAUSES = ((sdk.MEASUREMENT, _why),)
