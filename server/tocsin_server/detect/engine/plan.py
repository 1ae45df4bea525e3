"""The rules that apply to a run: custom rules, and changes to built-in ones.

A plan is stored in a run as an event of kind ``rules`` from the server's writer, before the records
that it applies to. Results therefore depend only on stored data, and a replay uses the same rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Diagnosis, Remedy, Severity
from tocsin_server.detect.custom import threshold, tuning
from tocsin_server.detect.custom.threshold import CustomRule
from tocsin_server.detect.custom.tuning import Tuning
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.rules.catalog import settings_types

KIND = "rules"
"""Kind of the event; accepted only from the server's writer, so that scripts cannot send it."""
EVERY = "*"
"""Placeholder for all rules that check records."""


@dataclass(frozen=True)
class Plan:
    """The enabled custom rules that match the run, and the tunings of built-in rules."""

    rules: tuple[CustomRule, ...] = ()
    tunings: Mapping[str, Tuning] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> dict[str, CustomRule]:
        """Return the custom rules by identifier."""
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def off(self) -> frozenset[str]:
        """Return the built-in rules that are disabled."""
        return frozenset(rule for rule, tuned in self.tunings.items() if tuned.enabled is False)

    @cached_property
    def settings(self) -> dict[str, RuleSettings]:
        """Return the settings of built-in rules that differ from the defaults."""
        found = {}
        for rule, tuned in self.tunings.items():
            if not tuned.settings:
                continue
            try:
                found[rule] = tuning.tuned(rule, tuned.settings)
            except (FieldError, KeyError):
                continue  # a setting of another version: keep the rule's defaults
        return found

    def severity(self, rule: str) -> Severity | None:
        """Return the severity configured for a custom or built-in rule, or None if it is not configured."""
        mine = self.by_id.get(rule)
        if mine is not None:
            return mine.severity
        tuned = self.tunings.get(rule)
        return None if tuned is None else tuned.severity

    def labels(self, rule: str) -> dict[str, str]:
        """Return the labels of the alerts of a rule."""
        mine = self.by_id.get(rule)
        return {} if mine is None else dict(mine.labels)

    def without(self, barred: Collection[str]) -> Plan:
        """Return the plan with these rules disabled; :data:`EVERY` are all that check records."""
        every = EVERY in barred
        rules = () if every else tuple(rule for rule in self.rules if rule.id not in barred)
        names = [rule for rule in settings_types() if every or rule in barred]
        off = {rule: replace(self.tunings.get(rule, Tuning()), enabled=False) for rule in names}
        return Plan(rules, dict(sorted({**self.tunings, **off}.items()))) if barred else self

    def reset_rules(self, before: Plan) -> frozenset[str]:
        """Return the rules that must restart because they were added, removed or changed since ``before``."""
        names = {*self.by_id, *before.by_id}
        mine = {name for name in names if _evaluated(self, name) != _evaluated(before, name)}
        names = {*self.tunings, *before.tunings}
        return frozenset(mine | {name for name in names if _tuned(self, name) != _tuned(before, name)})

    def plain(self) -> dict[str, Any]:
        """Return the data of an event."""
        if not self.rules and not self.tunings:
            return {}
        return {
            "rules": [threshold.brief(rule) for rule in self.rules],
            "builtin": {rule: tuning.plain(tuned) for rule, tuned in sorted(self.tunings.items())},
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan from the data of an event; rules that this version cannot read are skipped."""
        rules = [rule for body in data.get("rules") or () if (rule := _read(body)) is not None]
        tunings = {}
        for rule, body in dict(data.get("builtin") or {}).items():
            try:
                tunings[rule] = tuning.read_tuning(rule, body)
            except FieldError:
                continue
        return cls(tuple(rules), tunings)


NO_PLAN = Plan()


def _read(body: Any) -> CustomRule | None:
    try:
        return threshold.read_rule(body)
    except FieldError:
        return None


def _evaluated(plan: Plan, name: str) -> Any:
    rule = plan.by_id.get(name)
    return None if rule is None else rule.evaluated


def _tuned(plan: Plan, name: str) -> Any:
    return name in plan.off, plan.settings.get(name)


def explained(rule: CustomRule, reported: Diagnosis, subject: str) -> Diagnosis:
    """Return the diagnosis of an alert of a custom rule: its texts, and the timeline of the run.

    Args:
        rule: The rule.
        reported: A diagnosis whose timeline is used.
        subject: Series that the alert is about.
    """
    named = rule.title or rule.id
    cause = rule.description or (
        f"{named}: the condition on {subject} holds. A custom rule does not know the cause; the timeline "
        "shows what other rules found at the same steps."
    )
    remedies = (Remedy(rule.remedy),) if rule.remedy else reported.remedies
    return Diagnosis(
        cause, reported.evidence, reported.alternatives, remedies, reported.how_to_confirm, reported.timeline
    )
