"""Which rules judge a run: people's own, and what they changed about the built-in ones.

A plan enters a run as an event of kind ``rules`` from the server's own writer, before the records that it
is to judge: so rules stay a function of what is stored, and a recovery judges by the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Diagnosis, Remedy, Severity
from tocsin_server.detect.custom import threshold, tuning
from tocsin_server.detect.custom.settings_changes import SettingError
from tocsin_server.detect.custom.threshold import CustomRule
from tocsin_server.detect.custom.tuning import Tuning
from tocsin_server.detect.interface.rule import RuleSettings

KIND = "rules"
"""Kind of the event; taken only from the server's own writer, so that no script can say it."""


@dataclass(frozen=True)
class Plan:
    """Rules that are switched on and concern the run, and tunings by built-in rule."""

    rules: tuple[CustomRule, ...] = ()
    tunings: Mapping[str, Tuning] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> dict[str, CustomRule]:
        """Rules of people by identifier."""
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def off(self) -> frozenset[str]:
        """Built-in rules that are switched off."""
        return frozenset(rule for rule, tuned in self.tunings.items() if tuned.enabled is False)

    @cached_property
    def settings(self) -> dict[str, RuleSettings]:
        """Settings of built-in rules where they differ from the defaults."""
        found = {}
        for rule, tuned in self.tunings.items():
            if not tuned.settings:
                continue
            try:
                found[rule] = tuning.tuned(rule, tuned.settings)
            except (SettingError, KeyError):
                continue  # an older version's setting: the rule has its defaults
        return found

    def severity(self, rule: str) -> Severity | None:
        """The severity that people gave to a rule, their own or a built-in one."""
        mine = self.by_id.get(rule)
        if mine is not None:
            return mine.severity
        tuned = self.tunings.get(rule)
        return None if tuned is None else tuned.severity

    def labels(self, rule: str) -> dict[str, str]:
        """Labels of the alerts of a rule."""
        mine = self.by_id.get(rule)
        return {} if mine is None else dict(mine.labels)

    def reset_rules(self, before: Plan) -> frozenset[str]:
        """Rules whose judgement differs from ``before``, in settings or in whether there are any."""
        names = {*self.by_id, *before.by_id}
        mine = {name for name in names if _judged(self, name) != _judged(before, name)}
        names = {*self.tunings, *before.tunings}
        return frozenset(mine | {name for name in names if _tuned(self, name) != _tuned(before, name)})

    def plain(self) -> dict[str, Any]:
        """As the data of an event."""
        if not self.rules and not self.tunings:
            return {}
        return {
            "rules": [threshold.brief(rule) for rule in self.rules],
            "builtin": {rule: tuning.plain(tuned) for rule, tuned in sorted(self.tunings.items())},
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Plan:
        """A plan as an event holds it; a rule that this version cannot read is left out."""
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


def _judged(plan: Plan, name: str) -> Any:
    rule = plan.by_id.get(name)
    return None if rule is None else rule.judged


def _tuned(plan: Plan, name: str) -> Any:
    return name in plan.off, plan.settings.get(name)


def explained(rule: CustomRule, reported: Diagnosis, subject: str) -> Diagnosis:
    """The diagnosis of an alert of a rule that people made: their words, and the story of the run."""
    named = rule.title or rule.id
    cause = rule.description or (
        f"{named}: people watch {subject} for this. The rule says that it holds, not why; "
        "what other rules say of the same steps is in the story."
    )
    remedies = (Remedy(rule.remedy),) if rule.remedy else reported.remedies
    return Diagnosis(
        cause, reported.evidence, reported.alternatives, remedies, reported.how_to_confirm, reported.timeline
    )
