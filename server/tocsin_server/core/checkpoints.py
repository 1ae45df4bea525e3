"""The checkpoints of a run, and the last one that is good to resume from. Pure functions.

Nothing is read from a checkpoint. Whether its weights are good is concluded from the steps before and after
it, which are known anyway.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tocsin_server.core.causal_order import chain_of
from tocsin_server.core.models import Alert, AlertState, Severity

SAVED, REMOVED, MOVED = KINDS = ("checkpoint", "checkpoint-removed", "checkpoint-moved")
"""Kinds of events about checkpoints."""
LONGEST_PATH = 1024
LONGEST_NAME = 80
BY_LONGEST = 64
WEIGHTS = "nonfinite-weights"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_LOADED_BY = {
    "torch.save": 'checkpoint = torch.load({path}, map_location="cpu")',
    "safetensors": "state = safetensors.torch.load_file({path})",
    "lightning": "trainer.fit(model, ckpt_path={path})",
    "torch.distributed.checkpoint": "torch.distributed.checkpoint.load(state, checkpoint_id={path})",
    "transformers.Trainer": "trainer.train(resume_from_checkpoint={path})",
    "accelerate.save_state": "accelerator.load_state({path})",
    "accelerate.save_model": "accelerate.load_checkpoint_in_model(model, {path})",
    "save_pretrained": "model = type(model).from_pretrained({path})",
    "deepspeed": "engine.load_checkpoint({folder}, tag={name})",
}
"""The counterpart of each function that saves (``Checkpoint.by``)."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that exists as far as the training process knows."""

    path: str
    step: int
    """The newest step whose update it contains."""
    time_ns: int = 0
    size: int | None = None
    """Bytes, if known."""
    complete: bool | None = None
    """Whether it was written without an error; None if the script reported it itself as an event."""
    holds: tuple[str, ...] = ()
    """``model`` and ``optimizer``, as far as known."""
    by: str = ""
    """The function that saved it."""
    attempt: int = 0
    rank: int = 0
    escaped: bool = False
    """Whether control characters of the path are written as escapes."""
    cut: bool = False
    """Whether the path was too long, so that its middle is missing."""

    @property
    def name(self) -> str:
        """The name of the file or directory, shortened for a sentence."""
        name = self.path.rstrip("/").rpartition("/")[2] or "the checkpoint"
        return name if len(name) <= LONGEST_NAME else f"{name[:40]}…{name[-30:]}"

    @property
    def resume_code(self) -> str:
        """The line that loads it with the library that saved it, or its path if that is not known."""
        folder, _, name = self.path.rstrip("/").rpartition("/")
        line = _LOADED_BY.get(self.by, "")
        if not line or self.escaped or self.cut:
            return self.path
        return line.format(path=_quoted(self.path), folder=_quoted(folder), name=_quoted(name))

    def plain(self) -> dict[str, Any]:
        """Return it as plain data for a snapshot; see ``from_plain``."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint of a snapshot."""
        known = {name: data[name] for name in cls.__slots__ if name in data}
        return cls(**{**known, "holds": tuple(known.get("holds", ()))})


def _quoted(text: str) -> str:
    """Return text as a Python string."""
    return json.dumps(text, ensure_ascii=False)


def after_event(
    known: Sequence[Checkpoint],
    kind: str,
    step: int | None,
    data: Mapping[str, Any],
    *,
    most: int,
    time_ns: int = 0,
    attempt: int = 0,
    rank: int = 0,
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints after an event: a path that is saved again replaces its older checkpoint.

    Args:
        known: The checkpoints before, oldest first.
        kind: One of ``KINDS``.
        step: Step of the event, or None.
        data: Data of the event. It may be anything.
        most: Maximum number of checkpoints; the oldest are dropped.
        time_ns: Time of the event.
        attempt: Attempt of the process that sent it.
        rank: Rank of that process.
    """
    path = _path(data)
    if kind == REMOVED:
        return tuple(each for each in known if each.path != path)
    gone = {path} | ({_text(data["from"])} if kind == MOVED and "from" in data else set())
    others = tuple(each for each in known if each.path not in gone)
    if step is None:
        return others if kind == MOVED else tuple(known)
    before = next((each for each in known if each.path in gone and each.step == step), None)
    complete, size, holds = data.get("complete"), data.get("size"), data.get("holds")
    saved = Checkpoint(
        path=path,
        step=step,
        time_ns=time_ns,
        size=size if isinstance(size, int) and 0 <= size < 1 << 63 else None,
        complete=complete if isinstance(complete, bool) else None,
        holds=tuple(name for name in ("model", "optimizer") if isinstance(holds, list) and name in holds),
        by=str(data.get("by") or "")[:BY_LONGEST],
        attempt=attempt,
        rank=rank,
        escaped=data.get("escaped") is True,
        cut=data.get("cut") is True or len(_text(data.get("path", ""))) > LONGEST_PATH,
    )
    if before is not None and before.complete is not False and before.attempt == attempt:
        saved = replace(saved, time_ns=before.time_ns)  # the size of a directory, or a new name
    return (*others, saved)[-most:]


def _path(data: Mapping[str, Any]) -> str:
    return _text(data.get("path", ""))[:LONGEST_PATH]


def _text(value: Any) -> str:
    """Return text of a script without control characters."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", str(value))


class Trouble(NamedTuple):
    """A stretch of time in which a run was not healthy; ``end_ns`` is None if it still is not."""

    rule: str
    onset_step: int
    onset_ns: int
    end_ns: int | None


def troubles_of(alerts: Iterable[Alert]) -> list[Trouble]:
    """Return when a run was not healthy: its critical alerts about the training itself, oldest first.

    Alerts about the process, the throughput or the progress, and alerts of custom rules, say nothing about
    the weights.
    """
    found = [
        Trouble(alert.rule, alert.onset_step, alert.onset_ns, _end_of(alert))
        for alert in alerts
        if alert.severity is Severity.CRITICAL and alert.onset_step is not None
        if chain_of(alert.rule) == "training" and not alert.is_withdrawn
        if alert.state is not AlertState.PENDING
    ]
    return sorted(found, key=lambda trouble: (trouble.onset_ns, trouble.onset_step, trouble.rule))


def _end_of(alert: Alert) -> int | None:
    return (alert.resolved_ns or alert.updated_ns) if alert.is_over else None


@dataclass(frozen=True, slots=True)
class LastGood:
    """The newest checkpoint from which a run can resume, or None, and a sentence about it."""

    checkpoint: Checkpoint | None
    text: str
    rejected: tuple[tuple[Checkpoint, str], ...] = field(default=())
    """Newer checkpoints and why they are not good, newest first."""

    def resume(self) -> dict[str, Any]:
        """Return where to resume, as the API and webhooks show it; path and step are None if unknown."""
        found = self.checkpoint
        where = {"path": None, "step": None} if found is None else {"path": found.path, "step": found.step}
        return where | {"text": self.text}


def problem_of(checkpoint: Checkpoint, onset_step: int | None, troubles: Iterable[Trouble] = ()) -> str:
    """Return why a checkpoint is not good to resume from, or "" if it is good.

    It is good if it was written completely, before the onset, and while the run was healthy. At least one
    step must lie between it and an onset: that step was computed with its weights, and was healthy.

    Args:
        checkpoint: The checkpoint.
        onset_step: The step at which a problem began, or None.
        troubles: When the run was not healthy.
    """
    if checkpoint.complete is False:
        return "was not written completely"
    if checkpoint.holds == ("optimizer",):
        return "holds no model"
    if checkpoint.cut:
        return "has no complete path"
    within = [trouble for trouble in troubles if _is_during(checkpoint, trouble)]
    if any(each.rule == WEIGHTS and each.onset_step <= checkpoint.step for each in within):
        return "holds NaN weights"
    if within and min(each.onset_step for each in within) <= checkpoint.step:
        return "was written after the onset"
    onsets = [each.onset_step for each in within] + ([] if onset_step is None else [onset_step])
    if onsets and checkpoint.step >= (first := min(onsets)) - 1:
        return "was written after the onset" if checkpoint.step >= first else "is followed by no healthy step"
    return ""


def _is_during(checkpoint: Checkpoint, trouble: Trouble) -> bool:
    """Return whether it was written while the run was not healthy, or in the step before."""
    if trouble.end_ns is not None and checkpoint.time_ns >= trouble.end_ns:
        return False
    return checkpoint.time_ns >= trouble.onset_ns or checkpoint.step == trouble.onset_step - 1


def last_good_checkpoint(
    checkpoints: Sequence[Checkpoint], onset_step: int | None = None, troubles: Sequence[Trouble] = ()
) -> LastGood:
    """Return the newest good checkpoint, with a sentence that says only what is known.

    Args:
        checkpoints: Those that still exist, oldest first.
        onset_step: Only checkpoints before this step; None: the last time that the run was healthy.
        troubles: When the run was not healthy.
    """
    rejected: list[tuple[Checkpoint, str]] = []
    for found in reversed(checkpoints):
        if problem := problem_of(found, onset_step, troubles):
            rejected.append((found, problem))
            continue
        best = _best_of_step(found, checkpoints, onset_step, troubles)
        limit = "the onset"
        if onset_step is None:
            onset_step = _next_onset(best, troubles)
            limit = f"the problem at step {onset_step}"
        return LastGood(best, _sentence(best, onset_step, limit, rejected), tuple(rejected))
    newest = f": {rejected[0][0].name} {rejected[0][1]}" if rejected else ""
    return LastGood(None, f"No good checkpoint is known{newest}.", tuple(rejected))


def _best_of_step(
    found: Checkpoint,
    checkpoints: Iterable[Checkpoint],
    onset_step: int | None,
    troubles: Sequence[Trouble],
) -> Checkpoint:
    """Return the most complete checkpoint of the same step: with the optimizer, then the largest."""
    same = [
        each
        for each in checkpoints
        if (each.attempt, each.step) == (found.attempt, found.step)
        and not problem_of(each, onset_step, troubles)
    ]
    return max(same, key=lambda each: (len(each.holds), each.size or 0, each.path == found.path))


def _next_onset(checkpoint: Checkpoint, troubles: Iterable[Trouble]) -> int | None:
    later = [each.onset_step for each in troubles if each.onset_ns > checkpoint.time_ns]
    return min((step for step in later if step > checkpoint.step), default=None)


def _sentence(
    checkpoint: Checkpoint, onset: int | None, limit: str, rejected: Sequence[tuple[Checkpoint, str]]
) -> str:
    parts = [f"step {checkpoint.step}"]
    if onset is not None:
        before = onset - checkpoint.step
        parts.append(f"{before} step{'' if before == 1 else 's'} before {limit}")
    if checkpoint.time_ns:
        parts.append(time.strftime("%H:%M UTC", time.gmtime(checkpoint.time_ns // 10**9)))
    text = f"{checkpoint.name} ({', '.join(parts)})"
    if rejected and onset is not None:
        newest, problem = rejected[0]
        written = "" if problem.startswith("was written") else "was written after it and "
        text += f"; {newest.name} {written}{problem}"
    return f"{text}."
