"""Which runs are in memory: those being taken (with rules and alerts), and the rows of the others.

Bound and policy: the fleet holds ``settings.fleet_runs`` rows; above it the oldest ended runs are
left to the query. An active run is never let go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tocsin_server.core.models import Alert, AlertState, RunState
from tocsin_server.core.settings import Settings
from tocsin_server.detect.engine.engine import Engine, SnapshotError
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.runs.active_run import ActiveRun
from tocsin_server.runs.alert_state import AlertBook
from tocsin_server.runs.recent_buffer import Recent
from tocsin_server.runs.run_summary import RunBoard, RunCard
from tocsin_server.store.edits import edits_of
from tocsin_server.store.periodic_jobs import Round
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import Recovery, RunFacts

log = logging.getLogger("tocsin.roster")

REJUDGED = 500_000
"""Records that a restart will judge again at most, where the saved state of the rules cannot be read."""
MOST_ALERTS = 100_000
BACK_NS = 30_000_000_000


def card_of(facts: RunFacts) -> RunCard:
    """What a row says of a run besides its records."""
    newest = max((attempt.attempt for attempt in facts.attempts_list), default=facts.attempts)
    return RunCard(
        id=facts.id,
        project=facts.project,
        name=facts.name,
        state=facts.state,
        attempt=newest,
        attempts=facts.attempts,
        tags=tuple(facts.tags),
        host=facts.host,
        archived=facts.archived,
        created_ns=facts.created_ns,
        last_seen_ns=facts.last_seen_ns,
        ended_ns=facts.ended_ns,
        error=facts.error,
        planned_steps=facts.planned_steps,
        edited=edits_of(facts.facts),
        leaving_ns=facts.leaving_ns,
    )


def context_of(facts: RunFacts) -> RunContext:
    """What the rules may know of a run."""
    return RunContext.from_facts(
        facts.id, facts.project, facts.world_size, facts.planned_steps, facts.facts or {}
    )


def revive(facts: RunFacts, engine: Engine, recovery: Recovery, settings: Settings, now_ns: int) -> ActiveRun:
    """The run as if the process had never ended: snapshot, and what came after it judged again."""
    board_upto, board = _board_of(facts)
    run = ActiveRun(
        board,
        engine,
        AlertBook.restore(facts.id, recovery.alerts),
        Recent(settings.live_kept_bytes, recovery.last_arrival),
        arrival=recovery.last_arrival,
        now_ns=now_ns,
    )
    if board_upto >= 0:
        _restore_pulse(run, facts)
    if facts.state is RunState.FAILED:
        run.rests_until_ns = rests_until(facts, settings, now_ns)
    run.series.update(series.name for series in facts.series)
    run.relive(recovery.replay, board_upto=board_upto)
    return run


def _restore_pulse(run: ActiveRun, facts: RunFacts) -> None:
    try:
        run.pulse.restore(facts.board.get("pulse") or {})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        log.warning("The throughput of run %s cannot be read and starts empty: %r", facts.id, error)


def rests_until(facts: RunFacts, settings: Settings, now_ns: int) -> int:
    """How long the alerts of a failed run wait for a further attempt; one that began while the server was
    away has :data:`BACK_NS` to say so."""
    grace_ns = int(settings.restart_grace_s * 1e9)
    ended_ns = min(facts.ended_ns or 0, now_ns)  # the clock may have been set back since
    return max(ended_ns + grace_ns, now_ns + min(BACK_NS, grace_ns))


def recall(reader: StoreReader, facts: RunFacts) -> tuple[Engine, Recovery]:
    """The rules as they were saved, and what came after. Where another version saved them, the rules
    begin anew: from the first record where there are at most :data:`REJUDGED`, else from the last ones.
    """
    context, recovery = context_of(facts), reader.recovery(facts.id)
    if recovery.snapshot is None:
        return Engine(context), recovery
    try:
        return Engine.restore(context, recovery.snapshot.body), recovery
    except SnapshotError as error:
        log.warning(
            "The saved rule state of run %s cannot be read, so its records are evaluated again: %s",
            facts.id,
            error,
        )
    if sum(writer.records for writer in facts.writers) <= REJUDGED:
        recovery = reader.recovery(facts.id, anew=True)
    return Engine(context), recovery


def _board_of(facts: RunFacts) -> tuple[int, RunBoard]:
    """The saved row, and the arrival that it covers (-1: none)."""
    card = card_of(facts)
    try:
        return (int(facts.board["arrival"]) if facts.board else -1), RunBoard.restore(card, facts.board)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        log.warning("The row of run %s cannot be read and starts empty: %r", facts.id, error)
        return -1, RunBoard(card)


class Roster:
    """Active runs by id, and the row of every run of the live fleet."""

    def __init__(self, settings: Settings, reader: StoreReader, work: Round | None = None) -> None:
        self._work = work or Round("restoring runs")
        self.active: dict[str, ActiveRun] = {}
        self._boards: dict[str, RunBoard] = {}
        self._settings = settings
        self._reader = reader
        self._watching: list[set[str]] = []

    @contextmanager
    def watching(self) -> Iterator[set[str]]:
        """The runs that are dropped from here on: what was read of one before must not be used.

        A read of the store lasts; a run that is deleted meanwhile would come back with it.
        """
        dropped: set[str] = set()
        self._watching.append(dropped)
        try:
            yield dropped
        finally:
            self._watching = [other for other in self._watching if other is not dropped]

    async def seed(self) -> list[str]:
        """Create the rows of the newest runs; return the runs to restore, most recently seen first.

        A row shows what was saved of a run. Its rules and alerts come with :meth:`load`.
        """
        boards = await asyncio.to_thread(self._seeds)
        self._boards = {board.card.id: board for board in boards} | self._boards
        return await asyncio.to_thread(self._to_restore)

    def _to_restore(self) -> list[str]:
        found = [*self._reader.active_runs(), *self._reader.unsettled_runs()]
        # Nobody here waits for the trainer of an imported run, so nobody is told that it is gone.
        gone = (RunState.LOST, RunState.FAILED)
        mine = [one for one in found if not (one.state in gone and "imported" in (one.facts or {}))]
        mine.sort(key=lambda facts: facts.last_seen_ns or 0, reverse=True)
        return list(dict.fromkeys(facts.id for facts in mine))

    def _seeds(self) -> list[RunBoard]:
        newest = self._reader.runs()  # newest first
        boards = []
        for facts in newest[: self._settings.fleet_runs]:
            with self._work.isolated(f"run {facts.id}"):
                boards.append(_board_of(facts)[1])
        opened = self._open_alerts()
        for board in boards:
            board.open_alerts = tuple(opened.get(board.card.id, ()))
        return boards

    def _open_alerts(self, run_id: str | None = None) -> dict[str, list[Alert]]:
        found: dict[str, list[Alert]] = {}
        states = (AlertState.FIRING, AlertState.RECOVERING)
        for stored in self._reader.alerts(run_id, states, limit=MOST_ALERTS):
            found.setdefault(stored.alert.run_id, []).append(stored.alert)
        return found

    async def load(self, run_id: str, now_ns: int) -> ActiveRun:
        """Brings a stored run into memory. Raises LookupError where there is none, or none any more."""
        with self.watching() as dropped:
            run = await asyncio.to_thread(self._revived, run_id, now_ns)
        if run_id in dropped:
            raise LookupError(f"run: expected one that stays, got {run_id}, deleted while it was read")
        self.active[run_id] = run
        self._boards[run_id] = run.board
        self._bound()
        return run

    def _revived(self, run_id: str, now_ns: int) -> ActiveRun:
        facts = self._reader.run(run_id)
        if facts is None:
            raise LookupError(f"run: expected a stored one, got {run_id}")
        engine, recovery = recall(self._reader, facts)
        return revive(facts, engine, recovery, self._settings, now_ns)

    async def find(self, run_id: str) -> RunBoard | None:
        """The row of any run; of one outside the fleet it is made from the store."""
        return self._boards.get(run_id) or await asyncio.to_thread(self._seed, run_id)

    def _seed(self, run_id: str) -> RunBoard | None:
        facts = self._reader.run(run_id)
        if facts is None:
            return None
        board = _board_of(facts)[1]
        board.open_alerts = tuple(self._open_alerts(run_id).get(run_id, ()))
        return board

    def board(self, run_id: str) -> RunBoard | None:
        """The row of a run of the live fleet."""
        return self._boards.get(run_id)

    def newest_first(self) -> list[RunBoard]:
        """Every row of the live fleet."""
        return sorted(self._boards.values(), key=lambda board: board.card.created_ns, reverse=True)

    def retire(self, run_id: str) -> None:
        """An ended run leaves memory; its row stays."""
        self.active.pop(run_id, None)

    def drop(self, run_id: str) -> None:
        """A deleted run leaves altogether, and whoever is reading it hears so."""
        for dropped in self._watching:
            dropped.add(run_id)
        self.active.pop(run_id, None)
        self._boards.pop(run_id, None)

    def _bound(self) -> None:
        over = len(self._boards) - self._settings.fleet_runs
        for board in _oldest(self._boards.values()) if over > 0 else []:
            if over > 0 and board.card.id not in self.active:
                del self._boards[board.card.id]
                over -= 1


def _oldest(boards: Iterable[RunBoard]) -> list[RunBoard]:
    return sorted(boards, key=lambda board: board.card.created_ns)
