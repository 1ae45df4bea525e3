"""Hugging Face Trainer: an output folder with ``checkpoint-*/trainer_state.json`` is one run.

Each checkpoint has the whole history up to its step, so the newest one is read. What the trainer logged
after it is only in the TensorBoard files below ``runs``, if there are any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .. import Log, UnreadableLogError, open_log, opened
from ..items import About, Parsed, Row
from ..source import BROKEN, TrackedRun, UnreadableSource
from ..tracker import Claim, Folder, Found, Tracker
from .tensorboard import events_of, is_event_file

STATE, RUNS = "trainer_state.json", "runs"
HEAD_BYTES = 64 << 10
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,18})")
_STEP = re.compile(rb'"global_step"\s*:\s*(\d{1,18})')


def _find(folder: Folder) -> Claim | None:
    numbered = {name: int(found[1]) for name in folder.folders if (found := _CHECKPOINT.fullmatch(name))}
    saved = [(step, folder.path / name / STATE) for name, step in numbered.items()]
    saved = [(step, path) for step, path in saved if path.is_file()]
    if not saved:
        return None
    saved += [(_step_of(path), path) for path in folder.named(STATE)]
    runs: list[Found] = []
    for _, path in sorted(saved, reverse=True):
        try:
            log = open_log(path)
        except UnreadableLogError as error:
            runs.append(UnreadableSource(path, str(error).removeprefix(f"{path}: ")))
            continue
        runs.append(_run(folder.path, log))
        break
    return Claim(runs, {*numbered, STATE, RUNS})


def _run(folder: Path, log: Log) -> TrackedRun:
    events = sorted(path for path in (folder / RUNS).glob("*/*") if is_event_file(path.name))

    def read() -> Iterator[Parsed]:
        last = -1.0
        for item in log.rows():
            if isinstance(item, Row) and item.step is not None:
                last = max(last, item.step)
            yield item
        later = (row for row in events_of(events) if isinstance(row, Row))
        yield from (row for row in later if row.step is not None and row.step > last)

    return TrackedRun(folder, log.kind, About(), read, log.planned_steps)


def _step_of(path: Path) -> int:
    """Return the step at which a state was saved; 0 if it is unknown."""
    try:
        with opened(path) as file:
            found = _STEP.search(file.read(HEAD_BYTES))
    except BROKEN:
        return 0
    return int(found[1]) if found else 0


TRACKER = Tracker("Hugging Face", 5, _find)
