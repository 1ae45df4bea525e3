"""Start a run: identity, sender, capture. Never raises: a run that cannot start is a NoRun."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .. import mirrors
from ..core.config import keyed, settings_of
from ..core.environment_options import PARTS, parts_of
from ..core.handshake import RunInfo, hello
from ..core.identity import (
    Identity,
    identify,
    is_multiprocessing_child,
    mark_process,
    named_host,
    process_id,
    settled,
    world,
)
from ..core.process_state import active_runs as live
from ..core.redaction import Redactor, redactor
from ..core.run_fields import count_of, name_of, notes_of, seconds_of, tags_of, unique_name
from ..core.script import project_of
from ..core.server_choice import chosen_token, chosen_url
from ..core.values import kind_of, whole
from ..lifecycle import child_processes, first_training, sigterm
from ..transport.outbox import Outbox
from .attachment import attach, follow_torch
from .console import AlertCounter, is_quiet, is_recorded, write
from .no_run import NoRun
from .reporter import LOG, RecordSink, RunReporter, Transport
from .run import Run
from .sender_callbacks import SenderCallbacks

EXIT_S = 3.0
"""Default maximum time that ``finish`` waits, s. It may take 1 s longer."""
LINGER_S = 120.0
"""Default maximum time that a finished run waits while the server keeps acknowledging, s."""
MODEL = (
    "tocsin.watch: the first argument is a model, expected a project. If this was wandb.watch(model), remove "
    "the call: gradient norms are recorded without it."
)

_begun = 0
"""Ordinal of the next watch of this process: part of the run's identity."""


def begin(
    given_project: str | None, *, ranks: str | int | Collection[int], parallel: bool, **options: Any
) -> Run | NoRun:
    """Return a run, or a NoRun with a warning why. Other runs are finished unless ``parallel`` is True.

    Args:
        given_project: Project of the run; None: that of the script.
        ranks: ``"all"``, or the rank or ranks that report.
        parallel: Keep the other runs of this process active.
        options: The other parameters of ``tocsin.watch``.
    """
    global _begun
    project = name = ""
    if hasattr(given_project, "parameters"):
        LOG.warning(MODEL)
        if live:
            newest: Run = live[-1]
            return newest
        given_project = None
    try:
        chosen = project_of(os.environ) if given_project is None else given_project
        project = name_of(chosen, "project") or "unnamed"
        given = options.pop("name")
        options["is_named"] = bool(given)
        name = name_of(given or default_name(project), "name") or project
        if not _is_wanted(ranks) or _is_reimported():
            return NoRun(project, name, options.get("config"))
        first_training.stop_waiting()
        if not parallel:
            finish_live()
        ordinal, _begun = _begun, _begun + 1
        return _begin(project, name, ordinal, **options)
    except Exception as error:
        LOG.warning("tocsin: run %s could not be started: %s. Training continues.", name, error)
        return NoRun(project, name, options.get("config"))


def finish_live() -> None:
    """Finish the active runs of this process, because the next training of a sweep begins."""
    for run in tuple(live):
        run.replace()


def _begin(
    project: str,
    name: str,
    ordinal: int,
    *,
    config: Any,
    tags: Collection[str],
    notes: str,
    url: str | None,
    token: str | None,
    spool_dir: Any,
    exit_timeout: float | None,
    resume: str | None,
    planned_steps: int | None,
    actions: str | Collection[str] = (),
    host: str | None = None,
    redact: bool | str | Collection[str] | None = None,
    environment: bool | str | Collection[str] | None = None,
    console: bool | None = None,
    quiet: bool | None = None,
    is_named: bool = True,
    identity: Identity | None = None,
    outbox: RecordSink | None = None,
    sender: Transport | None = None,
    **capture: Any,
) -> Run:
    from ..system.environment import EnvironmentRecorder

    capture["start_step"] = count_of(capture["start_step"], "start_step")
    clean = redactor(redact)
    is_parent = capture["patch"] and identity is None and sender is None
    identity = settled(identity or identify(project, name, ordinal, resume=resume))
    run_info = RunInfo(
        project=project,
        name=name if is_named else unique_name(name, _seed(identity)),
        identity=named_host(identity, host),
        token=chosen_token(token),
        config=clean.data(_config_of(config)),
        tags=tags_of(tags),
        notes=clean.text(notes_of(notes)),
        planned_steps=count_of(planned_steps, "planned_steps"),
        start_step=capture["start_step"],
    )
    mark_process()
    box = outbox if outbox is not None else Outbox()
    # Only one process writes to the terminal; the tests' own sender writes nothing.
    problems = AlertCounter() if sender is None and not identity.writer.rank and not is_quiet(quiet) else None
    callbacks = SenderCallbacks(problems)
    parts = parts_of(environment) if sender is None else frozenset[str]()
    has_console = capture["patch"] and sender is None and is_recorded(console)
    has_cells = sender is None and "IPython" in sys.modules
    if sender is None:
        sender = _sender(box, run_info, callbacks, clean, url, spool_dir, exit_timeout)
    reporter = RunReporter(box, sender)
    reporter.redact = clean
    reporter.checkpoints.rank = identity.writer.rank
    recorder = EnvironmentRecorder(reporter, run_info, parts)
    reporter.on_end += (reporter.checkpoints.last_look, mirrors.end, recorder.finish)
    callbacks.begin(reporter, recorder, lambda: (run.url, getattr(sender, "address", "")))
    wanted = {actions} if isinstance(actions, str) else actions or ()
    try:
        run = Run(reporter, run_info, attach(reporter, run_info, **capture), wanted, config)
    except Exception:
        reporter.detach()  # undo the patches made so far
        raise
    share = None
    if is_parent:
        given = {"url": url, "token": token, "spool_dir": spool_dir, "exit_timeout": exit_timeout}
        given |= {"host": host, "grad_norm": capture["grad_norm"], "console": console}
        given |= _for_children(parts, redact)
        share = partial(child_processes.share_with_children, run_info, given, begin_child)
    follow_torch(run, reporter, run_info, share, capture)
    mirrors.begin(run)
    if capture["patch"]:
        sigterm.install()
    if has_cells:
        _watch_cells(reporter)
    if problems is not None:
        _announce(run, problems)
    if has_console:
        _record_console(reporter, run_info)
    return run


def _sender(
    box: Any,
    run_info: RunInfo,
    callbacks: SenderCallbacks,
    redact: Redactor,
    url: str | None,
    spool_dir: Any,
    exit_timeout: float | None,
) -> Transport:
    """Return what delivers the run's queue; it starts with the first record."""
    from ..spool.segments import default_dir
    from ..transport.sender import Sender

    return Sender(
        box,
        lambda: hello(run_info),
        url=chosen_url(url),
        spool_dir=Path(spool_dir) if spool_dir else default_dir(),
        exit_timeout=seconds_of(exit_timeout, EXIT_S),
        linger_s=LINGER_S if exit_timeout is None else 0.0,
        on_message=callbacks.take,
        sampler=callbacks.sample,
        phase=callbacks.phase,
        redact=redact,
    )


def _announce(run: Run, problems: AlertCounter) -> None:
    """Show the run's address in the notebook or the terminal, and count the alerts for the last line."""
    run.problems = problems
    run.want_alerts()
    if not run.show_in_notebook():
        write(f'watching "{run.name}" (project {run.project}) at {run.url}')


def _watch_cells(reporter: RunReporter) -> None:
    try:
        from ..notebook import watch_cells

        watch_cells(live)
    except Exception as error:
        reporter.report_error("notebook", error)


def _record_console(reporter: RunReporter, run_info: RunInfo) -> None:
    try:
        reporter.record_console(lambda: run_info.identity.writer.rank)
        if "IPython" in sys.modules:
            from ..media.console import resume
            from ..notebook import before_cells

            before_cells(resume)
    except Exception as error:
        reporter.report_error("console", error)


def _for_children(parts: Collection[str], redact: Any) -> dict[str, Any]:
    """Return the options of what is recorded and hidden, as plain data for child processes."""
    return {
        "environment": [name if name in parts else f"-{name}" for name in PARTS],
        "redact": redact if redact is None or isinstance(redact, (bool, str)) else list(redact),
    }


def begin_child(shared: Mapping[str, Any]) -> Run:
    """Start this process's part of the run of its parent process; see ``child_processes``."""
    options = dict(shared)
    project, name = options.pop("project"), options.pop("name")
    identity = child_processes.child_identity(options.pop("identity"), project, name)
    defaults: dict[str, Any] = {
        "resume": None,
        "optimizers": None,
        "scalers": None,
        "model": None,
        "primary": None,
    }
    return _begin(
        project, name, identity.ordinal, identity=identity, patch=True, quiet=True, **defaults, **options
    )


def _config_of(config: Any) -> Any:
    """Return the settings of a script as a mapping; warn if they have no names."""
    read = settings_of(config)
    settings = keyed(read)
    if settings is not read:
        LOG.warning(
            "tocsin: config is %s, expected a mapping such as vars(args) or dataclasses.asdict(settings). "
            'It is shown under "value".',
            kind_of(config),
        )
    return settings


def _seed(who: Identity) -> str:
    """Return a text that is unique to the run and equal on its ranks. Worker processes use their parent's."""
    if is_multiprocessing_child():
        return f"{process_id(os.getppid())}:{who.ordinal}"
    return who.run or f"{who.rendezvous}:{who.ordinal}"


def default_name(project: str) -> str:
    """Return the name of the notebook, script, or package that ``python -m`` runs, or else the project's."""
    if "IPython" in sys.modules:
        from ..notebook import notebook_name, shell

        if shell() is not None:
            return notebook_name() or "notebook"
    path = Path(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-", "-c", "-m") else Path()
    return (path.parent.name if path.stem == "__main__" else path.stem) or str(project)


def _is_wanted(ranks: str | int | Collection[int]) -> bool:
    rank, _ = world(os.environ)
    if ranks is None or (isinstance(ranks, str) and ranks == "all"):
        return True
    several = ranks if isinstance(ranks, Iterable) and not isinstance(ranks, str) else [ranks]
    chosen = {whole(one) for one in several}
    if None in chosen:
        raise ValueError(f'ranks: expected "all", a rank or a list of ranks, got {ranks!r}')
    return rank in chosen


def _is_reimported() -> bool:
    """Return whether a spawned worker imports the script again, so that this ``watch`` is its parent's."""
    main = sys.modules.get("__mp_main__")
    if main is None:
        return False
    return getattr(getattr(main, "__spec__", None), "_initializing", False) or _is_on_stack("__mp_main__")


def _is_on_stack(module: str) -> bool:
    frame = sys._getframe(1) if hasattr(sys, "_getframe") else None
    while frame is not None:
        if frame.f_globals.get("__name__") == module and frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False
