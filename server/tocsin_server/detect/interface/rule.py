"""What a rule is: settings, a small state that can be saved, and ``observe(view) -> verdicts``.

A rule instance judges one stream: the records of one writer about one optimizer. It is a pure
function of these records in their order; however they are cut into batches, its verdicts are
the same. Its life of an episode (onset, severity, calm) is kept by :class:`Rule` itself, so a
rule says only "the condition holds here" or "it does not".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from tocsin_server.core.models import AlertState, Severity

if TYPE_CHECKING:
    from tocsin_server.core.models import RunEvent
    from tocsin_server.detect.interface.context import RunContext
    from tocsin_server.detect.interface.ranks import RankReports
    from tocsin_server.detect.interface.view import View

Fact = tuple[str, float | str, str, int | None]
"""One piece of evidence: name, value, unit, step."""


@dataclass(frozen=True)
class RuleSettings:
    """Base of the settings of a rule: a frozen dataclass whose fields are made by :func:`setting`."""

    recover_updates: int = field(
        default=100, metadata={"unit": "updates", "help": "calm updates before a firing alert is recovering"}
    )
    resolve_updates: int = field(
        default=300, metadata={"unit": "updates", "help": "calm updates before it is resolved"}
    )
    recover_records: int = field(
        default=3, metadata={"unit": "records", "help": "calm records that are needed besides"}
    )


def setting(default: Any, unit: str, text: str, *, least: float | None = None) -> Any:
    """A field of a settings dataclass with its unit, what it means, and the least value that works."""
    return field(default=default, metadata={"unit": unit, "help": text, "least": least})


@dataclass(frozen=True)
class SettingInfo:
    """One setting of a rule as the API and the docs show it."""

    name: str
    value: Any
    unit: str
    help: str


@dataclass(frozen=True)
class RuleInfo:
    """What the API, the docs and the engine know of a rule without running it."""

    id: str
    title: str
    severity: Severity
    """The gravest it can say."""
    clock: str = "steps"
    """``steps``: judged by records; ``time``: by the server's clock."""
    inhibited_by: tuple[str, ...] = ()
    """No new episode begins while one of these rules is firing in the same run."""
    adversarial: bool = True
    """False: silent where several optimizers pursue different losses (GAN), which may rise and fall."""
    scope: str = "stream"
    """``stream``: records of one optimizer of one writer; ``wide``: the series beside them of one writer
    (losses of all optimizers and their terms, ``val/...``, ``nonfinite/...``); ``run``: episodes of other
    rules and events of the run, one instance a run."""
    bears_on: tuple[str, ...] | None = None
    """In the chains of which rules a finding stands that is only info. None: of any, as an event does. A
    condition that a run has from its start (a clip, a slow loader) is part of those that it explains."""
    settings: tuple[SettingInfo, ...] = ()

    @property
    def doc(self) -> str:
        """The path of the rule's page on the documentation site."""
        return f"reference/rules/{self.id}/"


def describe(settings: type[RuleSettings]) -> tuple[SettingInfo, ...]:
    """The settings of a rule with defaults, units and meaning."""
    defaults = settings()
    return tuple(
        SettingInfo(item.name, getattr(defaults, item.name), item.metadata["unit"], item.metadata["help"])
        for item in fields(settings)
    )


class RuleResult(msgspec.Struct):
    """What a rule says at one record. ``level`` orders how far an episode has gone."""

    row: int
    """Row of the batch; orders verdicts of several rules."""
    state: str
    severity: int
    """Height of :class:`Severity`: 0 info, 1 warning, 2 critical."""
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
    """Where the present episode of a rule stands. Empty state: none."""

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


class RuleState(msgspec.Struct):
    """Base of what a rule remembers of its stream; forgotten at a seam, unlike the episode."""


SettingsT = TypeVar("SettingsT", bound=RuleSettings)
StateT = TypeVar("StateT", bound=RuleState)

PENDING, FIRING = AlertState.PENDING.value, AlertState.FIRING.value
RECOVERING, RESOLVED = AlertState.RECOVERING.value, AlertState.RESOLVED.value
INFO, WARNING, CRITICAL = (severity.level for severity in Severity)


class Rule(Generic[SettingsT, StateT]):
    """Base of rules that judge records. A subclass sets the class variables and writes ``observe``."""

    info: ClassVar[RuleInfo]
    settings_type: ClassVar[type[RuleSettings]]
    state_type: ClassVar[type[RuleState]]
    needs: ClassVar[tuple[str, ...]]
    """The first of these signals names the subject; one of them must be in the stream."""
    idles: ClassVar[bool] = False
    """True: where :meth:`asleep`, a calm record (see ``View.calm``) tells this rule nothing, and it is
    not asked."""
    in_blocks: ClassVar[bool] = False
    """True: judges in blocks of ``block.PACE`` records. For what takes hundreds of records anyway: cheap."""

    def __init__(self, settings: SettingsT, context: RunContext, suffix: str) -> None:
        self.settings = settings
        self.context = context
        self.suffix = suffix
        self.state: StateT = self.state_type()  # type: ignore[assignment]
        self.episode = Episode()
        self.results: list[RuleResult] = []

    @classmethod
    def subjects(cls, bases: Iterable[str], suffix: str) -> bool:
        """Whether this rule judges a stream that has the signals ``bases``."""
        return any(need in bases for need in cls.needs)

    @property
    def subject(self) -> str:
        """The series that an alert of this instance is about."""
        return f"{self.needs[0]}/{self.suffix}" if self.suffix else self.needs[0]

    def asleep(self) -> bool:
        """Whether nothing is under way: no episode, nothing counted. Asked only of rules that idle."""
        return not self.episode.state

    def observe(self, view: View) -> None:
        """Judges the records of ``view``; what is to be said goes to ``said``."""
        raise NotImplementedError

    def discontinuity(self) -> None:
        """A restart or rewind: statistics of before must not meet records of after. The episode stays."""
        self.state = self.state_type()  # type: ignore[assignment]

    def resume(self, step: int) -> None:
        """An open episode goes on at ``step`` after a seam: calm is counted from there."""
        self.episode.last_step, self.episode.calm = step, 0

    def let_go(self) -> Episode:
        """Gives away the episode: another writer goes on with it."""
        episode, self.episode = self.episode, Episode()
        return episode

    def carried_state(self) -> bytes:
        """What the rule of the next attempt is to know of this one; empty: nothing."""
        return b""

    def inherit(self, carried: bytes, step: int) -> None:
        """Takes what the attempt before left, as this one begins at ``step``."""

    def load(self, state: bytes, episode: Episode) -> None:
        """Goes on from a saved state; one that does not fit (an older version's) is left."""
        self.episode = episode
        try:
            self.state = msgspec.msgpack.decode(state, type=self.state_type)  # type: ignore[assignment]
        except (msgspec.DecodeError, msgspec.ValidationError):
            self.resume(episode.last_step)

    def take(self) -> list[RuleResult]:
        """What was said since the last call."""
        said, self.results = self.results, []
        return said

    # What a subclass says

    def pend(self, view: View, row: int, onset: tuple[int, int], summary: str, evidence: list[Fact]) -> None:
        """The condition may have begun at ``onset`` (step, ns); the rule is not sure yet."""
        episode = self.episode
        episode.calm, episode.last_step = 0, view.step[row]
        if episode.state:
            return
        episode.onset_step, episode.onset_ns = onset
        episode.severity, episode.level, episode.kind = INFO, 0, ""
        self._emit(view, row, PENDING, summary, evidence)

    def already_reported(self, view: View, row: int, severity: int, level: int = 0) -> bool:
        """Whether :meth:`ring` has nothing to say of ``row``: it is graver than nothing said before.

        The record counts as one at which the condition holds. A rule asks before it makes its words,
        for an alarm may ring over millions of records.
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
    ) -> None:
        """The condition holds at ``row`` and began at ``onset`` (step, ns), unless the episode has one."""
        if self.already_reported(view, row, severity, level):
            return
        episode = self.episode
        episode.calm, episode.last_step = 0, view.step[row]
        if not episode.state:
            episode.onset_step, episode.onset_ns = onset
            episode.severity, episode.level = severity, level
        episode.severity = max(severity, episode.severity)
        episode.level = max(level, episode.level)
        episode.kind = kind
        self._emit(view, row, FIRING, summary, evidence)

    def settle(self, view: View, row: int, *, at_once: bool = False) -> None:
        """The condition does not hold at ``row``: towards recovering, then resolved."""
        episode, limits = self.episode, self.settings
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
        episode = self.episode
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


class RunRule(Rule[SettingsT, StateT]):
    """Base of rules of scope ``run``: one instance a run, told of episodes and events in their order.

    ``at`` is a view of one record: the moment of which is told. While an episode of this rule is
    open, the engine calls :meth:`rest` with every record of the run's primary optimizer.
    """

    needs: ClassVar[tuple[str, ...]] = ("",)

    def observe(self, view: View) -> None:
        """Records alone say nothing to such a rule."""

    def began(self, at: View, rule: str, subject: str, result: RuleResult) -> None:
        """An episode of another rule began to fire."""

    def on_event(self, at: View, event: RunEvent) -> None:
        """An event of the run; ``at.step[0]`` is its step, or the newest one where it has none."""

    def reported(self, at: View, reports: RankReports) -> None:
        """Several processes said what they made of a step."""

    def resumed(self, at: View, attempt: int, furthest: int) -> None:
        """A new attempt brought its first record; ``furthest`` is the highest step of those before."""

    def rest(self, view: View, row: int) -> None:
        """A record passed without news, while an episode is open."""
        self.settle(view, row)
