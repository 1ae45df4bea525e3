"""Decide which runs are past their retention. Pure functions.

The age of a run counts from its last activity. A running or stalled run never expires, whatever its
records contain; a lost one does. Open alerts do not extend the retention: those of an ended run never
resolve by themselves, so a failed run would be kept indefinitely. The days of a project take precedence
over the global ones.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from tocsin_server.core.models import RunState
from tocsin_server.core.settings import Settings
from tocsin_server.store.damage import Damaged
from tocsin_server.store.results import StoredRun

DAY_NS = 86_400 * 1_000_000_000
ALIVE = (RunState.RUNNING, RunState.STALLED)


def last_word_ns(run: StoredRun) -> int:
    """Return when the run was last seen, ended, or imported, whichever is latest."""
    imported = (run.environment or {}).get("imported") or {}
    return max(run.last_seen_ns, run.ended_ns or 0, int(imported.get("at_ns", 0)))


def is_expired(run: StoredRun, days: float, now_ns: int) -> bool:
    """Return whether the run is older than ``days``; 0 means never. Runs with a damaged time are kept."""
    if isinstance(run.last_seen_ns, Damaged) or isinstance(run.ended_ns, Damaged):
        return False
    return days > 0 and run.state not in ALIVE and now_ns - last_word_ns(run) > days * DAY_NS


def expired(
    runs: Iterable[StoredRun], settings: Settings, now_ns: int, *, connected: Container[str] = ()
) -> list[StoredRun]:
    """Return the runs to delete, without those in ``connected``, whose training process is connected."""
    return [
        run
        for run in runs
        if run.id not in connected and is_expired(run, settings.retention_of(run.project), now_ns)
    ]
