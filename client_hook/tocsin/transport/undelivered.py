"""Messages about records that were dropped or not delivered."""

from __future__ import annotations

from ..core.values import counted
from ..spool.segments import Spool


def why_full(spool: Spool | None) -> str:
    """Return why the queue has no room for another record."""
    if spool is None:
        return "the server does not accept them and there is no offline buffer on disk"
    if spool.error is not None:
        return f"the server does not accept them and the offline buffer cannot be written ({spool.error})"
    return f"the queue is full and the offline buffer {spool.path or 'on disk'} is too slow"


def where_records_are(spool: Spool | None) -> str:
    """Return where the records of a training are that sends nothing more, and how to send them."""
    if spool is None or spool.path is None:
        return "Training continues. Its records are lost: there is no offline buffer on disk to keep them."
    kept = f"Its records are kept in {spool.path}; after it ends, `tocsin sync` delivers them."
    return f"Training continues. {kept}"


def what_is_left(left: int, lost: int, spool: Spool | None, reason: str) -> str:
    """Return what the server does not have at the end of a run, why, and where it is kept.

    Args:
        left: Number of records that are not acknowledged.
        lost: Number of those that are neither on disk nor in shared memory.
        spool: The spool, or None without one.
        reason: Why they were not delivered.
    """
    they = "They are" if left else "It is"
    text = f"{_last(left)} and the end of this run were" if left else "the end of this run was"
    text = f"{text} not delivered ({reason})"
    if spool is None or spool.path is None:
        return f"{text}. {they} lost: there is no offline buffer on disk to keep them."
    later = f"kept in {spool.path}; the next run on this machine or `tocsin sync` delivers them."
    if lost:
        return (
            f"{text}. {_last(lost).capitalize()} and the end are lost ({spool.error}); the others are {later}"
        )
    if spool.error is not None:
        later = f"kept in {spool.path} and, until this machine restarts, in memory ({spool.error}); " + (
            "the next run on this machine or `tocsin sync` delivers them."
        )
    return f"{text}. {they} {later}"


def _last(count: int) -> str:
    return "the last record" if count == 1 else f"the last {counted(count, 'record')}"
