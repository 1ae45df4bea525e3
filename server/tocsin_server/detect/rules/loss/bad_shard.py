"""Detect alerts that recur with the same data.

A warning if the same data (the whole name of a batch, or a part of it such as a shard) occurred at three
episodes of other rules at least 20 steps apart, and at half or more of the episodes whose batch is known.

Signals:
    names of batches from `run.batch(...)`, episodes of other rules
Warm-up:
    three episodes
Does not fire on:
    - a name that all batches share
Likely causes:
    - damaged or unusual samples
First action:
    Remove that shard and continue, then inspect its samples with `run.check(batch=...)`.
Source:
    PaLM, section 5.1; the limit of three is tocsin's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tocsin_server.detect import sdk

TRIGGERS = frozenset(
    {"loss-spike", "nonfinite-loss", "nonfinite-grad-norm", "nonfinite-input", "nonfinite-loss-component",
     "grad-explosion", "scaler-overflow-burst"}
)  # fmt: skip
KEPT = 256
"""Maximum number of batch names, and of steps of episodes, that are kept."""
LONGEST = 200


class Settings(sdk.RuleSettings):
    calm = "without the data"
    recover_updates: int = 20000
    resolve_updates: int = 50000
    episodes: int = sdk.setting(
        3, "episodes", "Alerts with the same data that make it likely to be the cause"
    )
    merge_steps: int = sdk.setting(20, "steps", "Alerts that are closer to each other count as one")
    max_steps_before: int = sdk.setting(2, "steps", "Largest distance of the batch to the onset of the alert")
    same_data_share: float = sdk.setting(
        0.5, "share of alerts", "Share of the alerts with a named batch that must have the same data"
    )


class State(sdk.RuleState):
    """Names of batches by step, and the steps at which episodes started."""

    batches: list[tuple[int, list[str]]] = msgspec.field(default_factory=list)
    onsets: list[int] = msgspec.field(default_factory=list)


class BadShard(sdk.RunRule[Settings, State]):
    """Warning that names the data."""

    title = "Alerts recur with the same data"
    severity = sdk.WARNING

    def on_event(self, at: sdk.View, event: sdk.RunEvent) -> None:
        if event.kind == "batch":
            names = sorted(set(_names(event.data.get("id"))))
            self.state.batches = [*self.state.batches, (at.step[0], names)][-KEPT:]
            self._evaluate(at)

    def began(self, at: sdk.View, rule: str, subject: str, result: sdk.RuleResult) -> None:
        if rule in TRIGGERS:
            self.state.onsets = [*self.state.onsets, result.onset_step][-KEPT:]
            self._evaluate(at)

    def _evaluate(self, at: sdk.View) -> None:
        limits, by_name = self.settings, self._coincidences()
        named = {step for steps in by_name.values() for step in steps}
        for name, steps in sorted(by_name.items(), key=lambda item: (-len(item[1]), -len(item[0]), item[0])):
            if len(steps) >= limits.episodes and len(steps) >= limits.same_data_share * len(named):
                self._fire(at, name, sorted(steps))
                return

    def _coincidences(self) -> dict[str, set[int]]:
        """Return by name of data the steps at which episodes started; nearby steps count once."""
        found: dict[str, set[int]] = {}
        for step, names in self.state.batches:
            if not any(abs(step - onset) <= self.settings.max_steps_before for onset in self.state.onsets):
                continue
            for name in names:
                steps = found.setdefault(name, set())
                if all(abs(step - other) >= self.settings.merge_steps for other in steps):
                    steps.add(step)
        return found

    def _fire(self, at: sdk.View, name: str, steps: list[int]) -> None:
        evidence: list[sdk.Fact] = [("data", name, "", steps[-1])]
        evidence += [("alert", "started", "", step) for step in steps[-5:]]
        shown = ", ".join(str(step) for step in steps[-5:])
        summary = f"{sdk.count(len(steps), 'episode')} started with {name}, at steps {shown}"
        onset = (steps[0], at.time_ns[0])
        self.fire(at, 0, sdk.WARNING, onset, summary, evidence, level=len(steps))


def _names(identifier: Any) -> Iterator[str]:
    """Yield the whole identifier, and each part of a compound one (``shard=12``)."""
    if isinstance(identifier, Mapping):
        for key, value in sorted(identifier.items(), key=str):
            yield f"{key} {value}"[:LONGEST]
    elif isinstance(identifier, (list, tuple)):
        for value in identifier[:64]:
            yield f"sample {value}"[:LONGEST]
    elif identifier is not None:
        yield f"batch {identifier}"[:LONGEST]


def _why(case: sdk.DiagnosisContext) -> sdk.Cause | None:
    reported = next((result for rule, _, result in case.episode if rule == "bad-shard"), None)
    if reported is None or (case.rule not in TRIGGERS and case.rule != "bad-shard"):
        return None
    name = next(str(fact[1]) for fact in reported.evidence if fact[0] == "data")
    return sdk.Cause(
        "bad-shard",
        f"Likely the data: an alert starts whenever {name} is read.",
        f"the data of {name}",
        (
            sdk.Remedy(
                f"Exclude {name} and resume.",
                f"dataset = [item for item in dataset if item.name != {name!r}]",
            ),
            sdk.Remedy("Check these samples for NaN, empty or overlong inputs, and labels out of range."),
            sdk.Remedy("Check each batch before it is used.", "run.check(batch=batch)"),
        ),
        "Train without that data: the alert does not recur.",
    )


SHARED_CAUSES = ((sdk.DATA, _why),)
