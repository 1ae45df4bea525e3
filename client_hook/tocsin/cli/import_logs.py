"""``tocsin import``: import past runs from logs, from the folders and databases of trackers, and from W&B.

Each run of a source is one writer whose records keep their numbers, so the server has each record once, and
only new ones are sent the next time. Imported runs are marked in ``hello.config`` and by an ``imported``
event, so that no notifications are sent.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..core.handshake import RunInfo
from ..core.identity import Identity
from ..core.run_fields import host_of
from ..core.severity import SEVERITIES, level_of
from ..core.values import counted
from ..importers import Source, UnreadableLogError, UnreadableSource
from ..importers.folder import name_in, runs_in
from ..importers.items import Item
from ..importers.wandb_cloud import Address, runs_at
from ..protocol import Alert, WriterId
from ..read.text import shown
from .import_marks import Mark, Marks
from .log_run import WAIT_S, Destination, LogRun, NotDeliveredError

MOST_SENT = 8
"""Maximum number of runs that are sent and whose last acknowledgement is awaited."""
LAST_S = 3.0
"""After Ctrl-C, time in which the server may acknowledge the runs that were sent."""
MOST_LISTED = 20
"""Maximum number of runs that the summary names."""


@dataclass(frozen=True)
class Outcome:
    """Result for one run. ``delivered`` is None if it has no records."""

    path: Path
    delivered: bool | None
    text: str
    run: str = ""
    url: str = ""
    """Address of the run's page."""
    name: str = ""
    new: int = 0
    """Number of records that the server did not have."""
    is_refused: bool = False
    """Whether the server was the reason, not the log."""
    alerts: tuple[Alert, ...] = ()
    """What the rules found in the new records, the most severe first."""


def import_runs(
    root: Path | Address,
    destination: Destination,
    project: str | None = None,
    advance: Callable[[int], object] = lambda _records: None,
    skipped: list[Path] | None = None,
) -> Iterator[Outcome]:
    """Import a file, or every run in a folder or a project of W&B; yield one result for each.

    If the server takes nothing of the first run, the others are not tried.

    Args:
        root: The file, the folder that is searched, or the address at W&B.
        destination: The server, and time limits.
        project: Project of the runs; default: the tracker's, else the folder's name.
        advance: Called with the number of records read since the last call.
        skipped: Receives the files of a folder that are not training logs.
    """
    importer, seen = _Importer(root, destination, project, advance), dict[str, Path]()
    for outcome in importer.outcomes(runs_at(root) if isinstance(root, Address) else runs_in(root, skipped)):
        first = seen.setdefault(outcome.run or str(outcome.path), outcome.path)
        if outcome.delivered and first != outcome.path and not outcome.new:
            outcome = replace(outcome, text=f"{outcome.path}: the same run as {first}, already imported")
        yield outcome


@dataclass
class _Sent:
    """A run that was read to its end, and is acknowledged by the server later."""

    source: Source
    id: str
    name: str
    run: LogRun

    @property
    def is_done(self) -> bool:
        """Whether ``outcome`` does not wait."""
        return self.run.is_closed

    def outcome(self) -> Outcome:
        """Wait for the server, and return the result."""
        source, run = self.source, self.run
        try:
            run.finish_close()
        except NotDeliveredError as error:
            return _failed(source, error)
        if not run.records:
            return Outcome(source.path, None, f"{source.path}: {source.kind}, no records found")
        found = tuple(sorted(run.alerts.values(), key=_urgency))
        url = f"{run.address}/runs/{quote(self.id, safe='')}"
        text = _described(source, run, self.id)
        return Outcome(source.path, True, text, self.id, url, self.name, run.new, alerts=found)


@dataclass
class _Failed:
    """A run that was not sent."""

    result: Outcome
    id = ""
    is_done = True

    def outcome(self) -> Outcome:
        """Return the result."""
        return self.result


class _Importer:
    """Import runs in order. While the server stores some of them, the next ones are read and sent."""

    def __init__(
        self,
        root: Path | Address,
        destination: Destination,
        project: str | None,
        advance: Callable[[int], object],
    ) -> None:
        self._root = root
        self._destination = destination
        self._project = project
        self._advance = advance
        self._marks = Marks()
        self._sent = deque[_Sent | _Failed]()
        self._has_delivered = self._is_refused = False

    def outcomes(self, sources: Iterable[Source | UnreadableSource]) -> Iterator[Outcome]:
        """Yield a result for each source; after Ctrl-C, for those that were sent, if it comes soon."""
        try:
            yield from self._outcomes(sources)
        except KeyboardInterrupt:
            give_up_at = time.monotonic() + LAST_S
            for sent in self._sent:
                while not sent.is_done and time.monotonic() < give_up_at:
                    time.sleep(WAIT_S)
                if sent.is_done:
                    yield sent.outcome()
            raise

    def _outcomes(self, sources: Iterable[Source | UnreadableSource]) -> Iterator[Outcome]:
        for source in sources:
            if isinstance(source, UnreadableSource):
                self._sent.append(_Failed(Outcome(source.path, False, f"{source.path}: {source.why}")))
            else:
                try:
                    mark = self._marks.identify(source)
                except OSError as error:
                    why = f"{source.path}: {error.strerror or error}"
                    self._sent.append(_Failed(Outcome(source.path, False, why)))
                else:
                    while any(sent.id == mark.run for sent in self._sent):  # a copy: one writer at a time
                        yield self._next()
                    self._sent.append(self._send(source, mark))
            while self._sent and (self._sent[0].is_done or len(self._sent) >= self._most):
                yield self._next()
            if self._is_refused and not self._has_delivered:
                return
        while self._sent:
            yield self._next()

    @property
    def _most(self) -> int:
        return MOST_SENT if self._has_delivered else 1

    def _next(self) -> Outcome:
        """Wait for the result of the first run that has none."""
        outcome = self._sent[0].outcome()
        self._sent.popleft()
        self._has_delivered = self._has_delivered or bool(outcome.delivered)
        self._is_refused = outcome.is_refused
        return outcome

    def _send(self, source: Source, mark: Mark) -> _Sent | _Failed:
        """Send all records of a run, without waiting for the last acknowledgements."""
        name, default = _named(self._root, source)
        path, destination = source.path, self._destination
        data = {"imported": True, "path": str(path), "format": source.kind}
        config = {**source.about.config, **data}
        run_info = _run_info(mark.run, name, self._project or default, source, destination.token, config)
        run = LogRun(run_info, destination, {"kind": "imported", "data": data}, wait=True)
        began = source.about.began_ns or path.stat().st_mtime_ns
        self._marks.keep(source, mark)  # before the first record: an interrupted import is continued
        try:
            run.take(_counted(source.items(), self._advance), lambda: began)
        except (UnreadableLogError, NotDeliveredError) as error:
            return _Failed(_failed(source, error))
        run.begin_close(source.about.error)
        return _Sent(source, mark.run, name, run)


def _failed(source: Source, error: UnreadableLogError | NotDeliveredError) -> Outcome:
    why = str(error).removeprefix(f"{source.path}: ")
    is_refused = isinstance(error, NotDeliveredError)
    return Outcome(source.path, False, f"{source.path}: {why}", is_refused=is_refused)


def _named(root: Path | Address, source: Source) -> tuple[str, str]:
    """Return name and project of a run: the tracker's, else those of its path."""
    name, project = source.about.name, source.about.project
    if isinstance(root, Address):
        return name, project
    folder = (root if root.is_dir() else root.resolve().parent).resolve()
    return name or name_in(root, source.path), project or folder.name or "imported"


def _urgency(alert: Alert) -> tuple[int, int]:
    """Order alerts by severity, then by onset."""
    return level_of(alert.severity), alert.onset_step or 0


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return lines that say how many runs were imported and what is wrong with them.

    A run without new records was judged when it was imported.
    """
    runs = [one for one in outcomes if one.delivered]
    if not runs:
        return []
    new = [one for one in runs if one.new]
    sick = [one for one in new if any(alert.severity != SEVERITIES[-1] for alert in one.alerts)]
    before = len(runs) - len(new)
    known = f", {before} already imported" if before else ""
    if not sick:
        found = ", no new problems found" if before else ", no problems found"
        return [f"{counted(len(runs), 'run')}{known}" + (found if new else "")]
    lines = [f"{counted(len(runs), 'run')}{known}, {len(sick)} with problems:"]
    for one in sorted(sick, key=lambda one: _urgency(one.alerts[0]))[:MOST_LISTED]:
        worst = one.alerts[0]
        more = f", and {counted(len(one.alerts) - 1, 'other alert')}" if len(one.alerts) > 1 else ""
        step = f" (step {worst.onset_step})" if worst.onset_step is not None else ""
        step = "" if f"step {worst.onset_step}" in worst.summary else step
        lines.append(f"  {shown(one.name)}: {shown(worst.summary)}{step}{more}: {one.url}")
    if len(sick) > MOST_LISTED:
        lines.append(f"  and {counted(len(sick) - MOST_LISTED, 'other run')}")
    return lines


def _counted(items: Iterator[Item], advance: Callable[[int], object]) -> Iterator[Item]:
    for item in items:
        yield item
        advance(1)


def _described(source: Source, run: LogRun, run_id: str) -> str:
    """Return what was imported, and what was not."""
    counts = source.counts
    if not run.new:
        what = "already imported"
    elif run.new < run.records:
        what = f"{counted(run.new, 'new record')}"
    else:
        what = counted(run.records, "record")
    left = f", {counted(run.other_ranks, 'record')} of other ranks skipped" if run.other_ranks else ""
    if counts.unread:
        first = counts.first_unread[0]
        left += (
            f", {counted(counts.unread, 'line')} could not be read (first: line {first.line}, {first.why})"
        )
    left += f", stopped early: {source.broken}" if source.broken else ""
    return f"{source.path}: {source.kind}, {what}{left}, run {run_id}"


def _run_info(
    run_id: str, name: str, project: str, source: Source, token: str, config: dict[str, Any]
) -> Callable[[int], RunInfo]:
    def of(attempt: int) -> RunInfo:
        return RunInfo(
            project=project,
            name=name,
            identity=identity_of(run_id, attempt),
            token=token,
            config=config,
            tags=["imported", *source.about.tags],
            notes=source.about.notes,
            planned_steps=source.planned_steps,
            wants=["alerts"],
        )

    return of


def identity_of(run_id: str, attempt: int) -> Identity:
    """Return the identity of an attempt of an imported run, which is always the same."""
    writer = WriterId(f"import:{run_id}:{attempt}", 0, "import", 0, attempt)
    return Identity(
        run=run_id, writer=writer, world_size=1, host=host_of(), launch=f"import:{run_id}",
        restarts=attempt, rendezvous="",
    )  # fmt: skip
