"""Inhibit alerts: an open alert that explains others suppresses their notifications. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin_server.notify.fields import only, texts
from tocsin_server.notify.labels import RoutedAlert
from tocsin_server.notify.matching import Matcher, all_hold, parse_matchers

_SAME_RUN = ["run_id"]
DEFAULTS: tuple[dict[str, Any], ...] = (
    {
        "source": ['rule="nonfinite-loss"'],
        "target": ['rule=~"loss-spike|plateau|vanishing-gradient"'],
        "equal": _SAME_RUN,
    },
    {"source": ['rule="trainer-lost"'], "target": ['rule="stalled"'], "equal": _SAME_RUN},
)
"""Inhibitions in effect if none are configured."""
MOST_NAMED = 50
"""Maximum number of inhibiting alerts that are named."""


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While an alert that matches ``source`` is open, alerts that match ``target`` and have the same values
    of the labels ``equal`` are not notified. As in Alertmanager, an alert never inhibits itself.
    """

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def mutes(self, labels: Mapping[str, str]) -> bool:
        """Return whether an alert with these labels is a target. An alert that is also a source is not a
        target, or no notification would be sent for either.
        """
        return all_hold(self.target, labels) and not all_hold(self.source, labels)

    def key(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the labels that must be equal in source and target."""
        return tuple(labels.get(name, "") for name in self.equal)


def inhibited_by(
    targets: Sequence[RoutedAlert], others: Sequence[RoutedAlert], inhibitions: Iterable[Inhibition]
) -> dict[str, tuple[str, ...]]:
    """Return the ids of the open alerts that inhibit each of ``targets``, at most :data:`MOST_NAMED`.

    Every rule checks every alert once; pairs are matched by their equal labels.
    """
    opened = {
        other.alert.id: other.labels
        for other in others
        if other.alert.is_open and not other.alert.is_inherited
    }
    mine = {target.alert.id: target.labels for target in targets}
    found: dict[str, dict[str, None]] = {name: {} for name in mine}
    for rule in inhibitions:
        sources: dict[tuple[str, ...], list[str]] = {}
        for name, labels in opened.items():
            if all_hold(rule.source, labels):
                sources.setdefault(rule.key(labels), []).append(name)
        if not sources:
            continue
        for name, labels in mine.items():
            agreeing = sources.get(rule.key(labels), ())
            if agreeing and len(found[name]) < MOST_NAMED and rule.mutes(labels):
                found[name] |= dict.fromkeys(agreeing[:MOST_NAMED])
    return {name: tuple(ids)[:MOST_NAMED] for name, ids in found.items()}


def read_inhibition(item: Any, field: str) -> Inhibition:
    """Parse an inhibition from user input. Raises FieldError."""
    only(item, {"source", "target", "equal"}, field)
    return Inhibition(
        parse_matchers(item.get("source"), f"{field}.source", least=1),
        parse_matchers(item.get("target"), f"{field}.target", least=1),
        texts(item, "equal", field, _SAME_RUN),
    )


def plain(rule: Inhibition) -> dict[str, Any]:
    """Return the inhibition in the format of :func:`read_inhibition`."""
    return {
        "source": [str(each) for each in rule.source],
        "target": [str(each) for each in rule.target],
        "equal": list(rule.equal),
    }
