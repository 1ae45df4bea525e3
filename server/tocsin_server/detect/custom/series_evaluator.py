"""Evaluate one custom rule on one series, record by record.

An episode is pending once the condition holds, and firing once it has held for ``for``. It is
recovering once the value is back, and resolved after ``keep_firing_for``.
"""

from __future__ import annotations

import msgspec

from tocsin_server.detect.custom.span import Moment, Span
from tocsin_server.detect.custom.threshold import CustomRule
from tocsin_server.detect.interface.formatting import number
from tocsin_server.detect.interface.rule import (
    FIRING,
    PENDING,
    RECOVERING,
    RESOLVED,
    Episode,
    Fact,
    RuleResult,
)
from tocsin_server.detect.stats.sliding_window import Window, reduce

SECOND = 1e9


class SeriesEvaluator(msgspec.Struct):
    """State of one custom rule on one series; all of it is saved."""

    window: Window | None = None
    last: Moment | None = None
    """The newest record."""
    since: Moment | None = None
    """Since when the condition has held without interruption."""
    calm: Moment | None = None
    """Since when the value has been back without interruption."""
    longest: int = -1
    """The longest time that the condition held without firing, as last reported; -1 if none was reported."""
    episode: Episode = msgspec.field(default_factory=Episode)

    def take(self, rule: CustomRule, series: str, row: int, now: Moment, value: float) -> RuleResult | None:
        """Evaluate a record; return None if nothing changed.

        Args:
            rule: The rule.
            series: Name of the series.
            row: Row of the record in its batch.
            now: Step and time (Unix ns) of the record.
            value: The value, which may be NaN or infinite.
        """
        if self.last is not None and now[0] < self.last[0]:
            self.discontinuity()
        self.last = now
        return self.evaluate(rule, series, row, now, self._reduced(rule, now, value))

    def discontinuity(self) -> None:
        """Reset the counts because steps went back; an open episode stays open."""
        self.window, self.since, self.calm = None, None, None

    def evaluate(
        self, rule: CustomRule, series: str, row: int, now: Moment, value: float | None
    ) -> RuleResult | None:
        """Evaluate a reduced value; None and NaN satisfy no comparison and change nothing.

        Args:
            rule: The rule.
            series: Name of the series.
            row: Row of the record in its batch.
            now: Step and time (Unix ns) of the record.
            value: The value after reduction over the window; None: nothing to compare.
        """
        if value is None or value != value:
            return None
        builder = _ResultBuilder(self.episode, rule, series, row, now, value)
        if rule.holds(value):
            return self._held(rule, now, builder)
        self.since = None
        if self.episode.state == PENDING:
            return self._end(builder)
        if not self.episode.state:
            return None
        return self._back(rule, now, builder) if rule.is_back(value) else self._between(builder)

    def idle(self) -> bool:
        """Return whether nothing is in progress, so that a value that does not hold changes nothing."""
        return not self.episode.state and self.since is None

    def _reduced(self, rule: CustomRule, now: Moment, value: float) -> float | None:
        if rule.reducer == "value":
            return value
        if self.window is None:
            self.window = Window.of(rule.window.amount)
        x = rule.window.x(now)
        if self.window.now is not None:
            x = max(x, self.window.now[0] * self.window.size)  # a clock may be set back
        unit = SECOND if rule.window.timed else 1.0
        return reduce(rule.reducer, self.window.put(x, value), unit)

    def _held(self, rule: CustomRule, now: Moment, builder: _ResultBuilder) -> RuleResult | None:
        self.calm = None
        if self.since is None:
            self.since = now
        state = self.episode.state
        if state == FIRING:
            return None
        if state == RECOVERING:
            return builder.make(FIRING, builder.firing_summary())
        held = rule.for_.since(self.since, now)
        if held >= rule.for_.amount:
            builder.begin(self.since)
            self.longest = -1
            return builder.make(FIRING, builder.firing_summary())
        if state or held <= self.longest:
            return None
        builder.begin(self.since)
        return builder.make(PENDING, builder.firing_summary())

    def _between(self, builder: _ResultBuilder) -> RuleResult | None:
        """Keep the episode open: the value neither holds nor is back; a recovering one fires again."""
        self.calm = None
        return builder.make(FIRING, builder.firing_summary()) if self.episode.state == RECOVERING else None

    def _back(self, rule: CustomRule, now: Moment, builder: _ResultBuilder) -> RuleResult | None:
        if self.calm is None:
            self.calm = now
        if rule.keep_firing_for.since(self.calm, now) >= rule.keep_firing_for.amount:
            return self._end(builder)
        if self.episode.state == RECOVERING:
            return None
        return builder.make(RECOVERING, builder.recovered_summary())

    def _end(self, builder: _ResultBuilder) -> RuleResult:
        if self.episode.state == PENDING:
            onset = (self.episode.onset_step, self.episode.onset_ns)
            self.longest = max(self.longest, builder.rule.for_.since(onset, builder.now))
        result = builder.make(RESOLVED, builder.recovered_summary())
        self.let_go()
        return result

    def let_go(self) -> Episode:
        """Remove and return the episode."""
        episode, self.episode = self.episode, Episode()
        self.since = self.calm = None
        return episode


class _ResultBuilder:
    """Builds the result of one record: state, summary and evidence."""

    __slots__ = ("episode", "now", "row", "rule", "series", "value")

    def __init__(
        self, episode: Episode, rule: CustomRule, series: str, row: int, now: Moment, value: float
    ) -> None:
        self.episode, self.rule, self.series = episode, rule, series
        self.row, self.now, self.value = row, now, value

    def begin(self, onset: Moment) -> None:
        self.episode.onset_step, self.episode.onset_ns = onset
        self.episode.severity = self.rule.severity.level

    def firing_summary(self) -> str:
        rule = self.rule
        lasting = f" for {rule.for_}" if rule.for_.amount else ""
        if rule.is_absence:
            return f"No value of {self.series} for more than {rule.window}{lasting}"
        return f"{_capital(rule.reduced(self.series))} is {number(self.value)}, {rule.condition()}{lasting}"

    def recovered_summary(self) -> str:
        if self.rule.is_absence:
            return f"{self.series} has values again"
        return f"{_capital(self.rule.reduced(self.series))} is back at {number(self.value)}"

    def make(self, state: str, summary: str) -> RuleResult:
        episode = self.episode
        episode.state, episode.summary = state, summary
        episode.evidence = self._evidence()
        episode.last_step = self.now[0]
        return RuleResult(
            row=self.row,
            state=state,
            severity=episode.severity,
            onset_step=episode.onset_step,
            onset_ns=episode.onset_ns,
            step=self.now[0],
            time_ns=self.now[1],
            level=0,
            summary=summary,
            evidence=episode.evidence,
        )

    def _evidence(self) -> list[Fact]:
        rule = self.rule
        if rule.is_absence:
            return [("window", str(rule.window), "", None)]
        found: list[Fact] = [
            (rule.reduced(self.series), self.value, "", self.now[0]),
            ("limit", rule.limit, "", None),
        ]
        return found if rule.recover is None else [*found, ("back at", rule.recover, "", None)]


def _capital(text: str) -> str:
    """Capitalize the name of a reducer at the start of a sentence, but not the name of a series."""
    first = text.partition(" ")[0]
    known = ("mean", "min", "max", "change", "rate", "non-finite")
    return text[:1].upper() + text[1:] if first in known and " of " in text else text


def gap(span: Span, start: Moment, now: Moment) -> bool:
    """Return whether two records are more than ``span`` apart."""
    return span.since(start, now) > span.amount
