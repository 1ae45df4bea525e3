"""Notice the jobs of a Hydra multirun: several trainings, one after another, in one process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

MODULE = "hydra.core.utils"
"""Module of the function that runs a job, which Hydra's launchers import from there."""


def follow(ended: Callable[[BaseException | None], None]) -> None:
    """Call ``ended`` after each job of a multirun with the exception that ended it, or None.

    Args:
        ended: Must not raise.
    """
    utils: Any = sys.modules[MODULE]
    run_job = utils.run_job

    @functools.wraps(run_job)
    def run(*given: Any, **named: Any) -> Any:
        done = run_job(*given, **named)
        with suppress(Exception):
            int(done.hydra_cfg.hydra.job.num)  # missing unless it is a multirun
            error = getattr(done, "_return_value", None)  # ``return_value`` would write and raise it
            ended(error if isinstance(error, BaseException) else None)
        return done

    utils.run_job = run


def job_number() -> int | None:
    """Return the number of the current job of a multirun, or None."""
    try:
        return int(sys.modules["hydra.core.hydra_config"].HydraConfig.get().job.num)
    except Exception:
        return None
