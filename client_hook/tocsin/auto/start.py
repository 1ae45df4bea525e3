"""Start a run when this process begins to train. Importing this module is all that is needed.

It is imported at the start of every Python process under ``tocsin run``, so it imports little. A process that
never imports torch imports nothing more.
"""

from __future__ import annotations

import os
import sys

from .. import mirrors
from ..core.process_state import active_runs, auto_start, is_disabled
from ..lifecycle import child_processes, first_training
from ..lifecycle.import_hook import when_imported

POINTS = (first_training.BACKWARD, first_training.SCALE, first_training.CUDA_SCALE)
_begun: list[object] = []
"""The run that was started last."""


def install() -> None:
    """Start a run at the first backward, loss scaling or optimizer step of this process; mirror trackers."""
    if not is_disabled() and not auto_start:
        mirrors.mirror(mirrors.from_environment())
        _wait()
        when_imported("hydra.core.utils", _follow_hydra)
        if "torch" in sys.modules:
            _prepare_console()
        else:
            when_imported("torch", _prepare_console)


def _wait() -> None:
    auto_start.append(begin)
    first_training.wait_for(begin, *POINTS, step=True)


def _prepare_console() -> None:
    """Include progress bars in the log that are created before the training begins."""
    try:
        from ..api.console import is_recorded
        from ..media import console

        if is_recorded(None):
            console.prepare()
    except Exception as error:
        first_training.warn("tocsin: the output of this process is not recorded: %s", error)


def _follow_hydra() -> None:
    try:
        from . import hydra_jobs

        hydra_jobs.follow(_end_job)
    except Exception as error:
        first_training.warn("tocsin: the jobs of a Hydra multirun become one run: %s", error)


def _end_job(error: BaseException | None) -> None:
    """Finish the run of a job, and wait for the training of the next one."""
    if not _begun:
        return
    for run in tuple(active_runs):
        if run in _begun:
            run.finish(error=error)
    _begun.clear()
    _wait()


def begin() -> None:
    """Start the run, unless the script or the parent process has started one."""
    if not auto_start:
        return
    auto_start.clear()
    try:
        if child_processes.is_shared_by_parent():
            from .. import _begin_child

            child_processes.report(_begin_child)
        elif not active_runs:
            from .. import watch
            from .guesses import config_of, planned_steps_of

            environ = os.environ
            tags = [tag for one in environ.get("TOCSIN_TAGS", "").split(",") if (tag := one.strip())]
            frame = sys._getframe(1)
            config = config_of(frame)
            planned = planned_steps_of(config, frame)
            _begun[:] = [watch(name=_name(), config=config, tags=tags, planned_steps=planned)]
    except Exception as error:
        first_training.warn("tocsin: this training is not watched: %s", error)


def _name() -> str | None:
    """Return ``TOCSIN_NAME``, with the number of the job in a Hydra multirun."""
    name = os.environ.get("TOCSIN_NAME")
    if not name or "hydra" not in sys.modules:
        return name
    from .hydra_jobs import job_number

    number = job_number()
    return name if number is None else f"{name}-{number}"


def _after_fork() -> None:
    """In a forked child of a process whose run has begun, which stays the parent's: wait for its training."""
    _begun.clear()
    if not is_disabled() and not auto_start:
        _wait()


install()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
