"""Inhibition: an open alert that explains others keeps them from being told. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tocsin_server.notify.facts import AlertFacts
from tocsin_server.notify.matching import Matcher, all_hold, parse_matchers
from tocsin_server.notify.reading import only, texts

_SAME_RUN = ["run_id"]
DEFAULTS: tuple[dict[str, Any], ...] = (
    {
        "source": ['rule="nonfinite-loss"'],
        "target": ['rule=~"loss-spike|plateau|vanishing-gradient"'],
        "equal": _SAME_RUN,
    },
    {"source": ['rule="trainer-lost"'], "target": ['rule="stalled"'], "equal": _SAME_RUN},
)
"""What holds where nobody wrote inhibitions of their own."""


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While an alert that matches ``source`` is open, those that match ``target`` and agree with it in
    the labels ``equal`` are not told. As in Alertmanager an alert never inhibits itself."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def mutes(self, target: AlertFacts, source: AlertFacts) -> bool:
        """Whether ``source`` keeps ``target`` from being told."""
        if not source.alert.is_open or source.alert.id == target.alert.id:
            return False
        theirs, mine = source.labels, target.labels
        if not all_hold(self.source, theirs) or not all_hold(self.target, mine):
            return False
        if all_hold(self.source, mine):
            return False
        return all(theirs.get(name, "") == mine.get(name, "") for name in self.equal)


def inhibited_by(
    target: AlertFacts, others: Iterable[AlertFacts], inhibitions: Iterable[Inhibition]
) -> tuple[str, ...]:
    """Ids of the open alerts that keep ``target`` from being told."""
    rules = tuple(inhibitions)
    return tuple(other.alert.id for other in others if any(rule.mutes(target, other) for rule in rules))


def sources(facts: Iterable[AlertFacts], inhibitions: Iterable[Inhibition]) -> list[AlertFacts]:
    """Those alerts that may inhibit others at all: of many open alerts few are."""
    rules = tuple(inhibitions)
    return [fact for fact in facts if any(all_hold(rule.source, fact.labels) for rule in rules)]


def read_inhibition(item: Any, field: str) -> Inhibition:
    """An inhibition as people write it. Raises FieldError."""
    only(item, {"source", "target", "equal"}, field)
    return Inhibition(
        parse_matchers(item.get("source"), f"{field}.source", least=1),
        parse_matchers(item.get("target"), f"{field}.target", least=1),
        texts(item, "equal", field, _SAME_RUN),
    )


def plain(rule: Inhibition) -> dict[str, Any]:
    """The inhibition as :func:`read_inhibition` reads it."""
    return {
        "source": [str(each) for each in rule.source],
        "target": [str(each) for each in rule.target],
        "equal": list(rule.equal),
    }
