"""Training in child processes of a process that watches: it belongs to the parent's run.

``torch.multiprocessing.spawn``, Lightning's ``ddp_spawn`` and Hogwild start their trainings with
``multiprocessing``, and only the parent calls ``watch``. The parent leaves what a child needs where
``multiprocessing`` carries it to its children by itself, through memory or a pipe: the environment would
show a token to every other program. A child begins a run of its own writer with its first optimizer or its
first backward. A worker of a DataLoader does neither and stays silent.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.process_state import active_runs as live
from .import_hook import when_imported

if TYPE_CHECKING:  # each worker of a DataLoader imports this module: it has to be small
    from ..core.handshake import Facts
    from ..core.identity import Identity

LOG = logging.getLogger("tocsin")

KEY = "tocsin"
_SAID = ("project", "name", "config", "tags", "notes", "planned_steps", "start_step")
_placed: list[tuple[Any, str, Any, Any]] = []
"""Owner, name, original and replacement of each function that is waited for."""
Begin = Callable[[Mapping[str, Any]], Any]
_begin: Begin | None = None
"""Begins this child's part of the parent's run."""


def hand_down(facts: Facts, options: Mapping[str, Any], begin: Begin) -> Callable[[], None]:
    """Let processes that this one starts from now on report to this run; return what takes that back.

    Args:
        facts: of the run. One rank of several hands nothing down: its siblings are ranks already.
        options: of ``watch``; what is no plain value stays here.
        begin: begins a run in a forked child.
    """
    global _begin
    carried, identity = _carried(), facts.identity
    if carried is None or identity.world_size > 1:
        return _nothing
    _begin = begin
    who = {name: getattr(identity, name) for name in ("run", "launch", "restarts", "ordinal", "host")}
    mine = {name: value if _is_plain(value) else str(value) for name, value in options.items()}
    mine |= {name: getattr(facts, name) for name in _SAID}
    mine["identity"] = {**who, "attempt": identity.writer.attempt}
    carried[KEY] = mine

    def take_back() -> None:
        if carried.get(KEY) is mine:
            del carried[KEY]

    return take_back


def arm(begin: Begin) -> None:
    """In a child: call ``begin`` with its first optimizer or backward."""
    global _begin
    _begin = begin
    if "torch" in sys.modules:
        _await_training()
    else:
        when_imported("torch", _await_training)


def is_child() -> bool:
    """Return whether ``multiprocessing`` started this process, or is about to have started it."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    return process.parent_process() is not None or hasattr(process.current_process(), "_inheriting")


def has_children() -> bool:
    """Return whether this process has started others by ``multiprocessing``: they may have trained."""
    process = sys.modules.get("multiprocessing.process")
    # The counter's next number, read without taking it: Python 3.14 copies no counters.
    return process is not None and repr(process._process_counter) != "count(1)"


def identity_in(handed: Mapping[str, Any], project: str, name: str) -> Identity:
    """Return who this child is: a writer of the parent's attempt.

    Its rank is its place among the parent's children until torch's process group says otherwise.
    """
    from ..core.identity import Identity, writer_id

    who = dict(handed)
    place = sys.modules["multiprocessing.process"].current_process()._identity
    writer = writer_id(who.pop("attempt"), max(place[-1] - 1, 0) if place else 0)
    return Identity(writer=writer, world_size=1, rendezvous="", project=project, name=name, **who)


def _is_plain(value: Any) -> bool:
    """Whether a value can be sent to any child as it is."""
    if isinstance(value, (list, tuple)):
        return all(_is_plain(one) for one in value)
    return value is None or type(value) in (bool, int, float, str)


def _carried() -> dict[str, Any] | None:
    """Return what multiprocessing copies into each child, with the key of its connections."""
    process = sys.modules.get("multiprocessing.process")
    found = getattr(process.current_process(), "_config", None) if process is not None else None
    return found if isinstance(found, dict) else None


def _await_training() -> None:
    try:
        import torch

        for owner, name in ((torch.autograd, "backward"), (torch.optim.Optimizer, "__init__")):
            original = getattr(owner, name)
            replacement = _first_of(owner, name, original)
            setattr(owner, name, replacement)
            _placed.append((owner, name, original, replacement))
    except Exception as error:
        LOG.warning("tocsin: This process cannot report to its parent's run: %s", error)


def disarm() -> None:
    """Wait no longer for a training: torch is as it was, where nobody else has wrapped it since."""
    while _placed:
        owner, name, original, replacement = _placed.pop()
        if getattr(owner, name) is replacement:
            setattr(owner, name, original)


def _first_of(owner: Any, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """Begin the run at the first call, then call what watches from then on."""

    @functools.wraps(original)
    def first(*args: Any, **kwargs: Any) -> Any:
        if not _placed:
            return original(*args, **kwargs)
        _report()
        now = getattr(owner, name)
        return (original if now is first else now)(*args, **kwargs)

    return first


def _report() -> None:
    """Begin this child's part of the parent's run; nothing where it watches itself or there is none."""
    try:
        disarm()
        handed = (_carried() or {}).get(KEY)
        is_ready = sys.modules["multiprocessing.process"].parent_process() is not None
        if handed is None or _begin is None or live or not is_ready:
            return
        _begin(handed)
    except Exception as error:
        LOG.warning("tocsin: This process cannot report to its parent's run: %s", error)


def _after_fork() -> None:
    """A forked child has the parent's patches, which tell nobody, and may train."""
    if KEY in (_carried() or {}) and _begin is not None:
        arm(_begin)


def _nothing() -> None:
    return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
