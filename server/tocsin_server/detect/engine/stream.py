"""A stream: the records of one writer for one optimizer, and the rules that check them.

If steps go back (a rewind to a checkpoint) or the number of whole losses per step changes
(micro_steps.py), the stream restarts. At such a discontinuity all statistics are reset. Open episodes
are kept, so that one problem stays one alert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tocsin_server.detect.interface.blocks import Block, SavedBlock
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.interface.history import History
from tocsin_server.detect.interface.loss_scale import ScalerTrack
from tocsin_server.detect.interface.micro_steps import MicroSteps
from tocsin_server.detect.interface.rule import Episode, Rule, RuleResult
from tocsin_server.detect.interface.view import WIDE, View
from tocsin_server.detect.rules.catalog import rules_of

SPARSER = 10
"""A log becomes sparser where two distances between records in a row are this many times the usual one."""


class SavedRule(msgspec.Struct):
    """State and episode of one rule in a snapshot."""

    state: bytes
    episode: Episode


class Spacing(msgspec.Struct):
    """Distance between records, to detect where a log becomes permanently sparser."""

    last: int | None = None
    """Step of the newest record."""
    gap: int = 0
    """Usual distance in steps; 0 before the second record."""
    wide: int = 0
    """Number of consecutive distances of at least ``SPARSER`` times ``gap``."""

    def sparser(self, steps: Sequence[int]) -> list[int]:
        """Return the rows from which records are :data:`SPARSER` times as far apart as before."""
        last, found = self.last, []
        if last is not None and self.gap and not self.wide and steps[-1] - last == self.gap * len(steps):
            self.last = steps[-1]  # nearly always: as far apart as before
            return []
        for row, step in enumerate(steps):
            if last is not None and step > last and self._widens(step - last):
                found.append(row)
            last = step
        self.last = last
        return found

    def _widens(self, gap: int) -> bool:
        if self.gap and gap >= SPARSER * self.gap:
            self.wide += 1
            if self.wide < 2:
                return False
        widens = self.wide >= 2
        self.gap, self.wide = gap, 0
        return widens


class SavedStream(msgspec.Struct):
    """A stream in a snapshot."""

    count: int
    first_step: int
    before: tuple[int, int] | None
    bases: list[str]
    track: ScalerTrack
    history: History
    block: SavedBlock
    rules: dict[str, SavedRule]
    carried_states: dict[str, bytes] = {}
    micro_steps: MicroSteps = msgspec.field(default_factory=MicroSteps)
    spacing: Spacing = msgspec.field(default_factory=Spacing)


class Stream:
    """Checks the records of one writer for the optimizer ``suffix`` (``""``: the primary one).

    The suffix ``WIDE`` is the stream of the shared metrics, which rules of scope ``wide`` check.
    """

    def __init__(
        self,
        suffix: str,
        context: RunContext,
        settings: Mapping[str, RuleSettings],
        off: frozenset[str] = frozenset(),
    ) -> None:
        self.suffix = suffix
        self.scope = "wide" if suffix == WIDE else "stream"
        self.context = context
        self.scaler = context.scaler(suffix)
        """Settings of this stream's scaler, if the script reported them."""
        self.settings = settings
        self.off = off
        """Rules that are disabled."""
        self.count = 0
        self.first_step = 0
        self.before: tuple[int, int] | None = None
        """Step and time of the newest record since the last discontinuity."""
        self.bases: set[str] = set()
        self.track = ScalerTrack()
        self.micro_steps = MicroSteps()
        self.spacing = Spacing()
        self.history = History()
        self.block = Block()
        self.rules: list[Rule[Any, Any]] = []
        self.prompt: list[Rule[Any, Any]] = []
        """Rules that see each record immediately."""
        self._awake: list[Rule[Any, Any]] | None = None
        """See :attr:`awake`; None if it has to be determined again."""
        self.restless = 0
        """How many of the prompt rules are never asleep."""
        self.in_blocks: list[Rule[Any, Any]] = []
        """Rules that see full blocks."""
        self.failed: list[tuple[str, Exception]] = []
        """Rules that raised, until the engine takes them."""
        self.inherited_episodes: dict[str, Episode] = {}
        """Open episodes of an earlier writer, by rule, which the rules of this stream continue."""
        self.carried_states: dict[str, bytes] = {}
        """States carried over from the previous attempt, by rule."""

    def check(self, view: View) -> list[NumberedResult]:
        """Check the records of ``view``; return the results with their record numbers in the stream."""
        if not self.bases.issuperset(view.bases):
            self._meet(view)
        emitted: list[NumberedResult] = []
        for part in self._parts(view):
            self.history.take(part)
            self.track.follow(part, self.scaler)
            self._observe(part, emitted)
            if self.in_blocks:
                block = self.block.take(part)
                if block is not None:
                    self._collect(block, part, self.in_blocks, emitted)
            self.count += part.n
            self.before = (part.step[-1], part.time_ns[-1])
        return emitted

    @property
    def awake(self) -> list[Rule[Any, Any]]:
        """Return the prompt rules that see calm records too."""
        if self._awake is None:
            self._awake = [rule for rule in self.prompt if not (rule.idles and rule.asleep())]
        return self._awake

    def _observe(self, part: View, emitted: list[NumberedResult]) -> None:
        """Run the rules that see each record; those asleep do not see calm records."""
        calm = part.calm
        rules = self.awake if calm else self.prompt
        self._collect(part, part, rules, emitted)
        if not calm or len(rules) > self.restless:
            self._awake = None

    def finish(self) -> list[NumberedResult]:
        """Check the records that wait for a full block, because no more follow for now."""
        emitted: list[NumberedResult] = []
        block = self.block.flush()
        for rule in self.in_blocks if block is not None else ():
            try:
                rule.observe(block)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - the other rules do not depend on it
                self._restart(rule, error)
            emitted += [(self.count - 1, rule, result) for result in rule.take()]
        return emitted

    def _collect(
        self, view: View, part: View, rules: list[Rule[Any, Any]], emitted: list[NumberedResult]
    ) -> None:
        """Run ``rules`` on ``view`` and number their results by the rows of ``part``."""
        for rule in rules:
            try:
                rule.observe(view)
            except Exception as error:  # noqa: BLE001 - the other rules do not depend on it
                self._restart(rule, error)
            if rule.results:
                offset = part.rows[0]
                emitted += [
                    (part.first + _index(part, result.row, offset), rule, result) for result in rule.take()
                ]

    def _restart(self, rule: Rule[Any, Any], error: Exception) -> None:
        """Reset the state of a rule that raised, because it may have changed it by half."""
        rule.take()
        rule.discontinuity()
        self.failed.append((rule.info.id, error))

    def learn(self, context: RunContext) -> None:
        """Update the run's context."""
        self.context = context
        self.scaler = context.scaler(self.suffix)
        for rule in self.rules:
            rule.context = context
        self._awake = None

    def unproved(self, series: str) -> Iterator[str]:
        """Restart the rules that assumed exact values of ``series``; yield those that had an episode."""
        for rule in self.rules:
            if rule.exact and rule.subject == series:
                rule.discontinuity()
                if rule.let_go().state:
                    yield rule.info.id

    def _meet(self, view: View) -> None:
        """Add the rules for signals that appear for the first time."""
        self.bases.update(view.bases)
        known = {type(rule): rule for rule in self.rules}
        self._place([known.get(kind) or self._make(kind, view.step[0]) for kind in self._kinds(known)])

    def _kinds(self, known: Iterable[type[Rule[Any, Any]]] = ()) -> list[type[Rule[Any, Any]]]:
        """Return the rules that apply to the known signals, and those already active."""
        return [
            kind
            for kind in rules_of(self.scope)
            if kind.info.id not in self.off and (kind in known or kind.subjects(self.bases, self.suffix))
        ]

    def retune(
        self, settings: Mapping[str, RuleSettings], off: frozenset[str], reset: frozenset[str]
    ) -> None:
        """Apply other settings from here on.

        Rules in ``reset`` start with new statistics and keep their open episodes.

        Args:
            settings: Settings that differ from the defaults, by rule.
            off: Rules that are disabled.
            reset: Rules that lose their statistics.
        """
        self.settings, self.off = settings, off
        step = self.before[0] if self.before else self.first_step
        known = {type(rule): rule for rule in self.rules}
        for name in off:
            self.inherited_episodes.pop(name, None)
        rules = []
        for kind in self._kinds(known):
            rule = known.get(kind)
            if rule is None or kind.info.id in reset:
                made = self._make(kind, step)
                if rule is not None:
                    made.episode = rule.let_go()
                    made.resume(step)
                rule = made
            rules.append(rule)
        self._place(rules)

    def _place(self, rules: list[Rule[Any, Any]]) -> None:
        self.rules = rules
        self.prompt = self._awake = [rule for rule in rules if not rule.in_blocks]
        self.restless = sum(not rule.idles for rule in self.prompt)
        self.in_blocks = [rule for rule in rules if rule.in_blocks]

    def _make(self, kind: type[Rule[Any, Any]], step: int = 0) -> Rule[Any, Any]:
        settings = self.settings.get(kind.info.id) or kind.settings_type()
        rule = kind(settings, self.context, self.suffix)
        episode = self.inherited_episodes.pop(kind.info.id, None)
        if episode is not None:
            rule.episode = episode
            rule.resume(self.first_step)
        if kind.info.id in self.carried_states:
            rule.inherit(self.carried_states.pop(kind.info.id), step)
        return rule

    def _parts(self, view: View) -> Iterable[View]:
        """Split ``view`` where steps go back or change meaning; the stream restarts at each split."""
        if self.count == 0:
            self.first_step = view.step[0]
            for rule in self.rules:
                rule.resume(self.first_step)
        rewinds, changes = self._rewinds(view), self.micro_steps.changes(view)
        sparser = self.spacing.sparser(view.step)
        if rewinds or changes or sparser:
            return self._cut(view, rewinds, changes, sparser)
        view.first, view.first_step, view.before = self.count, self.first_step, self.before
        return (view,)

    def _cut(self, view: View, rewinds: list[int], changes: list[int], sparser: list[int]) -> Iterator[View]:
        start, rewound = 0, None
        for cut in [*sorted({*rewinds, *changes, *sparser}), view.n]:
            if cut > start:
                part = view.cut(start, cut, first=self.count, first_step=self.first_step)
                part.before, part.rewound_from = self.before, rewound
                yield part
            if cut in rewinds or cut in changes:
                rewound = self.before[0] if self.before and cut in rewinds else None
                self._discontinuity(view.step[cut])
            elif cut < view.n:
                rewound = None
                for rule in self.rules:
                    rule.respaced()
            start = cut

    def _rewinds(self, view: View) -> list[int]:
        """Return the rows at which steps go back; late evaluations and terms of the loss do not count."""
        if self.scope == "wide":
            return []
        steps = view.step
        last = self.before[0] if self.before else steps[0]
        if steps[0] >= last and (len(steps) == 1 or steps == sorted(steps)):
            return []
        before = [last, *steps[:-1]]
        return [row for row, step in enumerate(steps) if step < before[row]]

    def _discontinuity(self, step: int) -> None:
        self.first_step, self.before = step, None
        self.track = ScalerTrack()
        self.block = Block()
        self.history.mark_discontinuity()
        for rule in self.rules:
            rule.discontinuity()
            rule.resume(step)
        self._awake = self.prompt

    def save(self) -> SavedStream:
        """Return the state of the stream for a snapshot."""
        self.history.compact()
        for rule in self.rules:
            rule.complete()
        rules = {
            rule.info.id: SavedRule(msgspec.msgpack.encode(rule.state), rule.episode) for rule in self.rules
        }
        rules.update({rule: SavedRule(b"", episode) for rule, episode in self.inherited_episodes.items()})
        return SavedStream(
            count=self.count,
            first_step=self.first_step,
            before=self.before,
            bases=sorted(self.bases),
            track=self.track,
            history=self.history,
            block=self.block.save(),
            rules=rules,
            carried_states=self.carried_states,
            micro_steps=self.micro_steps,
            spacing=self.spacing,
        )

    def load(self, saved: SavedStream) -> None:
        """Restore the stream from a snapshot; a rule whose saved state is incompatible starts empty."""
        self.count, self.first_step, self.before = saved.count, saved.first_step, saved.before
        self.bases, self.track, self.history = set(saved.bases), saved.track, saved.history
        self.block = Block.load(saved.block)
        self._place([self._make(kind) for kind in self._kinds()])
        for rule in self.rules:
            kept = saved.rules.pop(rule.info.id, None)
            if kept is not None:
                rule.load(kept.state, kept.episode)
        left = {rule: kept.episode for rule, kept in saved.rules.items() if not kept.state}
        self.inherited_episodes = {rule: episode for rule, episode in left.items() if rule not in self.off}
        self.carried_states, self.micro_steps = saved.carried_states, saved.micro_steps
        self.spacing = saved.spacing
        self._awake = None


NumberedResult = tuple[int, Rule[Any, Any], RuleResult]
"""Number of a record within its stream, the rule, and its result there."""


def _index(view: View, row: int, offset: int) -> int:
    """Return the index within ``view`` of the batch row ``row``."""
    if isinstance(view.rows, range):
        return row - offset
    return view.rows.index(row)
