"""Detect a loss that rises above its own baseline for a short time.

A loss is an outlier if it exceeds the median of 50 records by 8 robust standard deviations (1.4826 MAD) and
by 20 %, and exceeds every loss in that window. If all losses are positive, it must also exceed 8 deviations
of their logarithms, and the height that the tail of the run's own losses reaches once in 10,000 records (at
most 30 times the median). Five losses in a row above three times the median are outliers whatever the tail
is. Two outliers in five records are a warning; so is a single one at twice the median if records are 10 or
more steps apart, or at three times the first losses. Otherwise a single outlier is pending. Critical if the
loss stays above three times the median for 10 records and half of what was learned is lost. It recovers when
the loss is within 5 % of its baseline from before the onset for 3 records. A level at which the loss stays
for 200 records becomes the baseline of further spikes, but does not resolve the alert.

Signals:
    `loss`
Warm-up:
    50 records; also 50 records after a non-finite loss
Does not fire on:
    - losses of batches with few samples, which can be a hundred times the median
    - losses near 0, which must rise by 2 % of the first losses
    - GAN losses and reinforcement learning
Likely causes:
    - a bad batch
    - the learning rate at the end of its warm-up
    - Adam's beta2 or epsilon
    - float16
    - faulty hardware
First action:
    Do nothing if the loss recovered. Otherwise resume about 100 steps earlier and skip the next 200 to 500
    batches, or halve the learning rate.
Source:
    Measured: alerts on 2 of 31 healthy and 11 of 13 unstable logs, compared with 3 of 31 and 8 of 13 for six
    standard deviations of the last 128 records (OLMo-core). PaLM, section 5.1, for skipping data.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk

ALMOST = 0.99
"""Share of the limits that a loss must not exceed to be passed over, so that rounding does not matter."""
TAIL, RARE, LEAD_IN = 10, 10_000, 10
"""The tail is the highest tenth of a baseline; outliers are rarer than one in ``RARE``; newest ones left out.

The newest records are left out because they may be the climb to the spike.
"""
PEAKS, FEWEST_PEAKS = 48, 8
"""Maximum number of peaks that are kept, and the minimum number that is used."""
GUMBEL = 3.15
"""Distance from the median of a Gumbel distribution to the highest of 200 values: (ln 200 - 0.37) / 1.57.

The unit is the interquartile range.
"""


class Settings(sdk.RuleSettings):
    calm = "back at the baseline"
    recover_updates: int = 1
    resolve_updates: int = 10
    recover_records: int = sdk.setting(3, "records", "Records back at the baseline that are needed")
    window: int = sdk.setting(50, "records", "Records in the baseline; also the warm-up", least=3)
    deviations: float = sdk.setting(
        8.0, "robust sigma", "Height above the median from which a loss is an outlier"
    )
    relative: float = sdk.setting(
        0.2, "relative", "Height above the median that is also required, if all losses are positive"
    )
    min_height: float = sdk.setting(
        0.02, "x first losses", "Smallest height of an outlier, for losses near 0"
    )
    confirm_records: int = sdk.setting(
        2, "records", "Outliers among the last five records before the alert is a warning"
    )
    single_record_ratio: float = sdk.setting(
        2.0, "x median", "Loss at which one outlier is a warning, if records are far apart"
    )
    far_apart_steps: int = sdk.setting(10, "steps", "Smallest distance of records that are far apart")
    single_record_first_ratio: float = sdk.setting(
        3.0, "x first losses", "Loss at which one outlier is always a warning"
    )
    max_tail_ratio: float = sdk.setting(
        30.0, "x median", "Loss that is an outlier whatever the tail of the run's own losses"
    )
    high_records: int = sdk.setting(
        5, "records", "Records in a row above high_ratio that are outliers whatever the tail", least=2
    )
    high_ratio: float = sdk.setting(3.0, "x median", "Height of these records")
    critical_ratio: float = sdk.setting(3.0, "x median", "Lasting height that is critical")
    critical_lost_share: float = sdk.setting(
        0.5, "of the progress", "Part of what was learned that must also be lost"
    )
    critical_records: int = sdk.setting(
        10, "records", "Records in a row above the critical height that make it critical"
    )
    recovered_within: float = sdk.setting(
        0.05, "relative", "Distance from the baseline within which the loss has recovered"
    )
    new_baseline_records: int = sdk.setting(
        200, "records", "Records at a new level after which it is the baseline of further spikes"
    )
    quiet_records_after_nan: int = sdk.setting(
        50, "records", "Records without alerts after a non-finite loss"
    )


class State(sdk.RuleState):
    """``base``: the baseline; ``outside``: records beyond it; ``recent``: which of the last five were."""

    base: sdk.RollingMedian = msgspec.field(default_factory=lambda: sdk.RollingMedian(50))
    first: float = 0.0
    """Mean size of the losses of the first window, for the absolute floor."""
    given: bool = False
    """Whether ``first`` is known although the baseline starts again."""
    positive: bool = True
    outside: list[float] = msgspec.field(default_factory=list)
    recent: list[bool] = msgspec.field(default_factory=list)
    onset: tuple[int, int] = (0, 0)
    peak: float = 0.0
    baseline: float = 0.0
    """The median when the current episode started; the baseline is still updated during it."""
    high: int = 0
    muted: int = 0
    row: int = 0
    """Number of consecutive losses above ``bar``, which may be outliers that the tail hides."""
    bar: float = 0.0
    row_from: tuple[int, int] = (0, 0)
    """Step and time of the first of them."""
    peaks: list[float] = msgspec.field(default_factory=list)
    """Newest logarithms of loss divided by median where a loss exceeded the whole baseline."""
    noted: int = 0
    """Number of the record with which the stretch of the newest peak started."""


class LossSpike(sdk.Rule[Settings, State]):
    """Warning when confirmed, critical when far above for ten consecutive records."""

    title = "Training loss spikes"
    severity = sdk.CRITICAL
    inhibited_by = ("nonfinite-loss", "loss-divergence")
    adversarial = False
    needs = ("loss",)

    def respaced(self) -> None:
        """Keep the height of the first losses, which the floor for losses near 0 depends on."""
        first, positive = self.state.first, self.state.positive
        self.state = State(first=first, positive=positive, given=True)

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        row, losses, n = 0, view.loss, view.n
        while row < n:
            if self._calm():
                # Nearly every loss takes this path: it does not exceed the baseline, so it exceeds no limit.
                row = self.state.base.pass_over(losses, row, n)
                if row == n:
                    return
                limit = self._least_limit()
                if 0.0 < (losses[row] or 0.0) <= limit:
                    row = self.state.base.pass_over(losses, row, min(row + sdk.PACE, n), limit)
                    continue
            loss = losses[row]
            if loss is not None:
                self._one(view, row, loss)
            row += 1

    def ceiling(self) -> float:
        """Return the highest loss that neither exceeds the baseline nor the least limit."""
        if not self._calm():
            return -math.inf
        return max(self._least_limit(), max(self.state.base.arrived[sdk.PACE :], default=-math.inf))

    def _least_limit(self) -> float:
        """Return a loss that leaves no baseline within the next ``PACE`` records; -inf if there is none.

        Up to ``relative`` above the median, a positive loss is neither high nor outside nor a peak.
        """
        limits = self.settings
        if not self.state.positive:
            return -math.inf
        return (1 + ALMOST * min(limits.relative, limits.high_ratio - 1)) * self.state.base.least_median(
            sdk.PACE
        )

    def _calm(self) -> bool:
        """Return whether the baseline is known and nothing exceeds it, now or shortly before."""
        state = self.state
        full = len(state.base.arrived) >= self.settings.window
        return full and not (state.recent or state.muted or state.row or self.episode.state)

    def _one(self, view: sdk.View, row: int, loss: float) -> None:
        state, limits = self.state, self.settings
        if not math.isfinite(loss):
            state.muted = limits.quiet_records_after_nan
            return
        if loss < 0.0:
            state.positive = False
        if len(state.base.arrived) < limits.window:
            self._warm_up(loss)
            return
        self._count(view, row, loss)
        if state.recent or self.episode.state or self._leaves(loss):
            self._closely(view, row, loss)
        else:
            self._note(view.first + row, loss)
            state.base.push(loss)
            state.muted -= state.muted > 0

    def _count(self, view: sdk.View, row: int, loss: float) -> None:
        """Count consecutive losses that are high for this baseline, tail included."""
        state, base = self.state, self.state.base
        if state.row == 0:
            half = self.quantum("loss") / 2
            state.bar = max(self.settings.high_ratio * (base.median + half) + half, base.ordered[-3])
            state.row_from = view.place(row)
        state.row = state.row + 1 if state.positive and loss > state.bar else 0

    def _warm_up(self, loss: float) -> None:
        state = self.state
        state.base.size = self.settings.window
        state.base.push(loss)
        if not state.given:
            state.first += abs(loss) / self.settings.window
        state.muted -= state.muted > 0

    def _leaves(self, loss: float) -> bool:
        """Return whether the loss is above the limit; the deviation is expensive, so it is computed last."""
        state, limits = self.state, self.settings
        base = state.base
        if state.row >= limits.high_records:
            return True
        if loss <= base.highest:
            return False
        median = base.median
        height = loss - median
        if height < limits.deviations * sdk.HIDDEN * self.quantum("loss"):
            return False
        if state.positive and median <= 0.0:
            return loss > state.first  # most losses are 0, so the ratio of any other is infinite
        if state.positive and height <= limits.relative * median:
            return False
        if height <= limits.min_height * state.first or base.within(height, limits.deviations):
            return False
        return not state.positive or self._leaves_in_ratio(loss, median)

    def _leaves_in_ratio(self, loss: float, median: float) -> bool:
        """Check the limit in logarithms, because losses of small batches are skewed."""
        height = math.log(loss / median)
        ratios = [value / median for value in self.state.base.arrived]
        logs = [math.log(ratio) for ratio in ratios if ratio > 0]
        spread = sdk.middle(sorted([abs(log) for log in logs]))
        if height <= self.settings.deviations * sdk.MAD_TO_SIGMA * spread:
            return False
        tail = max(beyond(sorted(logs[:-LEAD_IN])), usual_peak(self.state.peaks))
        return height > min(tail, math.log(self.settings.max_tail_ratio))

    def _note(self, number: int, loss: float) -> None:
        """Record a loss above the whole baseline, which shows how far losses of this run usually rise.

        Losses of one climb are one peak. ``number`` is that of the record within the stream.
        """
        state, limits = self.state, self.settings
        median = state.base.median
        if not (state.positive and loss > state.base.highest and loss > (1 + limits.relative) * median > 0):
            return
        height = math.log(loss / median)
        if state.peaks and number - state.noted < LEAD_IN:
            state.peaks[-1] = max(state.peaks[-1], height)
        else:
            state.peaks, state.noted = [*state.peaks, height][-PEAKS:], number

    def _closely(self, view: sdk.View, row: int, loss: float) -> None:
        """Check records one by one while a loss exceeds the baseline, or did shortly before."""
        state, limits = self.state, self.settings
        leaves = self._leaves(loss)
        if leaves and not any(state.recent) and not self.episode.state:
            self._note(view.first + row, loss)
            hidden = state.row >= self.settings.high_records
            state.onset = state.row_from if hidden else view.place(row)
            state.peak = loss
            state.baseline = state.base.median
        state.recent = [*state.recent, leaves][-5:]
        if leaves:
            state.peak = max(state.peak, loss)
            self._outside(view, row, loss)
        else:
            state.high = 0
            self._inside(view, row, loss)
        if not any(state.recent) and not self.episode.state:
            state.recent, state.outside = [], []
        state.muted -= state.muted > 0
        if len(state.outside) >= limits.new_baseline_records:
            self._adopt()

    def _outside(self, view: sdk.View, row: int, loss: float) -> None:
        state, limits = self.state, self.settings
        state.outside.append(loss)
        median = state.base.median
        confirmed = self._enough(view, row, loss, median) or sum(state.recent) >= limits.confirm_records
        state.high = state.high + 1 if self._far(loss, median) else 0
        if state.muted:
            return
        if not confirmed:
            self.pend(view, row, state.onset, *self._describe(view, row))
            return
        severity = sdk.CRITICAL if state.high >= limits.critical_records else sdk.WARNING
        level = sdk.grade(len(state.outside)) + 10 * sdk.grade(state.peak / median if median > 0 else 1)
        if self.already_reported(view, row, severity, level):
            return
        summary, evidence = self._describe(view, row)
        back = state.baseline + max(limits.recovered_within * abs(state.baseline), 3 * state.base.sigma)
        self.fire(view, row, severity, state.onset, summary, evidence, level=level, back=back)

    def _enough(self, view: sdk.View, row: int, loss: float, median: float) -> bool:
        """Return whether this record alone is a warning: records are far apart, or the loss is very high."""
        limits = self.settings
        before = view.step[row - 1] if row else (view.before or (view.step[0],))[0]
        apart = view.step[row] - before >= limits.far_apart_steps
        return self.state.positive and (
            (apart and loss > limits.single_record_ratio * median)
            or loss > limits.single_record_first_ratio * self.state.first
        )

    def _far(self, loss: float, median: float) -> bool:
        """Return whether the loss is so far above that, if sustained, it is critical."""
        if self.state.positive:
            lost = loss - median >= self.settings.critical_lost_share * (self.state.first - median)
            return lost and loss > self.settings.critical_ratio * median
        return loss - median > 10 * self.settings.deviations * self.state.base.sigma

    def _inside(self, view: sdk.View, row: int, loss: float) -> None:
        """Handle a loss within the limit: update the baseline, and end the alert once it is near it."""
        state, limits = self.state, self.settings
        median = state.base.median
        usual = loss - median <= limits.recovered_within * abs(median) or state.base.within(loss - median, 3)
        near = usual and self.is_back(loss)
        if usual or not self.episode.state:
            state.base.push(loss)
        else:
            state.outside.append(loss)
        if not self.episode.state:
            return
        if near:
            self._close(view, row)
        else:
            self.continues(view, row)

    def _close(self, view: sdk.View, row: int) -> None:
        if self.episode.state == sdk.FIRING:
            self.episode.summary, self.episode.evidence = self._describe(view, row)
        self.settle(view, row, at_once=self.episode.state != sdk.FIRING and not any(self.state.recent))
        if not self.episode.state:
            self.state.outside, self.state.recent = [], []

    def _adopt(self) -> None:
        """Measure further spikes from the current level, because the loss stays there."""
        state, limits = self.state, self.settings
        base = sdk.RollingMedian(limits.window)
        for loss in state.outside[-limits.window :]:
            base.push(loss)
        state.base, state.outside, state.recent = base, [], []

    def _describe(self, view: sdk.View, row: int) -> tuple[str, list[sdk.Fact]]:
        state = self.state
        median, sigma = state.baseline, state.base.sigma
        steps = view.step[row] - state.onset[0]
        evidence: list[sdk.Fact] = [
            ("baseline", median, "median of 50 records", state.onset[0]),
            ("peak", state.peak, "", None),
            ("deviation", (state.peak - median) / sigma if sigma > 0 else math.inf, "robust sigma", None),
            ("duration", float(steps), "steps", None),
        ]
        where = f"at step {state.onset[0]}" if steps <= 0 else f"within {sdk.count(steps, 'step')}"
        return f"Loss spiked {sdk.number(median)} → {sdk.number(state.peak)} {where}", evidence


def beyond(logs: list[float]) -> float:
    """Return the height that an exponential tail exceeds once in 10,000 values.

    The tail is fitted to the highest tenth of ``logs``, the sorted logarithms of losses divided by
    their median. Losses of small batches, which depend on few samples, have such tails.
    """
    tenth = max(2, len(logs) // TAIL)
    start = logs[-tenth - 1]
    excess = sum([log - start for log in logs[-tenth:]]) / tenth
    return start + excess * math.log(RARE / TAIL)


def usual_peak(peaks: list[float]) -> float:
    """Return the height that peaks of this run, one in some 50 records, exceed once in 10,000 records.

    It follows from the median and quartiles of a Gumbel distribution, which is that of maxima of
    exponential tails.
    """
    if len(peaks) < FEWEST_PEAKS:
        return 0.0
    ordered = sorted(peaks)
    quarter = len(ordered) // 4
    return sdk.middle(ordered) + GUMBEL * (ordered[-1 - quarter] - ordered[quarter])
