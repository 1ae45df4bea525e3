"""Detect a loss that jumps to a higher level and stays there.

The rule compares medians of 16 records: a warning if each of the 13 medians after a jump exceeds each of the
13 before it, and the level rises by more than 10 %. Info if the learning rate rose by a factor of 1.3 at the
same time. In a log that starts at step 500 or later with records at least 10 steps apart, two records in a
row that are 35 % above three steady ones are enough. It recovers after three medians within 3 % of the old
level. A loss that stays at the new level has not recovered.

Signals:
    `loss`, `lr`
Warm-up:
    416 records; none for excerpts of a log
Does not fire on:
    - noise: the chance of 26 medians in this order is one in ten million
    - losses below 5 % of the initial one
    - a learning rate that rises
    - losses that usually vary that much
    - GAN losses and reinforcement learning
Likely causes:
    - other data from that point on: a shard, a mixture, longer sequences
    - one update that damaged the weights
    - a spike that never recovered
First action:
    Compare the data before and after the jump. Resume before it and skip 200 to 500 batches.
Source:
    BigScience tr8-104B, which never recovered; ml-engineering on repeated data. The comparison of the medians
    is tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "back at the level"
    recover_updates: int = 0
    resolve_updates: int = 100
    recover_records: int = sdk.setting(3, "bins", "Bins of 16 records back at the level that are needed")
    bins_per_side: int = sdk.setting(
        13, "bins of 16 records", "Bins before the jump, and after it, that are compared", least=3
    )
    rise: float = sdk.setting(0.1, "relative", "Rise of the new level above the old one")
    signed_rise_share: float = sdk.setting(
        0.25, "x largest absolute loss", "Rise of a loss that was ever 0 or negative"
    )
    signed_rise_spread: float = sdk.setting(2.0, "x spread", "Rise that such a loss must also reach")
    signed_rise_ratio: float = sdk.setting(
        1.5, "x largest earlier rise", "Rise that such a loss must also reach"
    )
    signed_history_bins: int = sdk.setting(
        52, "bins of 16 records", "Bins of such a loss that show its usual variation"
    )
    min_rise: float = sdk.setting(0.25, "x initial loss", "Smallest rise, for losses near 0")
    near_zero: float = sdk.setting(0.05, "x initial loss", "Loss below which it is near 0")
    recovered_within: float = sdk.setting(
        0.03, "relative", "Distance from the old level within which the loss has recovered"
    )
    excerpt_records: int = sdk.setting(
        3, "records", "Records at the start of an excerpt that define its level"
    )
    excerpt_ratio: float = sdk.setting(1.35, "x level", "Height of two records in a row above that level")
    excerpt_from_step: int = sdk.setting(500, "steps", "First step from which a log is an excerpt")
    excerpt_spacing: int = sdk.setting(10, "steps", "Smallest distance of records in an excerpt")
    lr_rise_ratio: float = sdk.setting(
        1.3, "x rate before", "Rise of the learning rate that explains a shift, so that it is info only"
    )


class State(sdk.RuleState):
    """The newest bins with the learning rate of each; the level before the current shift."""

    bins: sdk.Bins = msgspec.field(default_factory=lambda: sdk.Bins(16, 26))
    rates: list[float] = msgspec.field(default_factory=list)
    rate: float = 0.0
    initial: float | None = None
    lowest: float = math.inf
    largest: float = 0.0
    seen: int = 0
    risen: float = 0.0
    """Largest rise between a median and the one 13 bins later, before those being checked."""
    rests: list[float] = msgspec.field(default_factory=list)
    """Newest distances of single losses from the median of their bin, which give the spread."""
    brief: list[float] = msgspec.field(default_factory=list)
    """The first losses, while a stream is too short for bins."""


class LossLevelShift(sdk.Rule[Settings, State]):
    """Warning; info if the learning rate rose with the loss."""

    title = "Loss jumped to a higher level"
    severity = sdk.WARNING
    inhibited_by = ("nonfinite-loss", "loss-divergence", "weights-reset")
    adversarial = False
    needs = ("loss",)
    in_blocks = True

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        state = self.state
        if (
            view.first_step >= self.settings.excerpt_from_step
            and len(state.brief) < 2 * self.settings.bins_per_side
        ):
            for row, loss in zip(*view.losses, strict=True):
                self._excerpt(view, row, loss)
        for row in state.bins.extend(view):
            state.rate = view.value("lr", row) or state.rate
            self._bin(view, row)

    def _excerpt(self, view: sdk.View, row: int, loss: float) -> None:
        """Handle a log that starts in the middle of a run: its first records define the level."""
        state, limits = self.state, self.settings
        if len(state.brief) >= 2 * limits.bins_per_side:
            return
        state.brief.append(loss)
        n, first = len(state.brief), state.brief[: limits.excerpt_records]
        level = sdk.middle(sorted(first))
        even = min(first) > 0 and max(first) - min(first) < 0.2 * level
        sparse = view.age(row) >= limits.excerpt_spacing * (n - 1)
        if (
            n >= limits.excerpt_records + 2
            and even
            and sparse
            and min(state.brief[-2:]) > limits.excerpt_ratio * level
        ):
            evidence: list[sdk.Fact] = [
                ("level before", level, f"median of {limits.excerpt_records} records", view.first_step),
                ("loss", loss, "", view.step[row]),
            ]
            summary = (
                f"Loss jumped {sdk.number(level)} → {sdk.number(max(state.brief))} in an excerpt "
                f"of {n} records"
            )
            earlier = (view.step[row - 1], view.time_ns[row - 1]) if row else view.before
            onset = earlier or view.place(row)
            back = level + limits.recovered_within * abs(level)
            self.fire(view, row, sdk.WARNING, onset, summary, evidence, kind="jump", back=back)
        elif self.episode.state and self.is_back(loss):
            self.settle(view, row)

    def _bin(self, view: sdk.View, row: int) -> None:
        state, limits = self.state, self.settings
        state.rates.append(state.rate)
        del state.rates[: -2 * limits.bins_per_side]
        medians = state.bins.medians
        if state.initial is None:
            state.initial = medians[0]
        self._note(view, row, medians)
        if self.episode.back is not None:
            self._within(view, row, medians[-1])
        elif (
            len(medians) >= 2 * limits.bins_per_side
            and medians[limits.bins_per_side] > medians[limits.bins_per_side - 1]
        ):
            self._evaluate(view, row, medians[: limits.bins_per_side], medians[limits.bins_per_side :])

    def _note(self, view: sdk.View, row: int, medians: list[float]) -> None:
        """Update what is normal for this loss: its bounds, its spread, and earlier upward swings."""
        state, median, bins = self.state, medians[-1], self.settings.bins_per_side
        loss = view.value("loss", row)
        single = median if loss is None else loss
        state.seen += 1
        state.lowest, state.largest = min(state.lowest, median, single), max(state.largest, abs(median))
        state.rests.append(abs(single - median))
        del state.rests[:-64]
        if len(medians) > bins:
            state.risen = max(state.risen, medians[-bins - 1] - medians[0])

    def _evaluate(self, view: sdk.View, row: int, before: list[float], after: list[float]) -> None:
        state, limits = self.state, self.settings
        if min(after) <= max(before):
            return
        old, new = sdk.middle(sorted(before)), sdk.middle(sorted(after))
        if new - old <= self._least(old) or not _sudden(before, after, new - old):
            return
        if not (_level(before, new - old) and _level(after, new - old)):
            return
        rose = state.rates[limits.bins_per_side - 1] > 0 and max(
            state.rates[-limits.bins_per_side :]
        ) > limits.lr_rise_ratio * min(state.rates[: limits.bins_per_side])
        onset = (state.bins.steps[limits.bins_per_side], view.time_ns[row])
        evidence: list[sdk.Fact] = [
            ("level before", old, "median of 208 records", onset[0]),
            ("level after", new, "median of 208 records", view.step[row]),
        ]
        summary = f"Loss jumped {sdk.number(old)} → {sdk.number(new)} and has stayed there"
        severity, kind = (sdk.INFO, "rate") if rose else (sdk.WARNING, "jump")
        back = old + limits.recovered_within * abs(old)
        self.fire(view, row, severity, onset, summary, evidence, kind=kind, back=back)

    def _least(self, old: float) -> float:
        """Return the minimum height of a shift.

        It is relative to the level. For a loss that was ever 0 or negative, it must exceed its spread
        (1.4826 MAD) and its earlier rises.
        """
        state, limits = self.state, self.settings
        initial = state.initial or 0.0
        if state.lowest > 0:
            return max(limits.rise * old, limits.min_rise * initial * (old < limits.near_zero * initial))
        if state.seen < limits.signed_history_bins:
            return math.inf
        spread = 1.4826 * sdk.middle(sorted(state.rests))
        return max(
            limits.signed_rise_share * state.largest,
            limits.signed_rise_spread * spread,
            limits.signed_rise_ratio * state.risen,
        )

    def _within(self, view: sdk.View, row: int, median: float) -> None:
        state = self.state
        if self.is_back(median):
            self.settle(view, row)
        else:
            self.continues(view, row)
        if not self.episode.state:
            state.bins.medians, state.bins.steps, state.rates = [], [], []


def _level(medians: list[float], height: float) -> bool:
    """Return whether the loss is level on each side, which makes it a jump and not a slope."""
    third = len(medians) // 3
    climb = sdk.middle(sorted(medians[-third:])) - sdk.middle(sorted(medians[:third]))
    return climb < 0.4 * height


def _sudden(before: list[float], after: list[float], height: float) -> bool:
    """Return whether most of the height lies between the four bins on either side."""
    return sdk.middle(sorted(after[:4])) - sdk.middle(sorted(before[-4:])) > 0.7 * height


def _rate(case: sdk.DiagnosisContext) -> sdk.Cause:
    return sdk.Cause(
        "rate-rose",
        "The learning rate rose at that step, and a higher rate keeps the loss at a higher level.",
        "a learning rate that rose",
        (sdk.remedies.CHECK_SCHEDULE, sdk.remedies.lower_lr(case, 2.0)),
        "Lower the learning rate again: the loss returns to its level.",
    )


_BESIDES = (
    ("scale", "the loss scale", sdk.scale),
    ("grad_norm", "the gradient norm", sdk.number),
    ("lr", "the learning rate", sdk.number),
)
NEAREST, MOVED = 20, 1.5
"""Number of records before the onset that define a level, and the factor that makes another level."""


def _moved(case: sdk.DiagnosisContext) -> list[str]:
    """Return the other signals with another level since the onset, as text."""
    found = []
    for base, name, written in _BESIDES:
        before, after = (
            sdk.median([value for _, value in pairs if math.isfinite(value)])
            for pairs in (case.before(base)[-NEAREST:], case.since(base))
        )
        if before is not None and after is not None and max(before, after) > MOVED * min(before, after):
            found.append(f"{name} went {written(before)} → {written(after)}")
    return found


def _data(case: sdk.DiagnosisContext) -> sdk.Cause:
    moved = _moved(case)
    still = "Loss scale, gradient norm and learning rate kept their levels, as far as recorded"
    lead = f"At the same step, {' and '.join(moved)}" if moved else still
    return sdk.Cause(
        "other-data",
        f"{lead}. Likely different data (a new shard or mix, longer sequences, another "
        "augmentation), or weights that were damaged by one update.",
        "different data from that step on",
        (
            sdk.Remedy("Compare the batches before and after that step."),
            sdk.remedies.go_back(case),
            sdk.remedies.SKIP_DATA,
            sdk.remedies.clip(case),
        ),
        (
            "Evaluate a fixed batch with the weights from before and after: only with damaged "
            "weights does its loss change."
        ),
    )


def _damaged(case: sdk.DiagnosisContext) -> sdk.Cause:
    return sdk.Cause(
        "damaged",
        "One update damaged the weights.",
        "one update that damaged the weights",
        (sdk.remedies.go_back(case),),
        "Evaluate the new batches with the weights from before the step: the loss is at its old level.",
    )


CAUSES = (
    (sdk.RATE, sdk.of_kind("rate", _rate)),
    (sdk.DATA, sdk.of_kind("jump", _data)),
    (sdk.OPTIMISATION, sdk.of_kind("jump", _damaged)),
)
