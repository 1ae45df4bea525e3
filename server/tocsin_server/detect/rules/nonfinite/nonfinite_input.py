"""Detect a batch that contains NaN or infinity.

A warning for every batch with a non-finite element. It recovers after 50 updates with finite batches and
resolves after 500.

Signals:
    `nonfinite/batch`, from `run.check(batch=...)`
Warm-up:
    none
Does not fire on:
    - NaN used as a mask: if 90 % of the batches contain it, the alert is info
Likely causes:
    - preprocessing: a division by a standard deviation of 0, log of 0
    - damaged samples
    - a reader that fills gaps with NaN
First action:
    Fix the preprocessing or remove the sample. `bad-shard` names the data if you call `run.batch`.
Source:
    UMLAUT (NaN in input). Not critical, because no rate of false alarms was measured.
"""

from __future__ import annotations

from tocsin_server.detect import sdk

NAME = "nonfinite/batch"


class Settings(sdk.RuleSettings):
    """Thresholds of the rule. If nearly all batches contain NaN, it is a mask value."""

    calm = "with finite batches"
    recover_updates: int = 50
    resolve_updates: int = 500
    min_batches: int = sdk.setting(
        100, "batches", "Batches that must have been checked before a share is reported"
    )
    mask_share: float = sdk.setting(
        0.9,
        "share of batches",
        "Share with non-finite values from which they are a mask, so that it is info only",
    )


class State(sdk.RuleState):
    """Number of batches checked, and how many of them were non-finite."""

    seen: int = 0
    bad: int = 0


class NonfiniteInput(sdk.WideRule[Settings, State]):
    """Warning; info if nearly all batches contain NaN as a mask.

    Never critical, because its false alarm rate was not measured. Other rules report the effect on the
    loss or the gradient as critical.
    """

    title = "Batch contains NaN or Inf"
    severity = sdk.WARNING
    needs = (NAME,)
    about = NAME

    def observe(self, view: sdk.View) -> None:
        flags = view.column(NAME)
        if flags is None:
            return
        for row, flag in enumerate(flags):
            if flag is None:
                continue
            self.state.seen += 1
            if flag != 0.0:
                self._bad(view, row)
            elif self.episode.state:
                self.settle(view, row)

    def _bad(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        state.bad += 1
        share = state.bad / state.seen
        usual = state.seen >= limits.min_batches and share >= limits.mask_share
        step = view.step[row]
        evidence: list[sdk.Fact] = [
            ("batches that are not finite", float(state.bad), "batches", step),
            ("of all looked at", 100 * share, "%", None),
        ]
        evidence += [("input", text, "", step) for text in self.context.inputs_at(step)]
        if state.bad == 1:
            summary = f"Batch of step {step} contains non-finite values"
        else:
            times = sdk.count(state.bad, "batch").replace("batchs", "batches")
            summary = f"{times} of {state.seen} contain non-finite values ({sdk.number(100 * share)} %)"
        severity = sdk.INFO if usual else sdk.WARNING
        onset = (self.episode.onset_step if self.episode.state else step, view.time_ns[row])
        kind = "mask" if usual else "batch"
        level = sdk.grade(state.bad)
        self.fire(view, row, severity, onset, summary, evidence, level=level, kind=kind, size=state.bad)
