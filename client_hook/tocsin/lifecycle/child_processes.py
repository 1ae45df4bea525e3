"""Training in child processes: they report to the run of the parent process.

``torch.multiprocessing.spawn``, Lightning's ``ddp_spawn`` and Hogwild start training with
``multiprocessing``, and only the parent calls ``watch``. The parent stores what a child needs in the data
that ``multiprocessing`` passes to its children through memory or a pipe; the environment would show the token
to every other program. A child starts its part of the run, with a separate writer, at its first optimizer or
its first backward. DataLoader workers have neither, so they report nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.process_state import active_runs as live
from . import first_training

if TYPE_CHECKING:  # keep this module small: every DataLoader worker imports it
    from ..core.handshake import RunInfo
    from ..core.identity import Identity

KEY = "tocsin"
_RUN_FIELDS = ("project", "name", "config", "tags", "notes", "planned_steps", "start_step")
Begin = Callable[[Mapping[str, Any]], Any]
_begin: Begin | None = None
"""Starts this child's part of the parent's run."""


def share_with_children(run_info: RunInfo, options: Mapping[str, Any], begin: Begin) -> Callable[[], None]:
    """Let processes that this one starts from now on report to this run.

    Args:
        run_info: The run. With several ranks nothing is passed on, because the other processes are ranks
            themselves.
        options: Options of ``watch``. Values that are not plain are passed as text.
        begin: Starts the run in a forked child.

    Returns:
        A function that undoes it.
    """
    global _begin
    carried, identity = _process_config(), run_info.identity
    if carried is None or identity.world_size > 1:
        return _nothing
    _begin = begin
    who = {name: getattr(identity, name) for name in ("run", "launch", "restarts", "ordinal", "host")}
    mine = {name: value if _is_plain(value) else str(value) for name, value in options.items()}
    mine |= {name: getattr(run_info, name) for name in _RUN_FIELDS}
    mine["identity"] = {**who, "attempt": identity.writer.attempt, "first_rank": 0}
    carried[KEY] = mine

    def undo() -> None:
        if carried.get(KEY) is mine:
            del carried[KEY]

    return undo


def keep_own_rank() -> None:
    """Give the next children other ranks than 0, which is this process's own, because it reports records."""
    shared = (_process_config() or {}).get(KEY)
    if shared is not None:
        shared["identity"]["first_rank"] = 1


def wait_for_training(begin: Begin) -> None:
    """In a child: call ``begin`` at its first optimizer or backward."""
    global _begin
    _begin = begin
    first_training.wait_for(_report, first_training.BACKWARD, first_training.NEW_OPTIMIZER)


def report(begin: Begin) -> None:
    """In a child that begins to train: start its part of the parent's run with ``begin``."""
    global _begin
    _begin = begin
    _report()


def is_child() -> bool:
    """Return whether ``multiprocessing`` has started this process, or is starting it."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    return process.parent_process() is not None or hasattr(process.current_process(), "_inheriting")


def is_shared_by_parent() -> bool:
    """Return whether this process is a child that reports to its parent's run."""
    return is_child() and KEY in (_process_config() or {})


def has_children() -> bool:
    """Return whether this process has started others with ``multiprocessing``, which may train."""
    process = sys.modules.get("multiprocessing.process")
    # Read the counter's next number without advancing it. Counters cannot be copied since Python 3.14.
    return process is not None and repr(process._process_counter) != "count(1)"


def child_identity(shared: Mapping[str, Any], project: str, name: str) -> Identity:
    """Return the identity of this child, a writer of the parent's attempt.

    Until torch's process group is initialized, its rank is its position among the parent's children, after
    the parent's own rank if that reports records. Children of children have ranks from 100.

    Args:
        shared: Data that the parent passed to its children.
        project: The run's project.
        name: The run's name.
    """
    from ..core.identity import Identity, writer_id

    who = dict(shared)
    place = sys.modules["multiprocessing.process"].current_process()._identity
    position = sum(one * 100**level for level, one in enumerate(place)) - 1
    rank = who.pop("first_rank") + max(position, 0)
    writer = writer_id(who.pop("attempt"), rank)
    return Identity(writer=writer, world_size=1, rendezvous="", project=project, name=name, **who)


def _is_plain(value: Any) -> bool:
    """Return whether a value can be passed to any child unchanged."""
    if isinstance(value, (list, tuple)):
        return all(_is_plain(one) for one in value)
    return value is None or type(value) in (bool, int, float, str)


def _process_config() -> dict[str, Any] | None:
    """Return the data that multiprocessing copies into each child."""
    process = sys.modules.get("multiprocessing.process")
    found = getattr(process.current_process(), "_config", None) if process is not None else None
    return found if isinstance(found, dict) else None


def _report() -> None:
    """Start this child's part of the parent's run, unless it has its own run or the parent's has ended."""
    try:
        shared = (_process_config() or {}).get(KEY)
        is_ready = sys.modules["multiprocessing.process"].parent_process() is not None
        if shared is None or _begin is None or live or not is_ready:
            return
        _begin(shared)
    except Exception as error:
        first_training.warn("tocsin: this process cannot report to its parent's run: %s", error)


def _after_fork() -> None:
    """A forked child has the parent's patches, which report nothing, and may train itself."""
    if KEY in (_process_config() or {}) and _begin is not None:
        wait_for_training(_begin)


def _nothing() -> None:
    return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
