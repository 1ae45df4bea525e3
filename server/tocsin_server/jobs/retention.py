"""Which runs are past their time. Pure.

The age of a run counts from its last word. A run that is running or stalled is never too old,
whatever its steps say; one whose trainer is lost is, once the whole time has gone by in
silence. Open alerts keep nothing: those of an ended run never resolve by themselves, so a
failed run would stay for ever. A project's own number of days counts before that of all.
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
    """When the run was last heard of, ended, or brought in by an import."""
    imported = (run.environment or {}).get("imported") or {}
    return max(run.last_seen_ns, run.ended_ns or 0, int(imported.get("at_ns", 0)))


def is_expired(run: StoredRun, days: float, now_ns: int) -> bool:
    """Whether the run is older than ``days``; 0 keeps it for ever. A run with a damaged time is kept."""
    if isinstance(run.last_seen_ns, Damaged) or isinstance(run.ended_ns, Damaged):
        return False
    return days > 0 and run.state not in ALIVE and now_ns - last_word_ns(run) > days * DAY_NS


def expired(
    runs: Iterable[StoredRun], settings: Settings, now_ns: int, *, connected: Container[str] = ()
) -> list[StoredRun]:
    """The runs to delete; those in ``connected`` have a trainer on the line and stay."""
    return [
        run
        for run in runs
        if run.id not in connected and is_expired(run, settings.retention_of(run.project), now_ns)
    ]
