"""Base classes of the rules: a small state that can be saved, and ``observe(view)``.

A rule instance checks one stream: the records of one writer for one optimizer. Its results are a pure
function of these records in their order and do not depend on how the records are split into batches.
:class:`Rule` manages the life cycle of an episode (onset, severity, recovery), so a rule only reports
whether its condition holds at a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, get_args, get_origin

import msgspec

from tocsin_server.core.models import AlertState, Severity
from tocsin_server.detect.interface.description import RuleInfo, RuleSettings, describe, rule_id
from tocsin_server.detect.interface.view import WIDE

if TYPE_CHECKING:
    from tocsin_server.core.models import RunEvent
    from tocsin_server.detect.interface.context import RunContext
    from tocsin_server.detect.interface.ranks import RankReports
    from tocsin_server.detect.interface.view import View

Fact = tuple[str, float | str, str, int | None]
"""One piece of evidence: name, value, unit, step."""
Text = Callable[[], tuple[str, list[Fact]]]
"""Returns summary and evidence."""


class RuleResult(msgspec.Struct):
    """What a rule reports at one record. ``level`` increases as an episode gets worse."""

    row: int
    """Row in the batch; orders the results of several rules."""
    state: str
    severity: int
    """:attr:`Severity.level`: 0 info, 1 warning, 2 critical."""
    onset_step: int
    onset_ns: int
    step: int
    time_ns: int
    level: int
    summary: str
    evidence: list[Fact] = []
    kind: str = ""
    """Which of the rule's conditions holds, for the diagnosis."""


class Episode(msgspec.Struct):
    """The current episode of a rule. An empty ``state`` means that there is none."""

    state: str = ""
    severity: int = 0
    onset_step: int = 0
    onset_ns: int = 0
    level: int = 0
    last_step: int = 0
    calm: int = 0
    summary: str = ""
    evidence: list[Fact] = []
    kind: str = ""
    back: float | None = None
    """Highest value that counts as recovered, derived from the level before the onset.

    It is kept across discontinuities and attempts, after which statistics start empty. Otherwise a broken
    series would become its own baseline.
    """
    size: float = 0.0
    """The size that the summary and the evidence are about, see :meth:`Rule.fire`."""


class RuleState(msgspec.Struct):
    """Base of the state of a rule. It is reset at a discontinuity, unlike the episode."""


SettingsT = TypeVar("SettingsT", bound=RuleSettings)
StateT = TypeVar("StateT", bound=RuleState)

PENDING, FIRING = AlertState.PENDING.value, AlertState.FIRING.value
RECOVERING, RESOLVED = AlertState.RECOVERING.value, AlertState.RESOLVED.value
INFO, WARNING, CRITICAL = (severity.level for severity in Severity)


class Rule(Generic[SettingsT, StateT]):
    """Base of rules that check records. A subclass sets the class variables and implements ``observe``.

    The file name is the rule's identifier: ``zero_lr.py`` is ``zero-lr``. The types of settings and state
    are the parameters in brackets: ``class ZeroLr(Rule[Settings, State])``.
    """

    title: ClassVar[str]
    """What happened, in three to six words."""
    severity: ClassVar[int]
    """The highest level that the rule can report: INFO, WARNING or CRITICAL."""
    inhibited_by: ClassVar[tuple[str, ...]] = ()
    """See :class:`RuleInfo` for this and the next three."""
    adversarial: ClassVar[bool] = True
    scope: ClassVar[str] = "stream"
    bears_on: ClassVar[tuple[str, ...] | None] = None
    exact: ClassVar[bool] = False
    """Whether findings depend on values that are exactly 0 or equal; few decimals cannot show that."""
    info: ClassVar[RuleInfo]
    """Built from the class variables."""
    settings_type: ClassVar[type[RuleSettings]] = RuleSettings
    state_type: ClassVar[type[RuleState]] = RuleState
    needs: ClassVar[tuple[str, ...]]
    """At least one of these signals must be in the stream; the first one names the subject."""
    idles: ClassVar[bool] = False
    """True: calm records (see ``View.calm``) are not passed to the rule while it is :meth:`asleep`."""
    in_blocks: ClassVar[bool] = False
    """True: the rule is evaluated once per ``blocks.PACE`` records.

    This is cheaper and suits rules that need hundreds of records anyway.
    """

    def __init_subclass__(cls) -> None:
        """Read the types from the type parameters, and build ``info`` for a rule that has a title."""
        super().__init_subclass__()
        for base in getattr(cls, "__orig_bases__", ()):
            for given in get_args(base) if issubclass(get_origin(base) or object, Rule) else ():
                if isinstance(given, type) and issubclass(given, RuleSettings):
                    cls.settings_type = given
                elif isinstance(given, type) and issubclass(given, RuleState):
                    cls.state_type = given
        msgspec.msgpack.Decoder(cls.state_type)  # now: msgspec crashes if two threads are the first to decode
        if "title" in vars(cls):
            cls.info = RuleInfo(
                id=rule_id(cls.__module__),
                title=cls.title,
                severity=tuple(Severity)[cls.severity],
                inhibited_by=cls.inhibited_by,
                adversarial=cls.adversarial,
                scope=cls.scope,
                bears_on=cls.bears_on,
                settings=describe(cls.settings_type),
            )

    def __init__(self, settings: SettingsT, context: RunContext, suffix: str) -> None:
        self.settings = settings
        self.context = context
        self.suffix = suffix
        self.state: StateT = self.state_type()  # type: ignore[assignment]
        self.episode = Episode()
        self.results: list[RuleResult] = []
        self._text: Text | None = None
        """Returns the text of the episode, if it was postponed."""

    @classmethod
    def subjects(cls, bases: Iterable[str], suffix: str) -> bool:
        """Return whether this rule applies to a stream that has the signals ``bases``."""
        return any(need in bases for need in cls.needs)

    @property
    def subject(self) -> str:
        """Return the series that the alerts of this instance are about."""
        return f"{self.needs[0]}/{self.suffix}" if self.suffix else self.needs[0]

    def quantum(self, signal: str) -> float:
        """Return the distance between two printable numbers of ``signal``; 0 if it is recorded in full.

        Smaller differences may come from rounding, and a printed 0 is anything up to half of it.
        """
        quanta = self.context.quanta
        return quanta.get(f"{signal}/{self.suffix}" if self.suffix else signal, 0.0) if quanta else 0.0

    def asleep(self) -> bool:
        """Return whether the rule has no open episode and no counts in progress.

        Called only for rules with ``idles``.
        """
        return not self.episode.state

    def ceiling(self) -> float:
        """Return up to which value of its first signal the rule reports nothing about calm records.

        It must hold for the next ``blocks.PACE`` calm records, whatever else they contain: such records
        may wait for each other. By default -inf: the rule sees each record at once.
        """
        return float("-inf")

    def observe(self, view: View) -> None:
        """Check the records of ``view`` and add the findings to ``results``."""
        raise NotImplementedError

    def discontinuity(self) -> None:
        """Reset the state after a restart or rewind; the episode stays open.

        Statistics from before a discontinuity must not be mixed with records after it.
        """
        self.state = self.state_type()  # type: ignore[assignment]

    def respaced(self) -> None:
        """Restart baselines that count records, because records are ten times as far apart from here on.

        Some logs have every step of the warm-up and then every hundredth step. Their later records would
        otherwise be compared with the first minutes of the run until the baseline is full of later records.
        """

    def resume(self, step: int) -> None:
        """Continue an open episode at ``step`` after a discontinuity and restart its recovery count there."""
        self.episode.last_step, self.episode.calm = step, 0

    def let_go(self) -> Episode:
        """Remove and return the episode, because another writer takes it over."""
        self.complete()
        episode, self.episode = self.episode, Episode()
        return episode

    def carried_state(self) -> bytes:
        """Return state for this rule in the next attempt of the run; empty: none."""
        return b""

    def inherit(self, carried: bytes, step: int) -> None:
        """Load the state carried over from the previous attempt; this attempt starts at ``step``."""

    def load(self, state: bytes, episode: Episode) -> None:
        """Restore a saved state and episode.

        A state that does not fit the current version of the rule is dropped.
        """
        self.episode = episode
        try:
            self.state = msgspec.msgpack.decode(state, type=self.state_type)  # type: ignore[assignment]
        except (msgspec.DecodeError, msgspec.ValidationError):
            self.resume(episode.last_step)

    def take(self) -> list[RuleResult]:
        """Return and clear the results since the last call."""
        taken, self.results = self.results, []
        return taken

    # Called by subclasses

    def pend(self, view: View, row: int, onset: tuple[int, int], summary: str, evidence: list[Fact]) -> None:
        """Open a pending episode: the condition may hold but is not certain yet.

        Args:
            view: The records being checked.
            row: Index of the record in ``view``.
            onset: Step and time (Unix ns) at which it may have started.
            summary: What may be happening, in one sentence.
            evidence: The numbers that support it.
        """
        episode = self.episode
        episode.calm, episode.last_step = 0, view.step[row]
        if episode.state:
            return
        episode.onset_step, episode.onset_ns = onset
        episode.severity, episode.level, episode.kind = INFO, 0, ""
        self._emit(view, row, PENDING, summary, evidence)

    def already_reported(self, view: View, row: int, severity: int, level: int = 0) -> bool:
        """Return whether :meth:`fire` would add nothing at ``row``: it is no worse than already reported.

        If so, the record counts as one at which the condition holds. Rules call this before they build
        a summary, because an alert may fire over millions of records.

        Args:
            view: The records being checked.
            row: Index of the record in ``view``.
            severity: :attr:`Severity.level` to report.
            level: How bad the condition is.
        """
        episode = self.episode
        if episode.state != FIRING or severity > episode.severity or level > episode.level:
            return False
        episode.calm, episode.last_step = 0, view.step[row]
        return True

    def fire(
        self,
        view: View,
        row: int,
        severity: int,
        onset: tuple[int, int],
        summary: str,
        evidence: list[Fact],
        *,
        level: int = 0,
        kind: str = "",
        back: float | None = None,
        size: float | None = None,
    ) -> None:
        """Report that the condition holds at ``row``.

        Args:
            view: The records being checked.
            row: Index of the record in ``view``.
            severity: :attr:`Severity.level` of the finding.
            onset: Step and time (Unix ns) at which the condition started; ignored if the episode has an
                onset.
            summary: What happened, in one sentence.
            evidence: The numbers that support it.
            level: How bad the condition is; the alert is updated when it increases.
            kind: Which of the rule's conditions holds, for the diagnosis.
            back: See :attr:`Episode.back`; ignored if the episode has one.
            size: The number in the text that may grow between two reports: a count, or a ratio. Once the
                episode recovers, its text is the one with the largest size.
        """
        if self.already_reported(view, row, severity, level):
            if size is not None:
                self.grow(size, lambda: (summary, evidence))
            return
        episode = self.episode
        episode.calm, episode.last_step = 0, view.step[row]
        if not episode.state:
            episode.onset_step, episode.onset_ns = onset
            episode.severity, episode.level = severity, level
        episode.severity = max(severity, episode.severity)
        episode.level = max(level, episode.level)
        episode.kind = kind
        episode.back = back if episode.back is None else episode.back
        episode.size = size or 0.0
        self._emit(view, row, FIRING, summary, evidence)

    def grow(self, size: float, text: Text) -> None:
        """Postpone the text of an episode that is already reported, see ``size`` of :meth:`fire`.

        Rules whose episodes last for millions of records call this themselves, because text costs more than
        the rest of a record.
        """
        if size >= self.episode.size:
            self.episode.size, self._text = size, text

    def complete(self) -> None:
        """Write the text of the episode if it was postponed."""
        if self._text is not None:
            self.episode.summary, self.episode.evidence = self._text()
            self._text = None

    def is_back(self, value: float) -> bool:
        """Return whether ``value`` is at the level from before the onset, as far as that is known."""
        return self.episode.back is None or value <= self.episode.back

    def continues(self, view: View, row: int) -> None:
        """Report that an open episode is not over at ``row``: its recovery is counted from there."""
        if self.episode.state:
            self.episode.calm, self.episode.last_step = 0, view.step[row]

    def settle(self, view: View, row: int, *, at_once: bool = False) -> None:
        """Report that the condition does not hold at ``row``: an open episode recovers, then is resolved.

        Args:
            view: The records being checked.
            row: Index of the record in ``view``.
            at_once: Do not wait for ``recover_updates`` and ``recover_records`` before recovering.
        """
        episode, limits = self.episode, self.settings
        if not episode.state:
            return
        self.complete()
        episode.calm += 1
        calm = abs(view.step[row] - episode.last_step)
        if episode.state == PENDING:
            if at_once or (calm >= limits.recover_updates and episode.calm >= limits.recover_records):
                self._emit(view, row, RESOLVED, episode.summary, episode.evidence)
            return
        if not at_once and episode.calm < limits.recover_records:
            return
        if episode.state == FIRING and (at_once or calm >= limits.recover_updates):
            self._emit(view, row, RECOVERING, episode.summary, episode.evidence)
        if episode.state == RECOVERING and calm >= limits.resolve_updates:
            self._emit(view, row, RESOLVED, episode.summary, episode.evidence)

    def _emit(self, view: View, row: int, state: str, summary: str, evidence: list[Fact]) -> None:
        episode, self._text = self.episode, None
        episode.state, episode.summary, episode.evidence = state, summary, evidence
        self.results.append(
            RuleResult(
                row=view.rows[row],
                state=state,
                severity=episode.severity,
                onset_step=episode.onset_step,
                onset_ns=episode.onset_ns,
                step=view.step[row],
                time_ns=view.time_ns[row],
                level=episode.level,
                summary=summary,
                evidence=evidence,
                kind=episode.kind,
            )
        )
        if state == RESOLVED:
            self.episode = Episode()


class WideRule(Rule[SettingsT, StateT]):
    """Base of rules of scope ``wide``: ``needs`` are prefixes of the metrics that the rule reads."""

    scope = "wide"
    about: ClassVar[str]
    """The series that the alerts are about."""

    @classmethod
    def subjects(cls, bases: Iterable[str], suffix: str) -> bool:
        """Return whether the stream is that of the shared metrics and has one that the rule reads."""
        return suffix == WIDE and any(base.startswith(cls.needs) for base in bases)

    @property
    def subject(self) -> str:
        """Return the series that the alerts are about."""
        return self.about


class RunRule(Rule[SettingsT, StateT]):
    """Base of rules of scope ``run``: one instance per run, which receives episodes and events in order.

    ``at`` is a view of a single record: the time of the episode or event. While an episode of this rule
    is open, the engine calls :meth:`rest` with every record of the run's primary optimizer.
    """

    scope = "run"
    needs: ClassVar[tuple[str, ...]] = ("",)

    def observe(self, view: View) -> None:
        """Do nothing: these rules do not check records."""

    def began(self, at: View, rule: str, subject: str, result: RuleResult) -> None:
        """Handle an episode of another rule that started to fire.

        Args:
            at: View of the record at which it was reported.
            rule: Identifier of the other rule.
            subject: Series that it is about.
            result: What it reported.
        """

    def on_event(self, at: View, event: RunEvent) -> None:
        """Handle an event of the run; ``at.step[0]`` is its step, or the newest step if it has none."""

    def reported(self, at: View, reports: RankReports) -> None:
        """Handle the reports of several processes for one step."""

    def resumed(self, at: View, attempt: int, furthest: int) -> None:
        """Handle the first record of a new attempt; ``furthest`` is the highest step of earlier attempts."""

    def rest(self, view: View, row: int) -> None:
        """Handle a record at which nothing else happened, while an episode is open."""
        self.settle(view, row)
