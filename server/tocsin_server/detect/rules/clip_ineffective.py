"""clip-ineffective: the clip never acts, or leaves next to nothing of a gradient (catalogue D6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from tocsin_server.detect import remedies as r
from tocsin_server.detect.case import Case
from tocsin_server.detect.cause import GRADIENT, Cause
from tocsin_server.detect.clipping import Stretch, clip_of
from tocsin_server.detect.rolling import middle
from tocsin_server.detect.rule import (
    INFO,
    WARNING,
    Fact,
    Rule,
    RuleInfo,
    RuleSettings,
    RuleState,
    describe,
    setting,
)  # fmt: skip
from tocsin_server.detect.view import View
from tocsin_server.detect.wording import number
from tocsin_server.domain import Severity


@dataclass(frozen=True)
class Settings(RuleSettings):
    """Defaults from catalogue D6."""

    recover_updates: int = setting(1, "updates", "after a window with a sound clip, before recovering")
    resolve_updates: int = setting(1, "updates", "the same, before it is resolved")
    recover_records: int = setting(1, "windows", "with a sound clip that are needed")
    window: int = setting(200, "records", "over which norms are taken; also the warm-up")
    above: float = setting(30.0, "x 99th percentile", "of the norms, above which a clip never acts")
    below: float = setting(0.01, "x 1st percentile", "of the norms, below which it leaves next to nothing")


class State(RuleState):
    """The norms since the last full window."""

    stretch: Stretch = msgspec.field(default_factory=Stretch)


class ClipIneffective(Rule[Settings, State]):
    """Info; warning for a clip of 0, which removes every gradient."""

    info: ClassVar[RuleInfo] = RuleInfo(
        id="clip-ineffective",
        title="Clip value is out of place",
        severity=Severity.WARNING,
        inhibited_by=("nonfinite-loss", "zero-grad-norm", "norm-after-zero"),
        settings=describe(Settings),
    )
    settings_type = Settings
    state_type = State
    needs = ("grad_norm",)
    paced = True

    def observe(self, view: View) -> None:
        clip = clip_of(self.context, self.suffix)
        if view.grad_norm is None or (clip is None and not self.episode.state):
            return
        for row, norms in self.state.stretch.windows(view, clip, self.settings.window):
            self._window(view, row, sorted(norms), clip)

    def _window(self, view: View, row: int, norms: list[float], clip: float | None) -> None:
        limits = self.settings
        low, high = norms[len(norms) // 100], norms[-1 - len(norms) // 100]
        since = self.state.stretch.since
        evidence: list[Fact] = [("usual norm", middle(norms), "median", view.step[row])]
        if clip is None or limits.below * low <= clip <= limits.above * high:
            if self.episode.state:
                self.settle(view, row, at_once=True)
            return
        evidence.append(("clip", clip, "", None))
        if clip <= 0:
            kind, summary = "zero", f"Clip of {number(clip)} removes every gradient"
        elif clip > high:
            kind = "never"
            summary = f"Clip of {number(clip)} never acts: 99 % of the norms are below {number(high)}"
        else:
            kind = "tiny"
            summary = f"Clip of {number(clip)} leaves less than a hundredth of a gradient of {number(low)}"
        self.ring(view, row, WARNING if clip <= 0 else INFO, since, summary, evidence, kind=kind)


def clip_value(case: Case) -> Cause | None:
    """What is out of place."""
    if case.rule != "clip-ineffective":
        return None
    text = {
        "zero": "Gradients are multiplied by 0, so nothing is learned: 0 does not switch clipping off.",
        "never": "The clip is far above any gradient of this run, so it protects against nothing.",
        "tiny": "The clip is far below any gradient, so training creeps at a fraction of its learning rate.",
    }
    return Cause(
        "clip-value", text.get(case.verdict.kind, text["never"]), "a clip value from another model",
        (r.clip(case),), "The norms come from somewhere else than the gradients that are clipped.",
    )  # fmt: skip


RULE = ClipIneffective
CAUSES = ((GRADIENT, clip_value),)
