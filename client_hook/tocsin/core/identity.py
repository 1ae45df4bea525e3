"""Identify this process: launch id, run id, attempt key, writer. Reads the given environment and /proc.

A launch is one start of the whole job on all its ranks. Every rank computes the same launch id without
communicating: from the launcher's variables if they identify the job, else from the process that started all
ranks of a machine. The server joins only ranks on several machines without a job id, by their rendezvous
address.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
import uuid
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from ..protocol import WriterId
from .run_fields import host_of, run_of

_IMPORTED_NS = time.time_ns()
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_SIZES = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""Variables for the number of ranks on this machine: torchrun and Ray, DeepSpeed, Open MPI, MPICH."""
_RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
_HOLD_HOSTS = ("PMIX_NAMESPACE", "MASTER_ADDR")
"""Variables of launchers that may hold the name of a host."""
_EXEC_MARKER = "TOCSIN_PROCESS"
"""``pid:start:execs`` of the newest process in this environment that called ``watch``; survives ``exec``."""


@dataclass(frozen=True)
class Identity:
    """Run, attempt and writer, as the handshake sends them."""

    run: str
    """Empty if the server must join ranks by ``rendezvous``."""
    writer: WriterId
    world_size: int
    host: str
    launch: str
    """Empty if the server must join ranks."""
    restarts: int
    rendezvous: str
    project: str = ""
    name: str = ""
    ordinal: int = 0


def identify(
    project: str,
    name: str,
    ordinal: int,
    *,
    resume: str | None = None,
    environ: Mapping[str, str] = os.environ,
    launch: str | None = None,
) -> Identity:
    """Return the identity of the ``ordinal``-th watch of this process.

    Args:
        project: The run's project.
        name: The run's name.
        ordinal: 0 for the first watch of this process.
        resume: Id of an earlier run that this one continues.
        environ: The launcher's variables.
        launch: Used if nothing else identifies this launch; default: this process.
    """
    rank, size = world(environ)
    chosen = launch_id(environ)
    rendezvous = ""
    if not chosen and size > 1:
        chosen = _local_launch(environ)
        rendezvous = "" if chosen else _rendezvous(environ, ordinal)
    counts = [_number(environ, key) for key in _RESTARTS] + [execs(environ)]
    own = chosen or launch or process_id(os.getpid())
    run = run_of(environ.get("TOCSIN_RUN_ID") or resume or "")
    if not run and not rendezvous:
        run = run_id(project, name, own, ordinal)
    return Identity(
        run=run,
        writer=writer_id(attempt_key(own, counts, ordinal), rank),
        world_size=size,
        host=socket.gethostname(),
        launch="" if rendezvous else own,
        restarts=sum(counts),
        rendezvous=rendezvous,
        project=project,
        name=name,
        ordinal=ordinal,
    )


def launch_id(environ: Mapping[str, str]) -> str:
    """Return the launcher's id of this launch: torchrun's id, the Slurm job step or Open MPI's namespace.

    Empty if there is none.
    """
    elastic = environ.get("TORCHELASTIC_RUN_ID", "")
    if elastic and elastic != "none":
        return elastic
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", environ.get("SLURM_STEPID", ""))
    if job:
        return f"{job}.{step}" if step else job
    return environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid") or ""


def _local_launch(environ: Mapping[str, str]) -> str:
    """Return the id of a launch whose ranks all run on this machine; empty if others may run elsewhere.

    torchrun, DeepSpeed, MPI and Ray start the ranks of a machine as children of one process. Lightning's
    rank 0 starts the other ranks, which have a local rank but no global rank.
    """
    if "RANK" not in environ and "LOCAL_RANK" in environ and not _number(environ, "NODE_RANK"):
        return process_id(os.getppid() if _number(environ, "LOCAL_RANK") else os.getpid())
    parent = process_id(os.getppid())
    # Ray's workers of all jobs have the same parent; the rendezvous distinguishes the jobs.
    return f"{parent}@{_rendezvous(environ, 0)}" if parent and _is_one_machine(environ) else ""


def _is_one_machine(environ: Mapping[str, str]) -> bool:
    return any(_number(environ, key) == world(environ)[1] for key in _LOCAL_SIZES)


def run_id(project: str, name: str, launch: str, ordinal: int) -> str:
    """Return a hash of project, name, launch and ordinal, equal on all ranks and restarts of a launch.

    Args:
        project: The run's project.
        name: The run's name.
        launch: The launch id.
        ordinal: 0 for the first watch of the process.
    """
    text = "\0".join((project, name, launch, str(ordinal)))
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def attempt_key(launch: str, restarts: Sequence[int], ordinal: int) -> str:
    """Return launch id and restart counts; a later watch of the same process is a separate attempt.

    Without the ordinal, two watches that share a run (``resume=``, ``TOCSIN_RUN_ID``) would be one writer to
    the server, which would mistake the second one's records for a resend.

    Args:
        launch: The launch id.
        restarts: How often the launcher and ``exec`` restarted the process.
        ordinal: 0 for the first watch of the process.
    """
    key = ":".join([launch, *map(str, restarts)])
    return key if ordinal == 0 else f"{key}:{ordinal}"


def settled(who: Identity) -> Identity:
    """Return ``who`` with rank and world size of torch's process group, once it is initialized.

    For processes that ``torch.multiprocessing`` started, only the process group shows that they are ranks.
    They belong to the launch of their parent, unless the script or the launcher has set the run.
    """
    group = _process_group()
    if group is None:
        return who
    rank, size = group
    found = replace(who, world_size=size, writer=changed(who.writer, rank=rank))
    if who.world_size > 1 or who.launch != process_id(os.getpid()) or not is_multiprocessing_child():
        return found
    launch = process_id(os.getppid())
    hashed = run_id(who.project, who.name, who.launch, who.ordinal)
    run = run_id(who.project, who.name, launch, who.ordinal) if who.run == hashed else who.run
    key = launch + who.writer.attempt.removeprefix(who.launch)
    return replace(found, run=run, launch=launch, writer=changed(found.writer, attempt=key))


def _process_group() -> tuple[int, int] | None:
    """Return (rank, world size) of torch's default process group if it has more than one rank."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        rank, size = int(distributed.get_rank()), int(distributed.get_world_size())
    except Exception:
        return None
    return (rank, size) if size > 1 and rank >= 0 else None


def is_multiprocessing_child() -> bool:
    """Return whether ``multiprocessing`` (``torch.multiprocessing.spawn``) started this process."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def writer_id(attempt: str, rank: int) -> WriterId:
    """Return the id of this process: (attempt key, rank, boot id, pid, process start)."""
    return WriterId(attempt, rank, boot_id(), os.getpid(), _process_start_ns())


def world(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return (rank, world size) from the launcher's environment; (0, 1) without one.

    Lightning's launcher sets only a local rank for its children.
    """
    local = "LOCAL_RANK" if "WORLD_SIZE" in environ and not _number(environ, "NODE_RANK") else ""
    rank = next((_number(environ, key) for key in (*_RANKS, local) if key in environ), 0)
    size = next((_number(environ, key) for key in _SIZES if key in environ), 1)
    return rank, max(size, 1)


def _rendezvous(environ: Mapping[str, str], ordinal: int) -> str:
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    return f"{address}:{port}" + (f"#{ordinal}" if ordinal else "") if address else ""


def _number(environ: Mapping[str, str], key: str) -> int:
    try:
        return max(int(environ.get(key, "0")), 0)
    except ValueError:
        return 0


def boot_id() -> str:
    """Return the kernel's id of this boot (Linux), else an id of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return f"{uuid.getnode():x}"


def process_id(pid: int) -> str:
    """Return a unique id of this process or its parent, which stays the same after ``exec``.

    Empty if the system does not report when the parent started (not Linux).
    """
    ticks = _start_ticks(pid)
    if not ticks:
        return f"{boot_id()}:{pid}:{_IMPORTED_NS}" if pid == os.getpid() else ""
    return f"{boot_id()}:{_pid_namespace()}{pid}:{ticks}"


def _pid_namespace() -> str:
    """Return an id of this container's PID namespace, because containers share the machine's boot id."""
    try:
        return f"{os.stat('/proc/self/ns/pid').st_ino:x}."
    except OSError:
        return ""


def execs(environ: Mapping[str, str]) -> int:
    """Return how often this launch replaced itself by ``exec`` since its first ``watch``."""
    pid, _, rest = environ.get(_EXEC_MARKER, "").partition(":")
    start, _, count = rest.partition(":")
    try:
        if int(pid) == os.getpid():
            return int(count) + (int(start) != _IMPORTED_NS)
        return int(count) if int(pid) == os.getppid() else 0
    except ValueError:
        return 0


def mark_process(environ: MutableMapping[str, str] = os.environ) -> None:
    """Mark the environment, so that a script that replaces itself by ``exec`` counts as a restart."""
    environ[_EXEC_MARKER] = f"{os.getpid()}:{_IMPORTED_NS}:{execs(environ)}"


def _start_ticks(pid: int) -> int:
    """Return the start of a process in clock ticks since boot; 0 if the system does not report it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def _process_start_ns() -> int:
    """Return the start of this process since boot in ns (Linux), else the time of our import.

    Together with the boot id and the pid it identifies one process, because pids are reused. The kernel
    reports whole ticks; the remainder is that of the import time, because a script that replaces itself
    (``exec``) keeps pid and start but numbers its records from 0 again.
    """
    ticks = _start_ticks(os.getpid())
    try:
        tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError):
        return _IMPORTED_NS
    return ticks * tick_ns + _IMPORTED_NS % tick_ns if ticks else _IMPORTED_NS


def named_host(who: Identity, given: str | None, environ: Mapping[str, str] = os.environ) -> Identity:
    """Return the identity with the host name that was chosen, if one was.

    Other texts that contain a host name are then replaced by their hash, which is the same on all ranks: the
    address of the master's host, by which the server joins the ranks of a launch, and Open MPI's namespace
    (``prterun-HOST-PID@1``).

    Args:
        who: The identity of this process.
        given: ``host=`` of ``watch``; None: not given.
        environ: May contain ``TOCSIN_HOSTNAME``.
    """
    if given is None and "TOCSIN_HOSTNAME" not in environ:
        return who
    names = [text for variable in _HOLD_HOSTS if (text := environ.get(variable))]

    def hidden(text: str) -> str:
        for name in names:
            text = text.replace(name, hashlib.blake2b(name.encode(), digest_size=6).hexdigest())
        return text

    writer = changed(who.writer, attempt=hidden(who.writer.attempt))
    host, launch, rendezvous = host_of(given, environ), hidden(who.launch), hidden(who.rendezvous)
    return replace(who, host=host, launch=launch, rendezvous=rendezvous, writer=writer)
