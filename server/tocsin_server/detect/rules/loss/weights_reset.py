"""Detect a loss that returns to its initial value from one record to the next.

Critical if the loss had fallen below 70 % of its first value, returns to within 6 % of it from one record to
the next, and stays in the upper half of the fall for six more records. If the run reports a gradient norm, it
must be within 15 % of its first value too. It recovers after 20 updates near the level from before and
resolves after 100.

Signals:
    `loss`, `grad_norm`
Warm-up:
    45 records
Does not fire on:
    - spikes that fall back at once or exceed the first value
    - a loss that is constant, or a norm of exactly 0, after the jump
    - a new attempt that starts at the first step again
    - GAN losses and reinforcement learning
Likely causes:
    - weights that were initialized again
    - a checkpoint that was not loaded, or not with `strict=True`
    - a model that is built inside the loop
First action:
    Load the newest checkpoint with `strict=True`, together with the state of the optimizer.
Source:
    13 real re-initializations: the loss is within 6 % of its first value, the norm within 15 %. No other jump
    of 2465 AlgoPerf logs meets both.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk


class Settings(sdk.RuleSettings):
    calm = "near the earlier level"
    recover_updates: int = 20
    resolve_updates: int = 100
    level_records: int = sdk.setting(40, "records", "Records whose median is the level before the jump")
    learned_ratio: float = sdk.setting(
        0.7, "x initial loss", "Loss below which the run must have been to have learned"
    )
    loss_within: float = sdk.setting(
        0.06, "relative", "Distance from the first loss within which the loss is back at it"
    )
    norm_within: float = sdk.setting(
        0.15, "relative", "Distance from the first gradient norm within which the norm must be too"
    )
    recovered_share: float = sdk.setting(
        0.1, "share of total decrease", "Distance above the level before within which it has recovered"
    )
    confirm_records: int = sdk.setting(
        6, "records", "Records after the jump that must still be in the upper half of the decrease"
    )


class State(sdk.RuleState):
    """First loss and norm, the last losses, and the jump that waits for confirmation."""

    norm: float | None = None
    """First gradient norm."""
    initial: float | None = None
    born: int = 0
    """Step of the first loss."""
    learned_at: int | None = None
    """First step by which the level was low enough to count as learned."""
    last: list[float] = msgspec.field(default_factory=list)
    jump: tuple[int, int] | None = None
    level: float = 0.0
    after: list[float] = msgspec.field(default_factory=list)


class WeightsReset(sdk.Rule[Settings, State]):
    """Critical, because everything learned is lost."""

    title = "Loss returned to initial value"
    severity = sdk.CRITICAL
    inhibited_by = ("nonfinite-loss",)
    adversarial = False
    needs = ("loss",)
    in_blocks = True

    def discontinuity(self) -> None:
        """Keep the initial loss and the level after a rewind, because the weights may be reset after it."""
        kept = self.state
        self.state = State(
            initial=kept.initial,
            norm=kept.norm,
            born=kept.born,
            last=kept.last,
            learned_at=kept.learned_at,
        )

    def resume(self, step: int) -> None:
        """Reset the level if the run is back at a step at which nothing was learned yet."""
        super().resume(step)
        state = self.state
        if state.learned_at is None or step < state.learned_at:
            state.last, state.learned_at = [], None

    def carried_state(self) -> bytes:
        """Return the initial loss and the level, for an attempt that resumes."""
        return msgspec.msgpack.encode(self.state) if self.state.initial is not None else b""

    def inherit(self, carried: bytes, step: int) -> None:
        """Take over the carried state unless the attempt starts at the first step with new weights."""
        kept = msgspec.msgpack.decode(carried, type=State)
        if step > kept.born + self.settings.level_records:
            self.state = kept
            self.discontinuity()
            self.resume(step)

    def observe(self, view: sdk.View) -> None:
        if view.loss is None:
            return
        for start in range(0, view.n, sdk.PACE):
            self._block(view, start, min(start + sdk.PACE, view.n))

    def _block(self, view: sdk.View, start: int, stop: int) -> None:
        """Process one block, so that results do not depend on how many records came at once."""
        rows, losses = view.losses_between(start, stop)
        if losses and not self._nothing_new(view, losses):
            for row, loss in zip(rows, losses, strict=True):
                self._one(view, row, loss)
        self._note_learned(view.step[stop - 1])

    def _note_learned(self, step: int) -> None:
        state, limits = self.state, self.settings
        if state.learned_at is not None or state.initial is None or len(state.last) < limits.level_records:
            return
        way = state.initial - sdk.middle(sorted(state.last[-limits.level_records :]))
        if way > (1 - limits.learned_ratio) * abs(state.initial):
            state.learned_at = step

    def _nothing_new(self, view: sdk.View, losses: list[float]) -> bool:
        """Handle the common cases quickly: every loss is below, or above, any that a jump could reach."""
        state = self.state
        if state.initial is None or state.jump is not None or self.episode.state:
            return False
        near = self.settings.loss_within * abs(state.initial)
        if max(losses) >= state.initial - near:
            known = state.norm is not None or view.grad_norm is None
            if not known or min(losses) - state.initial <= near:
                return False
        state.last += losses
        if len(state.last) > 16 * self.settings.level_records:
            del state.last[: -self.settings.level_records]
        return True

    def _one(self, view: sdk.View, row: int, loss: float) -> None:
        state, limits = self.state, self.settings
        if state.initial is None:
            state.born, state.initial = view.step[row], loss
            state.norm = _norm(view, row)
            return
        if state.norm is None:
            state.norm = _norm(view, row)
        if state.jump is not None:
            self._confirm(view, row, loss, state.initial)
            return
        del state.last[: -limits.level_records]
        if len(state.last) == limits.level_records and self._jumps(view, row, loss, state.initial):
            state.jump, state.after = view.place(row), [loss]
            state.level = sdk.middle(sorted(state.last))
            return
        state.last.append(loss)
        if self.episode.state and self.is_back(loss):
            self.settle(view, row)
        elif self.episode.state:
            self.continues(view, row)

    def _jumps(self, view: sdk.View, row: int, loss: float, initial: float) -> bool:
        limits, last = self.settings, self.state.last
        if abs(loss - initial) > limits.loss_within * abs(initial) or loss <= max(last):
            return False
        level = sdk.middle(sorted(last))
        way = initial - level
        learned = way > (1 - limits.learned_ratio) * abs(initial) and way > 0
        back = max(last) < initial - 0.3 * way
        return learned and back and self._norm_agrees(view, row)

    def _norm_agrees(self, view: sdk.View, row: int) -> bool:
        """Return whether the gradient norm is near its first value, or none is reported."""
        first, norm = self.state.norm, _norm(view, row)
        if norm == 0.0:
            return False
        return first is None or norm is None or abs(norm - first) <= self.settings.norm_within * first

    def _confirm(self, view: sdk.View, row: int, loss: float, initial: float) -> None:
        state, limits = self.state, self.settings
        state.after.append(loss)
        way = initial - state.level
        if not initial - 0.5 * way <= loss <= initial + 0.3 * way:
            state.jump, state.last = None, [*state.last, *state.after][-limits.level_records :]
        elif len(state.after) > limits.confirm_records and state.jump is not None:
            if max(state.after) > min(state.after):
                self._fire(view, row, state.jump, initial)
            state.jump, state.last = None, []

    def _fire(self, view: sdk.View, row: int, onset: tuple[int, int], initial: float) -> None:
        state = self.state
        evidence: list[sdk.Fact] = [
            ("first loss", initial, "", state.born),
            ("level before", state.level, "median of 40 records", onset[0]),
            ("loss", state.after[0], "", onset[0]),
        ]
        summary = (
            f"Loss returned to its initial value in one record, {sdk.number(state.level)} → "
            f"{sdk.number(state.after[0])}"
        )
        back = state.level + self.settings.recovered_share * (initial - state.level)
        self.fire(view, row, sdk.CRITICAL, onset, summary, evidence, back=back)


def _norm(view: sdk.View, row: int) -> float | None:
    """Return the finite gradient norm of a record, if it has one."""
    norm = view.value("grad_norm", row)
    return norm if norm is not None and math.isfinite(norm) else None


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    saved = case.context.checkpoint_before(case.onset)
    path = saved[1] if saved and saved[1] else "checkpoint.pt"
    return sdk.Cause(
        "reinitialised",
        "The weights were initialized again or a checkpoint was not loaded: the loss is that "
        "of an untrained model.",
        "weights that were initialized again",
        (
            sdk.Remedy(
                "Load the newest checkpoint with strict=True, including the optimizer's state.",
                f"state = torch.load({path!r})\nmodel.load_state_dict(state['model'], strict=True)\n"
                "optimizer.load_state_dict(state['optimizer'])",
            ),
            sdk.Remedy(
                "Check whether the model is built inside the loop, or loaded after the optimizer was created."
            ),
            sdk.remedies.go_back(case),
        ),
        "Compare the weights before and after that step: they are unrelated.",
    )


CAUSES = ((sdk.DATA, _why),)
