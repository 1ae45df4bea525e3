"""One alert an episode for each rule and subject, however many ranks say the same."""

from __future__ import annotations

import msgspec

from tocsin_server.core.models import Diagnosis, Severity
from tocsin_server.detect.interface.rule import FIRING, PENDING, RECOVERING, RESOLVED, Verdict

_ORDER = {FIRING: 0, RECOVERING: 1, PENDING: 2}


class Subject(msgspec.Struct):
    """What the writers of a run say about one subject by one rule, and what was made of it."""

    rule: str
    name: str
    voices: dict[int, Verdict] = {}
    """The newest verdict of each writer that has an open episode."""
    said: Verdict | None = None
    """The joined verdict as last reported; None outside an episode."""
    told: Diagnosis | None = None
    """The diagnosis as last reported, to say it again when its cause changes; None outside an episode."""

    def hear(self, writer: int, verdict: Verdict) -> Verdict | None:
        """Takes one writer's verdict; the joined one where it says something new, else None."""
        if verdict.state == RESOLVED:
            self.voices.pop(writer, None)
        else:
            self.voices[writer] = verdict
        return self._joined(verdict)

    def hand_on(self, heir: int, from_writers: set[int]) -> int | None:
        """The episode of earlier writers goes on with ``heir``; the writer whose it was, None if none."""
        mine = {writer: voice for writer, voice in self.voices.items() if writer in from_writers}
        if not mine:
            return None
        gravest = min(mine, key=lambda writer: _gravity(mine[writer]))
        self.voices = {writer: voice for writer, voice in self.voices.items() if writer not in mine}
        self.voices[heir] = mine[gravest]
        return gravest

    def _joined(self, latest: Verdict) -> Verdict | None:
        before = self.said
        if not self.voices:
            self.said = None
            if before is None:
                return None
            return msgspec.structs.replace(
                before, state=RESOLVED, row=latest.row, step=latest.step, time_ns=latest.time_ns,
                summary=latest.summary, evidence=latest.evidence,
            )  # fmt: skip
        leading = min(self.voices.values(), key=_gravity)
        joined = msgspec.structs.replace(
            leading,
            row=latest.row,
            step=latest.step,
            time_ns=latest.time_ns,
            onset_step=min(voice.onset_step for voice in self.voices.values()),
            onset_ns=min(voice.onset_ns for voice in self.voices.values()),
        )
        if before is not None and before.state != PENDING:
            joined.severity = max(joined.severity, before.severity)
            joined.onset_step = min(joined.onset_step, before.onset_step)
            joined.onset_ns = min(joined.onset_ns, before.onset_ns)
        self.said = joined
        return joined if before is None or _differs(before, joined) else None


def _gravity(verdict: Verdict) -> tuple[int, int, int, int]:
    return _ORDER[verdict.state], -verdict.severity, -verdict.level, verdict.onset_step


def _differs(before: Verdict, after: Verdict) -> bool:
    return (
        before.state != after.state
        or before.severity != after.severity
        or before.level != after.level
        or before.kind != after.kind
    )


def severity_of(verdict: Verdict) -> Severity:
    """The verdict's severity in the domain's words."""
    return tuple(Severity)[verdict.severity]
