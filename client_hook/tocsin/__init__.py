"""tocsin's hook: alerting and live monitoring for PyTorch training runs.

    import tocsin
    tocsin.watch("deblur", name="mdt-fp16", config=cfg)

is all that a script needs. With ``TOCSIN_DISABLE=1`` every call does nothing, and nothing else is imported.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .api.no_run import NoRun as _NoRun  # now, because a later import may fail
from .core.process_state import active_runs as _live
from .core.process_state import auto_start as _auto_start
from .core.process_state import is_disabled

if TYPE_CHECKING:
    from .api.facts import Facts
    from .api.no_run import NoRun
    from .api.run import Run
    from .media import Histogram as Histogram
    from .media import Image as Image
    from .media import Table as Table
    from .media import Text as Text
    from .read import Api as Api
    from .read import AsyncApi as AsyncApi

    run: Run | NoRun
    config: Facts
    summary: Facts

_Function = TypeVar("_Function", bound=Callable[..., Any])

__version__ = "0.1.0"
__all__ = [
    "Api",
    "AsyncApi",
    "Histogram",
    "Image",
    "Table",
    "Text",
    "alert",
    "finish",
    "init",
    "last_good_checkpoint",
    "log",
    "mirror",
    "watch",
    "watched",
]

_was_called = False
"""Whether ``watch`` was called, or the warning that it was not called was logged."""
_warned: set[str] = set()
"""Warnings that were logged."""
_NOT_IMPORTED = "tocsin cannot be imported: %r. Nothing is recorded; training continues."
"""A module is imported when it is first needed, which fails if too many files are open."""


def watch(
    project: str | None = None,
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
    environment: bool | str | Collection[str] | None = None,
    console: bool | None = None,
    quiet: bool | None = None,
    parallel: bool = False,
) -> Run | NoRun:
    """Start a run and watch every optimizer, scaler, gradient clipping and backward pass of this process.

    A run of this process that has not ended yet is finished first, unless ``parallel`` is True. Never raises:
    if watching is not possible, it logs a warning and returns a run that does nothing.

    Args:
        project: The group of runs that this run belongs to; default: ``TOCSIN_PROJECT``, else the name of
            the script's repository or folder.
        name: The run's name; default: the name of the script and a number.
        config: A mapping, namespace, dataclass, class or object with attributes; shown with the run.
        tags: Tags, by which runs are filtered.
        url: Address of the server; default: ``TOCSIN_URL``, else ``http://127.0.0.1:8321``.
        token: A token of the server; default: ``TOCSIN_TOKEN``.
        optimizers: The optimizers to watch by name, ``{"G": opt_g, "D": opt_d}``. Default: all; the first
            that steps is the primary, and others are named after the part that they train
            (``discriminator``), else ``opt2``.
        scalers: GradScalers by name; default ``scaler1``, ``scaler2``.
        model: The model to describe with the run.
        grad_norm: How often to compute the gradient norm if the script does not clip: "auto" every 16th
            step, a number every that many steps, True every step, False never.
        ranks: "all", or the rank or ranks that report.
        patch: False captures nothing automatically (``run.step`` and ``run.log`` only).
        spool_dir: Where records are buffered while the server is down; default ``TOCSIN_SPOOL_DIR``.
        exit_timeout: Seconds that ``finish`` may take; it may take one more. Default: 3, or up to 120 after a
            normal end while the server keeps acknowledging.
        notes: Free text, shown with the run.
        resume: The id of an earlier run that this one continues.
        primary: The optimizer whose steps are counted, or its name (``"generator"``); default: the first.
        start_step: Number of the first step; default 0, or the step count of a restored optimizer.
        planned_steps: Expected length of the run.
        actions: What the server may request when a critical alert fires: "checkpoint", "stop". The script
            must carry it out: see ``run.on_request`` and ``run.requested``.
        host: The host name to report; "" reports none. Default: ``TOCSIN_HOSTNAME``, else the name of this
            machine.
        redact: Values that look like secrets are sent as ``[redacted]``. Pass further names of secrets
            (``["customer_*"]``), or False to send everything. Default: ``TOCSIN_REDACT`` and
            ``TOCSIN_REDACT_KEYS``.
        environment: What is recorded about the environment. By default, this is the git commit, command line,
            packages, environment variables and GPUs. Pass changes to the default, such as
            ``["diff", "-command"]``, or False to record nothing. Default: ``TOCSIN_ENVIRONMENT``.
        console: False records nothing of what this process writes to ``sys.stdout`` and ``sys.stderr``, which
            the run's page shows as its log. Default: ``TOCSIN_CONSOLE``, else True.
        quiet: True writes no lines to the terminal when the run starts and ends; default ``TOCSIN_QUIET``.
        parallel: True keeps other runs of this process active. Each run then records every optimizer that
            steps, except runs with ``optimizers=``.

    Returns:
        The run. ``with`` and ``async with`` finish it at their end.
    """
    return _begin(**locals())  # all parameters by name


def _begin(project: str | None, name: str | None, **options: Any) -> Run | NoRun:
    """Start a run; import nothing if tocsin is disabled."""
    global _was_called
    _was_called = True
    if not is_disabled():
        try:
            from .api.startup import begin
        except Exception as error:  # such as too many open files
            _warn(_NOT_IMPORTED, error)
        else:
            return begin(project, name=name, **options)
    return _NoRun(project or "", name or "", options.get("config"))


def init(project: str | None = None, **options: Any) -> Run | NoRun:
    """Start a run; an alias of :func:`watch` that accepts the arguments of ``wandb.init``.

    ``id`` names the run: the next ``init`` with the same id continues it. ``group`` and ``job_type`` become
    settings of the configuration, ``mode="disabled"`` records nothing, and ``reinit="create_new"`` keeps the
    other runs of this process active. Arguments without a meaning here, such as ``entity``, are ignored.

    Args:
        project: See :func:`watch`.
        options: Arguments of :func:`watch` and of ``wandb.init``.

    Returns:
        The run. ``with`` and ``async with`` finish it at their end.
    """
    if is_disabled():
        return _begin(project, **{"name": None, "config": None, **options})
    try:
        from .api.init import options_of
    except Exception:
        return watch(project)  # warns

    given, is_off = options_of(options, frozenset(watch.__kwdefaults__ or ()))
    if is_off:
        return _NoRun(project or "", given.get("name") or "", given.get("config"))
    return watch(project, **given)


@overload
def watched(project: _Function) -> _Function: ...


@overload
def watched(project: str | None = None, **options: Any) -> Callable[[_Function], _Function]: ...


def watched(project: Any = None, **options: Any) -> Any:
    """Decorate a function so that each call is a separate run, as in ``with tocsin.watch(...)``.

    ``@tocsin.watched`` and ``@tocsin.watched("project")`` decorate functions, methods, coroutines and
    generators. The run of a coroutine or a generator lasts until it ends or is closed.

    Args:
        project: See :func:`watch`.
        options: Further arguments of :func:`watch`.
    """
    try:
        from .core.decoration import within
    except Exception as error:
        _warn(_NOT_IMPORTED, error)
        return project if callable(project) else lambda function: function
    if callable(project):
        return within(watch, project)
    return functools.partial(within, functools.partial(watch, project, **options))


def log(*given: Any, step: int | None = None, **values: Any) -> None:
    """Add named numbers to a step of the newest run.

    ``log(loss=x)``, ``log({"loss": x})`` and ``log("loss", x)`` are equivalent; the step may follow.

    Args:
        given: A mapping, or a name and its value; then optionally the step.
        step: The step; default: the current one.
        values: Floats, or tensors of one element on any device.
    """
    if _auto_start and not _live:
        _auto_start[0]()
    if _live:
        _live[-1].take(given, step, values)
    elif not _was_called:
        _warn_unwatched()


def alert(title: str, text: str = "", severity: str = "warning", **options: Any) -> None:
    """Raise an alert of the newest run; see :meth:`Run.alert <tocsin.api.run.Run.alert>`.

    Args:
        title: What happened; it identifies the alert.
        text: Details.
        severity: ``"info"``, ``"warning"`` or ``"critical"``.
        options: ``step``, ``resolved``, and W&B's ``level`` and ``wait_duration``.
    """
    if _auto_start and not _live:
        _auto_start[0]()
    if _live:
        _live[-1].alert(title, text, severity, **options)
    elif not _was_called:
        _warn_unwatched("alert")


def finish(exit_code: int | None = None, quiet: Any = None) -> None:
    """End the newest run, and deliver what is left.

    Args:
        exit_code: Other than 0 and None: the run failed.
        quiet: Accepted as in W&B, without effect.
    """
    if _live:
        _live[-1].finish(exit_code)


def __getattr__(name: str) -> Any:
    """Return the newest run, its ``config`` or ``summary``, or a class that is imported on first use."""
    if name in ("Api", "AsyncApi"):
        from . import read

        return getattr(read, name)
    if name in ("Histogram", "Image", "Table", "Text"):
        from . import media

        return getattr(media, name)
    if name not in ("config", "run", "summary"):
        raise AttributeError(f"module 'tocsin' has no attribute {name!r}")
    if _auto_start and not _live and name != "run":
        _auto_start[0]()
    run = _live[-1] if _live else _NoRun()
    return run if name == "run" else getattr(run, name)


def mirror(*trackers: str, alerts: bool = True, steps: str = "tracker") -> None:
    """Record what the script logs to other trackers, and write alerts back to them. Never raises.

    Numbers and arrays of one element arrive under their names and at their steps; media are not read. The
    trackers work as before. Call it once, before the first step; before or after their import, and before or
    after ``watch``. ``tocsin run`` mirrors all trackers (``TOCSIN_MIRROR``).

    Args:
        trackers: ``"tensorboard"``, ``"wandb"``, ``"mlflow"``, ``"trackio"``, ``"aim"``, ``"swanlab"``,
            ``"comet"``; none: all of them.
        alerts: Whether the alerts of the run are written to the trackers.
        steps: ``"tracker"``: values have the step that the script gave the tracker, and the current step if
            it gave none. ``"run"``: all values have the current step, for trackers that count epochs or
            samples.
    """
    if is_disabled():
        return
    try:
        from . import mirrors
    except Exception as error:
        _warn(_NOT_IMPORTED, error)
        return
    mirrors.mirror(trackers or mirrors.TRACKERS, alerts=alerts, steps=steps)


def last_good_checkpoint(
    run: str, *, before: int | None = None, url: str | None = None, token: str | None = None
) -> str | None:
    """Return the path of the newest checkpoint of a run that is good to resume from, or None.

    It was written completely, before the onset of any problem, and is not known to be deleted. This function
    is for scripts that restart a training; unlike the other functions, it raises.

    Args:
        run: The run's id, or its name if only one run has it.
        before: Only checkpoints before this step.
        url: Address of the server; default: ``TOCSIN_URL``, else that of ``tocsin login``, else
            ``http://127.0.0.1:8321``.
        token: A token with the scope ``read``; default: ``TOCSIN_TOKEN``, else that of ``tocsin login``.

    Raises:
        LookupError: There is no such run.
        PermissionError: The token is not valid, or may not read.
        ConnectionError: The server gave no answer.
    """
    from .api.resume import last_good_checkpoint

    return last_good_checkpoint(run, before=before, url=url, token=token)


def _warn_unwatched(call: str = "log") -> None:
    """Warn once that nothing is recorded before ``watch``."""
    global _was_called
    _was_called = True
    if not is_disabled():
        _warn(
            "tocsin.%s was called before tocsin.watch, so it is not recorded. "
            'Call tocsin.watch("project") first.',
            call,
        )


def _warn(text: str, argument: object) -> None:
    """Log a warning, once for each text."""
    if text not in _warned:
        _warned.add(text)
        with contextlib.suppress(Exception):  # importing it may fail, too
            import logging

            logging.getLogger("tocsin").warning(text, argument)


def _prepare_child() -> None:
    """In a child process of ``multiprocessing``, report the training to the parent's run."""
    if "multiprocessing.process" in sys.modules and not is_disabled():
        from .lifecycle.child_processes import is_child, wait_for_training

        if is_child():
            wait_for_training(_begin_child)


def _begin_child(shared: Mapping[str, Any]) -> None:
    """Start this child's part of the parent's run."""
    from .api.startup import begin_child

    begin_child(shared)


_prepare_child()
