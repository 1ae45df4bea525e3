"""What was changed after an incident, and whether that helped. Pure functions.

A remedy is an attempt that trains the steps again in which an incident began: a later attempt of the run, or
a later run. Both are compared over the same stretch of steps, from the onset to a margin after the step at
which the incident was detected.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TypeGuard

from tocsin_server.core.causal_order import NEAR_STEPS, by_cause, chain_of
from tocsin_server.core.incidents import Incident, cause_of
from tocsin_server.core.models import Alert, AlertState
from tocsin_server.core.run_changes import Category, Change, Setup, differences

NONFINITE = 3
"""Number of values at the end of a series that must be NaN or infinite to count without an alert."""
FEW = 3
"""A later run with the same configuration except this many settings can be a remedy."""
SAME = 0.01
"""Two learning rates that differ by at most this share count as equal."""
LARGEST_FACTOR = 1000
MOST_CHANGES = 8
"""Maximum number of changes that a sentence names."""
LONGEST = 60
"""Maximum number of characters of a value in a sentence."""
LR = "lr"
_WITHOUT_EFFECT = f"{LR} changed without effect"
_KINDS = {
    LR: ("lr", "learning_rate", "learningrate", "max_lr", "base_lr", "peak_lr"),
    "max_grad_norm": (
        *("max_grad_norm", "grad_clip", "clip_grad", "clip_grad_norm", "gradient_clip_val", "clip_norm"),
        *("gradient_clipping", "max_norm", "clip"),
    ),
    "warm-up": ("warmup", "warmup_steps", "num_warmup_steps", "warmup_ratio", "warmup_epochs", "lr_warmup"),
    "batch size": ("batch_size", "batch", "per_device_train_batch_size", "train_batch_size", "global_batch"),
    "weight decay": ("weight_decay", "wd"),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_WHOLE = {
    Category.CODE: "code changed",
    Category.VERSIONS: "versions changed",
    Category.HARDWARE: "hardware changed",
}
_NOT_CHANGES = (
    *("resume", "resume_from", "resume_from_checkpoint", "checkpoint", "ckpt", "ckpt_path", "load_from"),
    *("output_dir", "log_dir", "save_dir", "run_name", "run_id", "name", "start_step", "timestamp", "host"),
)
"""Last words of settings that say where a training begins or where it writes, not how it trains."""


class Outcome(enum.StrEnum):
    """recovered: the stretch passed without the problem; recurred: it began again; too-early: neither yet."""

    RECOVERED = "recovered"
    RECURRED = "recurred"
    TOO_EARLY = "too-early"


class Direction(enum.StrEnum):
    """How a setting was changed."""

    LOWERED = "lowered"
    RAISED = "raised"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Curve:
    """A recorded series: increasing steps, and the value at each."""

    steps: Sequence[float] = ()
    values: Sequence[float] = ()

    def at(self, step: float) -> float | None:
        """Return the newest value at or before ``step``, or None if there is none."""
        place = bisect_right(self.steps, step)
        return self.values[place - 1] if place else None

    def within(self, first: float, last: float) -> list[tuple[float, float]]:
        """Return the (step, value) pairs from ``first`` to ``last``, both included."""
        start, stop = bisect_left(self.steps, first), bisect_right(self.steps, last)
        return list(zip(self.steps[start:stop], self.values[start:stop], strict=True))


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a run, or a run with all its attempts.

    Attributes:
        run_id: The run.
        run_name: Its name.
        attempt: Number of the attempt, or that of the run's newest one.
        began_ns: When its first record was made, or the process connected.
        until_ns: When the next attempt of the run began; None if there is none.
        first_step: Its first step.
        last_step: Its last step so far.
        whole: Whether this is a run with all its attempts.
        finished: Whether it ended without an error.
        over: Whether it ended.
        setup: Its configuration, code and hardware, as far as recorded.
        rates: Recorded learning rates by series.
        loss: Recorded loss.
        alerts: Alerts of the run.
    """

    run_id: str
    run_name: str
    attempt: int
    began_ns: int
    until_ns: int | None
    first_step: int
    last_step: int
    whole: bool = False
    finished: bool = False
    over: bool = False
    setup: Setup = field(default_factory=dict)
    rates: Mapping[str, Curve] = field(default_factory=dict)
    loss: Curve = Curve()
    alerts: Sequence[Alert] = ()

    def has(self, alert: Alert) -> bool:
        """Return whether an alert of the run fired for the first time in this attempt."""
        fired_ns = alert.fired_ns
        return fired_ns is not None and self.began_ns <= fired_ns < (self.until_ns or math.inf)

    def is_continued(self, alert: Alert) -> bool:
        """Return whether an alert of an earlier attempt never recovered in this one."""
        if alert.fired_ns is None or alert.fired_ns >= self.began_ns:
            return False
        if alert.state is AlertState.FIRING:
            return True
        over_ns = alert.resolved_ns or 0
        if alert.state is AlertState.ENDED:
            return over_ns > self.began_ns
        return self.until_ns is not None and over_ns >= self.until_ns


@dataclass(frozen=True, slots=True)
class Stretch:
    """The steps that are compared: from the onset to ``last``. The incident was detected at ``detected``."""

    onset: int
    detected: int
    last: int


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting that differs. ``recorded``: the values are those of a series, not of the configuration."""

    setting: str
    before: str | None
    after: str | None
    direction: Direction
    text: str
    label: str
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class AppliedRemedy:
    """An attempt after an incident: what was changed, and the outcome.

    ``changed`` says how it begins and what differs, ``text`` gives the outcome, both as one sentence.
    ``step`` is the step at which the problem began again. ``label`` names the changes without values.
    """

    run_id: str
    run_name: str
    attempt: int
    began_ns: int
    first_step: int
    last_step: int
    changes: tuple[SettingChange, ...]
    label: str
    changed: str
    outcome: Outcome
    step: int | None
    text: str
    loss_step: int | None = None
    """The last step of the stretch that both trained; None without a recorded loss."""
    loss_before: float | None = None
    loss_after: float | None = None


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """How often one kind of change helped against one cause. ``cause`` is the rule nearest to the cause."""

    cause: str
    label: str
    cases: tuple[tuple[Incident, AppliedRemedy], ...]

    def count(self, outcome: Outcome) -> int:
        """Return how many cases have this outcome."""
        return sum(remedy.outcome is outcome for _, remedy in self.cases)


def as_it_began(incident: Incident, before: Attempt) -> Incident:
    """Return an incident with only the alerts of the attempt in which it began."""
    own = [alert for alert in incident.alerts if alert.run_id == before.run_id and before.has(alert)]
    return Incident(incident.id, tuple(by_cause(own))) if own else incident


def stretch_of(incident: Incident) -> Stretch | None:
    """Return the steps to compare after an incident, or None if its onset is unknown."""
    onset = incident.onset_step
    if onset is None:
        return None
    fired = [alert.fired_step for alert in incident.alerts if alert.severity is incident.severity]
    detected = max(onset, min((step for step in fired if step is not None), default=onset))
    return Stretch(onset, detected, detected + max(NEAR_STEPS, detected - onset))


def trains_again(after: Attempt, stretch: Stretch) -> bool:
    """Return whether an attempt begins before the end of the onset, so that it can show whether it recurs."""
    return after.first_step <= stretch.onset


def applied_remedies(
    incident: Incident, before: Attempt, later: Iterable[Attempt], checkpoints: Iterable[str] = ()
) -> list[AppliedRemedy]:
    """Return what was tried after an incident, oldest first.

    The first attempt of the same run that recovered is the last of that run; runs that began after the first
    recovery are no remedies any more.

    Args:
        incident: The incident.
        before: The attempt in which it began.
        later: Attempts of the same run, and other runs, that began after it.
        checkpoints: Paths of the checkpoints of the run. Settings that name one say how to resume.
    """
    stretch = stretch_of(incident)
    if stretch is None:
        return []
    paths = tuple(checkpoints)
    found: list[AppliedRemedy] = []
    solved, solved_by_itself = False, False
    for after in sorted(later, key=lambda each: (each.began_ns, each.run_id, each.attempt)):
        is_own = after.run_id == before.run_id
        if not trains_again(after, stretch) or (solved_by_itself if is_own else solved):
            continue
        remedy = applied_remedy(incident, before, after, paths)
        found.append(remedy)
        if remedy.outcome is Outcome.RECOVERED:
            solved, solved_by_itself = True, solved_by_itself or is_own
    return found


def applied_remedy(
    incident: Incident, before: Attempt, after: Attempt, checkpoints: Sequence[str] = ()
) -> AppliedRemedy:
    """Return what was changed in ``after``, and the outcome. The onset of the incident is known."""
    stretch = stretch_of(incident)
    if stretch is None:
        raise ValueError(f"The onset of incident {incident.id} is unknown.")
    changes = changes_between(before, after, stretch, checkpoints)
    starts_over = after.first_step <= (1 if after.run_id == before.run_id else max(1, before.first_step))
    begins = "Starts over" if starts_over else f"Continues from step {after.first_step - 1}"
    outcome, step, text = _outcome(incident, after, stretch)
    last = min(stretch.last, after.last_step, before.last_step)
    losses = (before.loss.at(last), after.loss.at(last)) if last >= stretch.onset else (None, None)
    known = None not in losses
    return AppliedRemedy(
        run_id=after.run_id,
        run_name=after.run_name,
        attempt=after.attempt,
        began_ns=after.began_ns,
        first_step=after.first_step,
        last_step=after.last_step,
        changes=changes,
        label=_label(changes, before, after, starts_over),
        changed=f"{begins} {_with(changes, before, after)}.",
        outcome=outcome,
        step=step,
        text=text,
        loss_step=last if known else None,
        loss_before=losses[0] if known else None,
        loss_after=losses[1] if known else None,
    )


def ledger(cases: Iterable[tuple[Incident, AppliedRemedy]]) -> list[LedgerRow]:
    """Return the cases by cause and kind of change: the most frequent cause first, then what held often."""
    grouped: dict[tuple[str, str], list[tuple[Incident, AppliedRemedy]]] = {}
    for incident, remedy in cases:
        grouped.setdefault((incident.root.rule, remedy.label), []).append((incident, remedy))
    rows = [LedgerRow(cause, label, tuple(found)) for (cause, label), found in grouped.items()]
    of_cause = Counter(row.cause for row in rows for _ in row.cases)

    def place(row: LedgerRow) -> tuple[int, str, int, int, str]:
        held, again = row.count(Outcome.RECOVERED), row.count(Outcome.RECURRED)
        return -of_cause[row.cause], row.cause, -held, again, row.label

    return sorted(rows, key=place)


def summary(remedies: Sequence[AppliedRemedy]) -> str:
    """Return one sentence about all that was tried after an incident, or "" if nothing was."""
    if not remedies:
        return ""
    held = [each for each in remedies if each.outcome is Outcome.RECOVERED]
    if held:
        return f"{_where(held[-1])} recovered: {_lower(held[-1].changed)}"
    running = [each for each in remedies if each.outcome is Outcome.TOO_EARLY]
    if running:
        return f"{_where(running[-1])}: {_lower(running[-1].text)}"
    count = len(remedies)
    return f"The problem recurred in {'the only attempt' if count == 1 else f'all {count} attempts'} since."


def changes_between(
    before: Attempt, after: Attempt, stretch: Stretch, checkpoints: Sequence[str] = ()
) -> tuple[SettingChange, ...]:
    """Return what differs in the configuration, and in the recorded learning rates.

    Recorded rates decide: a configured rate that was changed without effect is reported as such.
    """
    configured = setting_changes(before.setup, after.setup, (before.run_id, *checkpoints))
    recorded = _rate_changes(before, after, stretch)
    if recorded is None:
        return configured
    is_rate = [_kind(each.setting) in (LR, "warm-up") for each in configured]
    others = [each for each, rate in zip(configured, is_rate, strict=True) if not rate]
    named = [each for each, rate in zip(configured, is_rate, strict=True) if rate]
    if not named:
        return (*recorded, *others)
    if recorded:
        rest = recorded if all(_kind(each.setting) == LR for each in named) else ()
        return (*(rest or named), *others)
    # A longer warm-up changes no rate after it. A different rate should show.
    kept = [each if _kind(each.setting) != LR else _without_effect(each) for each in named]
    return (*kept, *others)


def setting_changes(before: Setup, after: Setup, about: Sequence[str] = ()) -> tuple[SettingChange, ...]:
    """Return what was changed, without settings that only say where to resume or to write.

    The code, the versions and the hardware count as one change each. Settings that contain one of ``about``,
    the ids and checkpoints of the run, say where to resume.
    """
    found: dict[str, SettingChange] = {}
    for each in differences(before, after):
        if each.category in _WHOLE:
            found.setdefault(each.category, _whole_change(each))
        elif not _says_where(each, about):
            known = _kind(each.name) or each.name
            found.setdefault(known, _setting_change(each.name, each.before, each.after))
    return tuple(found.values())


def _says_where(change: Change, about: Sequence[str]) -> bool:
    """Return whether a setting says where a training begins or writes, or is an argument without a name."""
    is_position = change.source == "command" and change.name.startswith("argument ")
    return is_position or _last(change.name) in _NOT_CHANGES or _names_any(change.after, about)


def says_it_continues(setup: Setup, notes: str, run_id: str, checkpoints: Iterable[str]) -> bool:
    """Return whether a run says that it continues another: it names its id or one of its checkpoints."""
    about = (run_id, *checkpoints)
    texts = [text for source in ("config", "command") for text in setup.get(source, {}).values()]
    return any(_names_any(text, about) for text in (*texts, notes))


def _names_any(text: str | None, about: Iterable[str]) -> bool:
    """Return whether a text contains one of these ids or paths as a whole."""
    if not text:
        return False
    words = {word.strip("'\"`,;()[]<>") for word in text.replace("=", " ").split()} | {text.strip("'\"")}
    parts = {part for word in words for part in PurePosixPath(word).parts}
    return any(each in words or ("/" not in each and each in parts) for each in about if each)


def _rate_changes(before: Attempt, after: Attempt, stretch: Stretch) -> tuple[SettingChange, ...] | None:
    """Return the learning rates that differ, where they differ most; None if they are unknown.

    From the onset to the end of the stretch, or at the last step that both trained before it: the onset may
    be a few steps before the change of the rate that caused it.
    """
    last = min(stretch.last, after.last_step, before.last_step)
    first = min(stretch.onset, last)
    old, new = before.rates, after.rates
    found: dict[str, SettingChange] = {}
    compared = False
    for name in sorted(old.keys() & new.keys()):
        steps = {first, last, *(at for at, _ in new[name].within(first, last))}
        pairs = [(old[name].at(at), new[name].at(at)) for at in sorted(steps)]
        known = [(one, other) for one, other in pairs if _is_finite(one) and _is_finite(other)]
        if not known:
            continue
        compared = True
        one, other = max(known, key=lambda pair: _apart(*pair))
        if _apart(one, other) > SAME:
            text = _numbers_text(LR, one, other)
            found.setdefault(text, _rate_change(one, other, text))
    return tuple(found.values()) if compared else None


def _is_finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _apart(one: float, other: float) -> float:
    """Return the difference of two values as a share of the larger one."""
    return abs(other - one) / (max(abs(one), abs(other)) or 1.0)


def _rate_change(before: float, after: float, text: str) -> SettingChange:
    direction = Direction.LOWERED if after < before else Direction.RAISED
    label = f"{LR} {direction}"
    return SettingChange(LR, f"{before:.4g}", f"{after:.4g}", direction, text, label, recorded=True)


def _without_effect(change: SettingChange) -> SettingChange:
    text = f"{change.text} in the configuration, but the recorded learning rate is the same"
    return replace(change, text=text, label=_WITHOUT_EFFECT)


def _whole_change(change: Change) -> SettingChange:
    """Return one change for everything of its category."""
    label = _WHOLE[change.category]
    return SettingChange(change.name, change.before, change.after, Direction.CHANGED, label, label)


def _setting_change(name: str, before: str | None, after: str | None) -> SettingChange:
    kind = _kind(name) or name[-LONGEST:]
    if before is None or after is None:
        direction = Direction.ADDED if before is None else Direction.REMOVED
        value = f" ({_short(after)})" if after is not None else ""
        text = f"{name[-LONGEST:]} {direction}{value}"
        return SettingChange(name, before, after, direction, text, f"{kind} {direction}")
    old, new = _number(before), _number(after)
    if old is None or new is None:
        text = f"{name[-LONGEST:]} changed from {_short(before)} to {_short(after)}"
        return SettingChange(name, before, after, Direction.CHANGED, text, f"{kind} changed")
    direction = Direction.LOWERED if new < old else Direction.RAISED
    label = f"{kind} {direction}"
    if kind == "warm-up":
        label = "warm-up shortened" if new < old else "warm-up lengthened"
    return SettingChange(name, before, after, direction, _numbers_text(name[-LONGEST:], old, new), label)


def _numbers_text(name: str, before: float, after: float) -> str:
    """Return "lr halved", "lr divided by 5" or "lr lowered from 0.3 to 0.2"."""
    lower = after < before
    small, large = sorted((abs(before), abs(after)))
    if small > 0 and (before > 0) == (after > 0):
        factor = large / small
        whole = round(factor)
        if 2 <= whole <= LARGEST_FACTOR and abs(factor - whole) <= SAME * whole:
            if whole == 2:
                return f"{name} {'halved' if lower else 'doubled'}"
            return f"{name} {'divided' if lower else 'multiplied'} by {whole}"
    return f"{name} {'lowered' if lower else 'raised'} from {before:.4g} to {after:.4g}"


def _outcome(incident: Incident, after: Attempt, stretch: Stretch) -> tuple[Outcome, int | None, str]:
    again = _onsets(incident, after, stretch)
    within = [step for step in again if step <= stretch.last]
    broken = _nonfinite_from(after, stretch)
    if broken is not None:
        within.append(broken)
    if within:
        return Outcome.RECURRED, min(within), f"Recurred at step {min(within)}."
    continued = after.run_id == incident.lead.run_id and any(
        after.is_continued(alert) for alert in incident.alerts if alert.severity is incident.severity
    )
    if continued and after.over and after.last_step >= stretch.onset:
        step = max(after.first_step, stretch.onset)
        return Outcome.RECURRED, step, "Recurred: the alert kept firing until the attempt ended."
    has_passed = after.last_step >= stretch.last or (after.finished and after.last_step > stretch.detected)
    if continued or not has_passed:
        return Outcome.TOO_EARLY, None, _too_early(after, stretch, continued=continued and has_passed)
    last = min(after.last_step, stretch.last)
    text = f"Recovered: no such alert from step {stretch.onset} to step {last}."
    if again:
        text = f"{text[:-1]}; a similar alert began later, at step {min(again)}."
    return Outcome.RECOVERED, None, text


def _too_early(after: Attempt, stretch: Stretch, *, continued: bool) -> str:
    if continued:
        return "Too early: the alert has not recovered yet."
    if after.over:
        return f"Too early: the attempt ended at step {after.last_step}, before step {stretch.last}."
    return f"Too early: the attempt is at step {after.last_step} and is compared up to step {stretch.last}."


def _onsets(incident: Incident, after: Attempt, stretch: Stretch) -> list[int]:
    """Return the onsets of alerts in ``after`` that are the same problem and last into the stretch."""
    is_own = after.run_id == incident.lead.run_id
    alerts = after.alerts if not is_own else [alert for alert in after.alerts if after.has(alert)]
    found = []
    for alert in alerts:
        if alert.fired_ns is None or alert.is_withdrawn or not _is_same_problem(incident, alert):
            continue
        is_earlier = alert.state is AlertState.RESOLVED and (alert.resolved_step or 0) < stretch.onset
        step = alert.onset_step if alert.onset_step is not None else alert.fired_step
        if step is not None and not is_earlier:
            found.append(max(step, after.first_step))
    return found


def _is_same_problem(incident: Incident, alert: Alert) -> bool:
    """Return whether an alert has the rule or the cause of the incident, or is as severe in its chain."""
    lead = incident.lead
    if alert.rule in (lead.rule, incident.root.rule) or cause_of(alert) == cause_of(lead) != "":
        return True
    chain = chain_of(lead.rule)
    return chain_of(alert.rule) == chain != "" and alert.severity.level >= incident.severity.level


def _nonfinite_from(after: Attempt, stretch: Stretch) -> int | None:
    """Return the step from which the loss is NaN or infinite up to the end of the stretch, or None."""
    points = reversed(after.loss.within(stretch.onset, stretch.last))
    broken = [int(step) for step, _ in takewhile(lambda point: not math.isfinite(point[1]), points)]
    return broken[-1] if len(broken) >= NONFINITE else None


def _with(changes: Sequence[SettingChange], before: Attempt, after: Attempt) -> str:
    if changes:
        texts = [each.text for each in changes[:MOST_CHANGES]]
        if len(changes) > MOST_CHANGES:
            texts.append(f"{len(changes) - MOST_CHANGES} more changes")
        return f"with {', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else f"with {texts[0]}"
    if _is_comparable(before, after):
        return "without a known change"
    return "(what changed is unknown)"


def _is_comparable(before: Attempt, after: Attempt) -> bool:
    """Return whether the configuration or a learning rate of both is known."""
    return bool(before.rates.keys() & after.rates.keys()) or (
        "config" in before.setup and "config" in after.setup
    )


def _label(changes: Sequence[SettingChange], before: Attempt, after: Attempt, starts_over: bool) -> str:
    if changes:
        return ", ".join(sorted({each.label for each in changes})[:FEW])
    how = "restarted" if starts_over else "resumed"
    return f"{how} unchanged" if _is_comparable(before, after) else f"{how}, change unknown"


def _where(remedy: AppliedRemedy) -> str:
    return f"Attempt {remedy.attempt} of {remedy.run_name}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _kind(name: str) -> str:
    return _KIND_OF.get(_last(name), "")


def _last(name: str) -> str:
    """Return the last part of a setting's path, in lower case."""
    return name.rpartition(".")[2].lstrip("-").lower().replace("-", "_")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
