"""Detect ranks whose values differ although they should be equal.

A warning if learning rate, loss scale or gradient norm differ between ranks by more than 1e-3 (relative) in
three steps in a row. A step is compared when all live processes have reported it, or 10 s later. It
recovers after 20 equal steps and resolves after 100.

Signals:
    `lr`, `scale`, `grad_norm` of every rank at the same step
Warm-up:
    norms must have agreed for 20 steps
Does not fire on:
    - losses, which differ because each rank has its own batch
    - norms of sharded models, which never agree
Likely causes:
    - a loss scaler that acts on each rank separately
    - learning rate schedules that are stepped differently
    - gradients that are not reduced
First action:
    Call the model through its DDP wrapper, and load the same checkpoint on every rank.
Source:
    The limits are tocsin's.
"""

from __future__ import annotations

import math

import msgspec

from tocsin_server.detect import sdk

NAMES = {"lr": "learning rate", "scale": "loss scale", "grad_norm": "gradient norm"}


class Settings(sdk.RuleSettings):
    calm = "in agreement"
    recover_updates: int = 20
    resolve_updates: int = 100
    tolerance: float = sdk.setting(1e-3, "relative", "Difference up to which ranks agree")
    diverged_steps: int = sdk.setting(3, "steps", "Steps in a row without agreement")
    agreed_steps: int = sdk.setting(20, "steps", "Steps in agreement before a different norm counts")


class State(sdk.RuleState):
    """By signal: consecutive steps without agreement and their start; steps in which norms agreed."""

    apart: dict[str, int] = msgspec.field(default_factory=dict)
    since: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    norms_agreed: int = 0


class RankDivergence(sdk.RunRule[Settings, State]):
    """Severity: warning."""

    title = "Ranks train different models"
    severity = sdk.WARNING

    def reported(self, at: sdk.View, reports: sdk.RankReports) -> None:
        newest = max(report.attempt for report in reports.reports)
        ranks = {report.rank: report.values for report in reports.reports if report.attempt == newest}
        if len(ranks) < 2:
            return
        calm = [self._one(at, name, ranks) for name in NAMES]
        if self.episode.state and all(calm):
            self.settle(at, 0)

    def rest(self, view: sdk.View, row: int) -> None:
        """Do nothing: only steps in which ranks were compared count as agreement."""

    def _one(self, at: sdk.View, name: str, ranks: dict[int, dict[str, float]]) -> bool:
        """Return whether the ranks agree on a signal, or too few values are known."""
        state = self.state
        by_rank = {rank: values[name] for rank, values in ranks.items() if name in values}
        if len(by_rank) < 2:
            return True
        if agree(list(by_rank.values()), self.settings.tolerance):
            state.apart[name] = 0
            state.norms_agreed += name == "grad_norm"
            return True
        if name == "grad_norm" and state.norms_agreed < self.settings.agreed_steps:
            return True
        if not state.apart.get(name):
            state.since[name] = at.place(0)
        state.apart[name] = state.apart.get(name, 0) + 1
        if state.apart[name] >= self.settings.diverged_steps:
            self._fire(at, name, by_rank)
        return False

    def _fire(self, at: sdk.View, name: str, by_rank: dict[int, float]) -> None:
        steps = self.state.apart[name]
        low, high = min(by_rank, key=by_rank.__getitem__), max(by_rank, key=by_rank.__getitem__)
        evidence: list[sdk.Fact] = [
            (f"{NAMES[name]} of rank {rank}", value, "", at.step[0])
            for rank, value in sorted(by_rank.items())[:8]
        ]
        summary = (
            f"{NAMES[name].capitalize()} differs between ranks for {sdk.count(steps, 'step')}: "
            f"{sdk.number(by_rank[low])} on rank {low}, {sdk.number(by_rank[high])} on rank {high}"
        )
        since, kind = self.state.since[name], self.episode.kind
        self.fire(
            at, 0, sdk.WARNING, since, summary, evidence,
            level=sdk.grade(steps), kind=name, size=steps if name == kind else None,
        )  # fmt: skip


def agree(values: list[float], tolerance: float) -> bool:
    """Return whether values are equal within ``tolerance``; NaN and infinities equal themselves."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < len(values):
        return not finite and len({str(value) for value in values}) == 1
    low, high = min(finite), max(finite)
    return high - low <= tolerance * max(abs(low), abs(high))


def ranks_apart(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    """Return the cause of ranks that differ."""
    what = {
        "scale": "each rank has its own loss scaler, and the scalers saw different overflows",
        "lr": "the ranks step their schedules differently",
        "grad_norm": "gradients are not averaged over all ranks, or the weights already differ",
    }.get(case.result.kind, "the ranks train different models")
    return sdk.Cause(
        "ranks-apart",
        f"The ranks no longer train one model: {what}.",
        "ranks that no longer train one model",
        (
            sdk.Remedy("Wrap the model in DistributedDataParallel and call the wrapper.",
                   "model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])"),
            sdk.Remedy("Compare the weights of all ranks.",
                   "total = sum(p.double().sum() for p in model.parameters())\n"
                   "torch.distributed.all_gather(sums, total)"),
            sdk.Remedy("Use the same seed and checkpoint on every rank."),
        ),
        "Compare a checksum of the weights on all ranks: they differ.",
    )  # fmt: skip


CAUSES = ((sdk.SYSTEM, ranks_apart),)
