"""Read the checkpoints of a run, and the last one that is good to resume from."""

from __future__ import annotations

from tocsin_server.core.causal_order import chain_of
from tocsin_server.core.checkpoints import (
    Checkpoint,
    LastGood,
    Trouble,
    after_event,
    last_good_checkpoint,
    troubles_of,
)
from tocsin_server.core.incidents import Incident
from tocsin_server.core.models import AlertState, Severity
from tocsin_server.store.reader import StoreReader

MOST, EVENTS, MOST_ALERTS = 1000, 10_000, 10_000
"""Maximum number of checkpoints, and of the newest events about them and critical alerts that are read."""


def checkpoints_of(reader: StoreReader, run_id: str) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a run that still exist, oldest first."""
    known: tuple[Checkpoint, ...] = ()
    for event in reader.checkpoints(run_id, EVENTS):
        known = after_event(
            known,
            event.kind,
            event.step,
            event.data,
            most=MOST,
            time_ns=event.time_ns,
            attempt=event.writer.attempt_no,
            rank=event.writer.rank,
        )
    return known


def troubles_of_run(reader: StoreReader, run_id: str) -> list[Trouble]:
    """Return the times in which a run was broken, from its critical alerts."""
    alerts = reader.alerts(run_id, list(AlertState), [Severity.CRITICAL], MOST_ALERTS)
    return troubles_of(stored.alert for stored in alerts)


def resume_from(reader: StoreReader, incident: Incident) -> LastGood:
    """Return the checkpoint to resume from after an incident.

    The onset limits the choice only if the training itself went wrong: a checkpoint is good whatever happened
    to the process or its throughput.
    """
    is_training = any(chain_of(alert.rule) == "training" for alert in incident.alerts)
    run_id, onset_step = incident.lead.run_id, incident.onset_step if is_training else None
    return last_good_checkpoint(checkpoints_of(reader, run_id), onset_step, troubles_of_run(reader, run_id))
