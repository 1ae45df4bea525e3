"""Hold the runs in memory: active ones with rules and alerts, and the summaries of the others.

Memory is bounded: at most ``settings.fleet_runs`` summaries are kept. Above that, the oldest ended runs are
dropped and read from the store on request. Active runs are never dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from tocsin_server.core.models import Alert, AlertState, RunState
from tocsin_server.core.settings import Settings
from tocsin_server.core.shared_incidents import MOST as MOST_OPENINGS
from tocsin_server.core.shared_incidents import WINDOW_NS, SharedIncidents, SharingRun
from tocsin_server.detect.engine.engine import EngineStateError
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.runs.active_run import ActiveRun, pages
from tocsin_server.runs.alert_state import Join, RunAlerts
from tocsin_server.runs.evaluators import Evaluator, LocalEvaluator, engine_of
from tocsin_server.runs.loop_guard import LoopGuard
from tocsin_server.runs.recent_buffer import Recent
from tocsin_server.runs.rule_process import RemoteEvaluator, RuleProcess
from tocsin_server.runs.rule_processes import RuleProcesses
from tocsin_server.runs.run_summary import RunMetadata, RunSummary
from tocsin_server.runs.turns import Waiting
from tocsin_server.store.edits import edits_of
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import Recovery, StoredRun

log = logging.getLogger("tocsin.registry")

REPLAYED_RECORDS = 500_000
"""Maximum number of records that a restart replays if the saved rule state cannot be read."""
LOADED_AT_ONCE = 2
"""Runs that are loaded at the same time. One with a long replay does not hold up the others; more threads
would only compete with the event loop and the writer for the global interpreter lock (measured)."""
MOST_ALERTS = 100_000
BACK_NS = 30_000_000_000


def metadata_of(stored: StoredRun) -> RunMetadata:
    """Return the metadata of a stored run."""
    newest = max((attempt.attempt for attempt in stored.attempts_list), default=stored.attempts)
    return RunMetadata(
        id=stored.id,
        project=stored.project,
        name=stored.name,
        state=stored.state,
        attempt=newest,
        attempts=stored.attempts,
        tags=tuple(stored.tags),
        host=stored.host,
        archived=stored.archived,
        created_ns=stored.created_ns,
        last_seen_ns=stored.last_seen_ns,
        ended_ns=stored.ended_ns,
        error=stored.error,
        planned_steps=stored.planned_steps,
        edited=edits_of(stored.environment),
        deletion_ns=stored.deletion_ns,
    )


def context_of(stored: StoredRun) -> RunContext:
    """Return the context that the rules get about a run."""
    return RunContext.from_environment(
        stored.id, stored.project, stored.world_size, stored.planned_steps, stored.environment or {}
    )


def restore_run(
    stored: StoredRun,
    evaluator: Evaluator,
    recovery: Recovery,
    settings: Settings,
    now_ns: int,
    join: Join | None = None,
    waiting: Waiting | None = None,
) -> ActiveRun:
    """Restore a run: load its saved state, and replay what was stored after it."""
    summary_upto, summary = _summary_of(stored)
    run = ActiveRun(
        summary,
        evaluator,
        RunAlerts.restore(stored.id, recovery.alerts, join),
        Recent(settings.live_kept_bytes, recovery.last_arrival),
        arrival=recovery.last_arrival,
        now_ns=now_ns,
        waiting=waiting,
    )
    if summary_upto >= 0:
        _restore_pulse(run, stored)
    if stored.state is RunState.FAILED:
        run.rests_until_ns = rests_until(stored, settings, now_ns)
    run.series.update(recovery.series)
    run.replay(recovery.replay, summary_upto=summary_upto)
    return run


def _restore_pulse(run: ActiveRun, stored: StoredRun) -> None:
    try:
        run.heartbeat.restore(stored.summary.get("heartbeat") or {})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        log.warning("The throughput of run %s cannot be read and starts empty: %r", stored.id, error)


def rests_until(stored: StoredRun, settings: Settings, now_ns: int) -> int:
    """Return until when the alerts of a failed run stay open for another attempt.

    An attempt that began while the server was down has :data:`BACK_NS` to connect.
    """
    grace_ns = int(settings.restart_grace_s * 1e9)
    ended_ns = min(stored.ended_ns or 0, now_ns)  # the clock may have been set back since
    return max(ended_ns + grace_ns, now_ns + min(BACK_NS, grace_ns))


Rules = TypeVar("Rules")
Begin = Callable[[RunContext, bytes | None], Rules]
"""Returns the rules of a run from its saved state, if there is one. Raises EngineStateError."""


def load_engine(
    reader: StoreReader,
    stored: StoredRun,
    begin: Begin[Rules] = engine_of,  # type: ignore[assignment]
) -> tuple[Rules, Recovery]:
    """Return the saved rules and what was stored after them.

    If another version saved the rules, they start empty: all records are replayed if there are at most
    :data:`REPLAYED_RECORDS`, else only the last ones.
    """
    context, recovery = context_of(stored), reader.recovery(stored.id)
    if recovery.rule_state is None:
        return begin(context, None), recovery
    try:
        return begin(context, recovery.rule_state.body), recovery
    except EngineStateError as error:
        log.warning(
            "The saved rule state of run %s cannot be read, so its records are evaluated again: %s",
            stored.id,
            error,
        )
    counted = reader.run(stored.id)
    if counted is not None and sum(writer.records for writer in counted.writers) <= REPLAYED_RECORDS:
        recovery = reader.recovery(stored.id, from_start=True)
    return begin(context, None), recovery


@contextmanager
def closed_on_error(evaluator: Evaluator) -> Iterator[None]:
    """Drop the rules of a run that cannot be loaded completely."""
    try:
        yield
    except BaseException:
        evaluator.close()
        raise


def _beginning(process: RuleProcess | None, barred: Collection[str], guard: LoopGuard) -> Begin[Evaluator]:
    """Return what loads rules, except ``barred``, into a rule process, or into this process if None."""
    if process is None:
        return lambda context, state: LocalEvaluator(engine_of(context, state, barred), guard)
    return partial(RemoteEvaluator.loaded, process, barred)


def _summary_of(stored: StoredRun) -> tuple[int, RunSummary]:
    """Return the saved summary and the arrival number that it covers (-1 if there is none)."""
    metadata = metadata_of(stored)
    try:
        return (int(stored.summary["arrival"]) if stored.summary else -1), RunSummary.restore(
            metadata, stored.summary
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        log.warning("The row of run %s cannot be read and starts empty: %r", stored.id, error)
        return -1, RunSummary(metadata)


def sharing(run: StoredRun) -> SharingRun:
    """Return what is compared about a run to decide whether it failed together with another one."""
    return SharingRun(run.project, run.host, run.created_ns)


class RunRegistry:
    """The active runs by id, and the summaries of all runs in the live fleet."""

    def __init__(
        self,
        settings: Settings,
        reader: StoreReader,
        work: PeriodicJob | None = None,
        processes: RuleProcesses | None = None,
    ) -> None:
        self.processes = processes or RuleProcesses(0)
        self.guard = LoopGuard()
        self._work = work or PeriodicJob("restoring runs")
        self.active: dict[str, ActiveRun] = {}
        self.waiting = Waiting()
        self._summaries: dict[str, RunSummary] = {}
        self._settings = settings
        self._reader = reader
        self._drop_listeners: list[set[str]] = []
        self._incidents = SharedIncidents()
        self._loading = asyncio.Semaphore(LOADED_AT_ONCE)

    @contextmanager
    def tracking_drops(self) -> Iterator[set[str]]:
        """Collect the runs that are dropped within this context; data read of one before it was dropped is
        stale.

        Reading from the store takes time. Without this check, a run deleted meanwhile would return to memory.
        """
        dropped: set[str] = set()
        self._drop_listeners.append(dropped)
        try:
            yield dropped
        finally:
            self._drop_listeners = [other for other in self._drop_listeners if other is not dropped]

    async def seed(self) -> list[str]:
        """Create the summaries of the newest runs; return the runs to restore, most recently seen first.

        A summary shows what was saved of a run. Its rules and alerts are restored by :meth:`load`.
        """
        summaries = await asyncio.to_thread(self._seeds)
        self._summaries = {summary.metadata.id: summary for summary in summaries} | self._summaries
        for run, alerts in await asyncio.to_thread(self._lately_failed):
            self._incidents.restore(alerts, run)
        return await asyncio.to_thread(self._to_restore)

    def _lately_failed(self) -> list[tuple[SharingRun, list[Alert]]]:
        """Return the runs that other ones may have failed together with, and their alerts."""
        found: dict[str, list[Alert]] = {}
        for stored in self._reader.alerts_since(time.time_ns() - WINDOW_NS, MOST_OPENINGS):
            found.setdefault(stored.alert.run_id, []).append(stored.alert)
        runs = {run.id: run for run in self._reader.runs() if run.id in found}
        return [(sharing(runs[name]), alerts) for name, alerts in found.items() if name in runs]

    def _to_restore(self) -> list[str]:
        found = [*self._reader.active_runs(), *self._reader.unsettled_runs()]
        # No client of an imported run will connect here, so its loss raises no alert.
        gone = (RunState.LOST, RunState.FAILED)
        mine = [one for one in found if not (one.state in gone and "imported" in (one.environment or {}))]
        mine.sort(key=lambda stored: stored.last_seen_ns or 0, reverse=True)
        return list(dict.fromkeys(stored.id for stored in mine))

    def _seeds(self) -> list[RunSummary]:
        newest = self._reader.runs()  # newest first
        return self._summarized(newest[: self._settings.fleet_runs], self._open_alerts())

    def _summarized(self, runs: Iterable[StoredRun], opened: Mapping[str, list[Alert]]) -> list[RunSummary]:
        summaries = []
        for stored in runs:
            with self._work.isolated(f"run {stored.id}"):
                summaries.append(_summary_of(stored)[1])
        self._complete(summaries, opened)
        return summaries

    def _complete(self, summaries: Sequence[RunSummary], opened: Mapping[str, list[Alert]]) -> None:
        """Add to stored summaries what changes after a run left memory: its alerts and acknowledgements."""
        for summary in summaries:
            summary.open_alerts = tuple(opened.get(summary.metadata.id, ()))
        wanted = {name for summary in summaries for name in summary.acknowledgeable}
        acknowledged = self._reader.acknowledged(wanted)
        for summary in summaries:
            summary.acked = acknowledged & summary.acknowledgeable

    def acknowledge(self, alert_id: str, *, undone: bool) -> RunSummary | None:
        """Note an acknowledgement or its withdrawal; return the summary whose row it changed, if any."""
        summary = self._summaries.get(alert_id.rsplit(".", 2)[0])
        if summary is None:
            return None
        summary.acked.discard(alert_id) if undone else summary.acked.add(alert_id)
        return summary if alert_id in summary.ended_with else None

    def _open_alerts(self, run_ids: Collection[str] | None = None) -> dict[str, list[Alert]]:
        found: dict[str, list[Alert]] = {}
        states = (AlertState.FIRING, AlertState.RECOVERING)
        for stored in self._reader.alerts(run_ids, states, limit=MOST_ALERTS):
            found.setdefault(stored.alert.run_id, []).append(stored.alert)
        return found

    async def load(self, run_id: str, now_ns: int) -> ActiveRun:
        """Load a stored run into memory.

        Raises:
            LookupError: The run does not exist, or was deleted while it was read.
        """
        with self.tracking_drops() as dropped:
            async with self._loading:
                process = await self.processes.choose()
                run = await asyncio.to_thread(self._restored, run_id, now_ns, process)
        if run_id in dropped:
            run.evaluator.close()
            raise LookupError(f"Run {run_id} was deleted while it was being loaded.")
        self.active[run_id] = run
        self._summaries[run_id] = run.summary
        self._bound()
        return run

    def _restored(self, run_id: str, now_ns: int, process: RuleProcess | None) -> ActiveRun:
        stored = self._stored(run_id)
        evaluator, recovery = self._loaded(stored, process)
        with closed_on_error(evaluator):
            join = self._incidents.joining(sharing(stored))
            run = restore_run(stored, evaluator, recovery, self._settings, now_ns, join, self.waiting)
            run.summary.acked = self._reader.acknowledged(run.summary.acknowledgeable)
        return run

    async def reload_rules(self, run: ActiveRun) -> None:
        """Load the rules of a run again because their process ended. Everything submitted must be durable.

        Raises:
            LookupError: The run does not exist.
        """
        async with self._loading:
            process = await self.processes.choose()
            run.evaluator = await asyncio.to_thread(self._reloaded, run, process)
        if run.dropped:
            run.evaluator.close()

    def _reloaded(self, run: ActiveRun, process: RuleProcess | None) -> Evaluator:
        evaluator, recovery = self._loaded(self._stored(run.id), process)
        items = (item for item in recovery.replay if item.arrival <= run.evaluated_arrival)
        with closed_on_error(evaluator):
            for page in pages(items):
                evaluator.replay(page)
        return evaluator

    def _loaded(self, stored: StoredRun, process: RuleProcess | None) -> tuple[Evaluator, Recovery]:
        barred = self.processes.barred(stored.id)
        return load_engine(self._reader, stored, _beginning(process, barred, self.guard))

    def _stored(self, run_id: str) -> StoredRun:
        stored = self._reader.run_head(run_id)
        if stored is None:
            raise LookupError(f"Run {run_id} not found.")
        return stored

    async def find(self, run_id: str) -> RunSummary | None:
        """Return the summary of any run; one outside the live fleet is read from the store."""
        return self._summaries.get(run_id) or await asyncio.to_thread(self._seed, run_id)

    async def find_all(self, run_ids: Iterable[str]) -> dict[str, RunSummary]:
        """Return the summaries of these runs; those outside the live fleet are read together."""
        live = {run_id: self._summaries.get(run_id) for run_id in run_ids}
        missing = [run_id for run_id, summary in live.items() if summary is None]
        read = await asyncio.to_thread(self._seed_all, missing) if missing else []
        found = [*filter(None, live.values()), *read]
        return {summary.metadata.id: summary for summary in found}

    def _seed_all(self, run_ids: Collection[str]) -> list[RunSummary]:
        return self._summarized(self._reader.runs(run_ids), self._open_alerts(run_ids))

    def _seed(self, run_id: str) -> RunSummary | None:
        stored = self._reader.run_head(run_id)
        if stored is None:
            return None
        summary = _summary_of(stored)[1]
        self._complete([summary], self._open_alerts([run_id]))
        return summary

    def summary(self, run_id: str) -> RunSummary | None:
        """Return the summary of a run in the live fleet."""
        return self._summaries.get(run_id)

    def newest_first(self) -> list[RunSummary]:
        """Return all summaries of the live fleet, newest run first."""
        return sorted(self._summaries.values(), key=lambda summary: summary.metadata.created_ns, reverse=True)

    def retire(self, run_id: str) -> None:
        """Remove an ended run from memory; its summary is kept."""
        self._close(run_id)

    def _close(self, run_id: str) -> None:
        run = self.active.pop(run_id, None)
        if run is not None:
            run.dropped = True
            run.turns.clear()
            run.evaluator.close()

    def drop(self, run_id: str) -> None:
        """Remove a deleted run and its summary, and mark it as dropped for pending reads."""
        for dropped in self._drop_listeners:
            dropped.add(run_id)
        self._close(run_id)
        self._summaries.pop(run_id, None)
        self._incidents.forget(run_id)

    def _bound(self) -> None:
        over = len(self._summaries) - self._settings.fleet_runs
        for summary in _oldest(self._summaries.values()) if over > 0 else []:
            if over > 0 and summary.metadata.id not in self.active:
                del self._summaries[summary.metadata.id]
                over -= 1


def _oldest(summaries: Iterable[RunSummary]) -> list[RunSummary]:
    return sorted(summaries, key=lambda summary: summary.metadata.created_ns)
