"""The training-side hook of tocsin, the alarm bell for training runs.

    import tocsin
    tocsin.watch("deblur", name="mdt-fp16", config=cfg)

is all a script needs. ``TOCSIN_DISABLE=1`` makes every call do nothing and imports nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .disabled import NoRun
    from .run import Run

__version__ = "0.1.0"
__all__ = ["log", "watch"]

_live: list[Run] = []
"""Runs that have not ended, oldest first. They live here even where the script keeps no reference."""
_was_called = False
"""Whether ``watch`` was called, or it was said that it was not."""


def watch(
    project: str,
    *,
    name: str | None = None,
    config: Any = None,
    tags: Collection[str] = (),
    url: str | None = None,
    token: str | None = None,
    optimizers: Mapping[str, Any] | None = None,
    scalers: Mapping[str, Any] | None = None,
    model: Any = None,
    grad_norm: str | int | bool = "auto",
    ranks: str | int | Collection[int] = "all",
    patch: bool = True,
    spool_dir: str | os.PathLike[str] | None = None,
    exit_timeout: float | None = None,
    notes: str = "",
    resume: str | None = None,
    primary: Any = None,
    start_step: int | None = None,
    planned_steps: int | None = None,
    actions: str | Collection[str] = (),
    host: str | None = None,
    redact: bool | str | Collection[str] | None = None,
    quiet: bool | None = None,
    parallel: bool = False,
) -> Run | NoRun:
    """Begins a run and watches every optimizer, scaler, clip and backward of this process.

    A run of this process that has not ended yet is finished first, unless ``parallel`` is True.

    Args:
        project: the group of runs it belongs to.
        name: the run's name; default: the script's and a number.
        config: a mapping, namespace, dataclass, class or object with attributes; shown with the run.
        tags, notes: words to find it by, and free text.
        url, token: the server; default ``TOCSIN_URL`` and ``TOCSIN_TOKEN``.
        optimizers: ``{"G": opt_g, "D": opt_d}``: their names; others are not watched then.
            Default: all, the first to step is the primary; others are named after the part that they
            train (``discriminator``), else ``opt2``.
        scalers: names of GradScalers; default ``scaler1``, ``scaler2``.
        model: described with the run.
        grad_norm: where the script clips, its own norm is used. Elsewhere: "auto" computes one every
            16th step, a number every so many, True every step, False never.
        ranks: "all", or the rank or ranks that report.
        patch: False watches nothing automatically (``run.step`` and ``run.log`` only).
        spool_dir: where records wait on disk while the server is away; default ``TOCSIN_SPOOL_DIR``.
        exit_timeout: limit of ``finish`` in seconds, plus one. Default: 3; for a run that finished, up to 120
            as long as the server keeps acknowledging.
        resume: the identifier of an earlier run that this one continues.
        primary: the optimizer that counts the steps, or its name (``"generator"``); default: the first.
        start_step: number of the first step; default 0, or what a restored optimizer says.
        planned_steps: how long the run is meant to be.
        actions: what the server may ask for when a critical alert fires: "checkpoint", "stop". Nothing
            happens unless the script does it: see ``run.on_request`` and ``run.requested``.
        host: the host name to report; "" reports none. Default: ``TOCSIN_HOSTNAME``, else the name of this
            machine.
        redact: values that look like secrets are sent as ``[redacted]``. Pass further names of secrets
            (``["customer_*"]``), or False to send everything. Default: ``TOCSIN_REDACT`` and
            ``TOCSIN_REDACT_KEYS``.
        quiet: True writes no line to the terminal when the run begins and ends; default ``TOCSIN_QUIET``.
        parallel: True leaves other runs of this process running. Each of them then records every optimizer
            that steps, except runs with ``optimizers=``.

    Never raises: what cannot be watched is said in a warning, and a run that does nothing is returned.
    """
    return _begin(**locals())  # all of the above, by their names


def _begin(project: str, name: str | None, **options: Any) -> Run | NoRun:
    """Nothing is imported before it is known that there is anything to do."""
    global _was_called
    _was_called = True
    if is_disabled():
        from .disabled import NoRun

        return NoRun(project, name or "")
    from .beginning import begin

    return begin(project, name=name, **options)


def log(*given: Any, step: int | None = None, **values: Any) -> None:
    """Add named numbers to a step of the run begun last: floats or tensors of one element, on any device.

    ``log(loss=x)``, ``log({"loss": x})`` and ``log("loss", x)``; the step may follow.
    """
    if _live:
        _live[-1].take(given, step, values)
    elif not _was_called:
        _say_unwatched()


def _say_unwatched() -> None:
    """Say once that nothing is recorded, where a script never called ``watch``."""
    global _was_called
    _was_called = True
    if not is_disabled():
        import logging

        logging.getLogger("tocsin").warning(
            "tocsin.log was called before tocsin.watch: its values are not recorded. "
            'Call tocsin.watch("project") first.'
        )


def _arm_child() -> None:
    """In a process that ``multiprocessing`` started: what it trains belongs to its parent's run."""
    if "multiprocessing.process" in sys.modules and not is_disabled():
        from .children import arm, is_child

        if is_child():
            arm()


def is_disabled() -> bool:
    """Whether ``TOCSIN_DISABLE`` is set to anything but 0, false or nothing."""
    return os.environ.get("TOCSIN_DISABLE", "").strip().lower() not in ("", "0", "false", "no")


_arm_child()
