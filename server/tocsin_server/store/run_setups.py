"""Read the setups of a run's attempts and of a project's runs, for comparison. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, func, not_, or_, select

from tocsin_server.core.models import WITHDRAWN, AlertState, RunState, Severity
from tocsin_server.core.run_changes import Setup, setup_of
from tocsin_server.store.damage import checked, choice, valid_environment
from tocsin_server.store.environment import KINDS, RECORDED, SHOWN, learned
from tocsin_server.store.results import StoredRun
from tocsin_server.store.tables import alert, attempt, event, run, writer

MOST_RUNS = 200
"""Maximum number of runs of a project that are compared; the newest are chosen."""
MOST_EVENTS = 5_000
"""Maximum number of events that are read at once; the newest are chosen."""


@dataclass(frozen=True, slots=True)
class ProjectRun:
    """A run of a project, as its newest attempt is set up.

    ``broken_ns`` is the onset of its newest alert that counts, ``began_ns`` the start of its newest attempt.
    """

    id: str
    name: str
    state: RunState
    created_ns: int
    last_step: int | None
    setup: Setup
    broken_ns: int | None
    began_ns: int

    @property
    def is_failing(self) -> bool:
        """Whether its newest attempt is broken."""
        is_broken = self.broken_ns is not None and self.broken_ns >= self.began_ns
        return is_broken or self.state is RunState.FAILED

    def is_healthy(self, reached: int | None) -> bool:
        """Return whether no attempt was broken, and it ended normally or came as far as step ``reached``."""
        if self.broken_ns is not None or self.state is RunState.FAILED or self.last_step is None:
            return False
        return self.state is RunState.FINISHED or (reached is not None and self.last_step >= reached)


def attempt_setups(connection: Connection, stored: StoredRun) -> dict[int, Setup]:
    """Return the setup of each attempt of a run, as far as it was recorded.

    The row of the run describes its newest attempt, events of rank 0 describe each attempt.
    """
    found = _environments(connection, [stored.id], KINDS).get(stored.id, {})
    newest = max((each.attempt for each in stored.attempts_list), default=0)
    hosts = {each.writer.attempt_no: each.host for each in reversed(stored.writers) if each.writer.rank == 0}
    sizes = select(attempt.c.attempt_no, attempt.c.world_size).where(attempt.c.run_id == stored.id)
    ranks = {row.attempt_no: row.world_size for row in connection.execute(sizes)}
    setups = {}
    for each in stored.attempts_list:
        number, environment = each.attempt, found.get(each.attempt, {})
        config, planned = environment.get("config"), None
        if number == newest:
            reported = {name: value for name, value in environment.items() if value}
            environment = {**_without_attempt(stored.environment), **reported}
            config, planned = stored.config, stored.planned_steps
        machine = {"host": hosts.get(number, ""), "ranks": ranks.get(number, 1)}
        setups[number] = setup_of(config, environment, planned_steps=planned, machine=machine)
    return setups


def project_runs(connection: Connection, project: str, rules: Collection[str] = ()) -> list[ProjectRun]:
    """Return the newest runs of a project that are not archived, newest first.

    Args:
        connection: A connection.
        project: The project.
        rules: Rules whose alerts count as a failure, besides all critical alerts.
    """
    query = (
        select(run)
        .where(run.c.project == project, not_(run.c.archived))
        .order_by(run.c.created_ns.desc(), run.c.id)
        .limit(MOST_RUNS)
    )
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    broken, began = _broken(connection, ids, rules), attempt_starts(connection, ids)
    recorded = _environments(connection, ids, [RECORDED])
    return [
        ProjectRun(
            row.id,
            row.name,
            choice(RunState.LOST, row.state, run, row, "state"),
            row.created_ns,
            row.last_step,
            _setup(row, recorded.get(row.id, {})),
            broken.get(row.id),
            max(began[row.id].values(), default=0),
        )
        for row in rows
    ]


def _setup(row: Row[Any], attempts: Mapping[int, Mapping[str, Any]]) -> Setup:
    """Return the setup of a run's newest attempt."""
    environment = {**valid_environment(row.environment), **attempts.get(max(attempts, default=0), {})}
    config = checked(row.config, run, row, "config")
    machine = {"host": row.host, "ranks": row.world_size}
    return setup_of(config, environment, planned_steps=row.planned_steps, machine=machine)


def attempt_starts(connection: Connection, run_ids: Collection[str]) -> dict[str, dict[int, int]]:
    """Return when each attempt of some runs began (Unix ns), by run and attempt.

    That is the time of its first event or of its handshake. A handshake may be late: a process that could not
    reach the server has computed steps before.
    """
    began: dict[str, dict[int, int]] = {run_id: {} for run_id in run_ids}
    starts = select(attempt.c.run_id, attempt.c.attempt_no, attempt.c.started_ns)
    for row in connection.execute(starts.where(attempt.c.run_id.in_(run_ids))):
        began[row.run_id][row.attempt_no] = row.started_ns
    firsts = (
        select(writer.c.run_id, writer.c.attempt_no, event.c.time_ns)
        .join(event, (event.c.run_id == writer.c.run_id) & (event.c.writer_no == writer.c.writer_no))
        .where(writer.c.run_id.in_(run_ids), event.c.no == 0)
    )
    for row in connection.execute(firsts):
        attempts = began[row.run_id]
        attempts[row.attempt_no] = min(row.time_ns, attempts.get(row.attempt_no, row.time_ns))
    return began


def broken_onsets(connection: Connection, run_id: str, rules: Collection[str] = ()) -> list[int]:
    """Return the onsets (Unix ns) of the alerts of a run that are critical or of one of ``rules``."""
    query = select(alert.c.onset_ns).where(alert.c.run_id == run_id, _counts(rules))
    return [row.onset_ns for row in connection.execute(query)]


def _counts(rules: Collection[str]) -> Any:
    withdrawn = and_(
        alert.c.state == AlertState.RESOLVED.value, alert.c.summary.startswith(WITHDRAWN, autoescape=True)
    )
    matters = or_(alert.c.severity == Severity.CRITICAL.value, alert.c.rule.in_(list(rules)))
    return and_(alert.c.fired_ns.is_not(None), matters, not_(withdrawn))


def _broken(connection: Connection, run_ids: list[str], rules: Collection[str]) -> dict[str, int]:
    query = select(alert.c.run_id, func.max(alert.c.onset_ns).label("ns"))
    query = query.where(alert.c.run_id.in_(run_ids), _counts(rules)).group_by(alert.c.run_id)
    return {row.run_id: row.ns for row in connection.execute(query)}


def _environments(
    connection: Connection, run_ids: list[str], kinds: Iterable[str]
) -> dict[str, dict[int, dict[str, Any]]]:
    """Return what rank 0 of each attempt reported in events, by run and attempt."""
    query = (
        select(event, writer.c.attempt_no)
        .join(writer, (writer.c.run_id == event.c.run_id) & (writer.c.writer_no == event.c.writer_no))
        .where(event.c.run_id.in_(run_ids), event.c.kind.in_(list(kinds)), writer.c.rank == 0)
        .order_by(event.c.arrival.desc(), event.c.no.desc())
        .limit(MOST_EVENTS)
    )
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for row in reversed(connection.execute(query).all()):
        attempts = found.setdefault(row.run_id, {})
        data = checked(row.data, event, row, "data")
        attempts[row.attempt_no] = learned(attempts.get(row.attempt_no, {}), row.kind, data, everything=True)
    return found


def _without_attempt(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's environment without what an event reports, which may be that of an earlier attempt."""
    return {name: value for name, value in environment.items() if name not in SHOWN}
