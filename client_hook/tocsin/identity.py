"""Who is talking: launch id, run id, attempt key, writer. Reads the environment given and /proc.

A launch is one start of the whole job on all its ranks, so everything here must come out
equal on every rank of one launch (writer apart), and different after a restart.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from .naming import run_of
from .protocol import WriterId

_IMPORTED_NS = time.time_ns()
_RANDOM_LAUNCH = uuid.uuid4().hex
"""One launch id a process where no launcher gives one; ``watch`` ordinals tell its runs apart."""

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_SIZES = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


@dataclass(frozen=True)
class Identity:
    """What hello says of run, attempt and writer."""

    run: str
    """Empty where the server must join ranks by ``rendezvous``."""
    writer: WriterId
    world_size: int
    host: str
    launch: str
    restarts: int
    rendezvous: str


def identify(
    project: str,
    name: str,
    ordinal: int,
    *,
    resume: str | None = None,
    environ: Mapping[str, str] = os.environ,
    launch: str | None = None,
) -> Identity:
    """The identity of the ``ordinal``-th watch of this process (design: words and identity).

    ``launch`` replaces this process's random launch id (tests).
    """
    given = launch_id(environ)
    chosen = given or launch or _RANDOM_LAUNCH
    elastic, requeued = (
        _number(environ, "TORCHELASTIC_RESTART_COUNT"),
        _number(environ, "SLURM_RESTART_COUNT"),
    )
    rank, size = world(environ)
    rendezvous = _rendezvous(environ) if size > 1 and not given else ""
    run = run_of(environ.get("TOCSIN_RUN_ID") or resume or "")
    if not run and not rendezvous:
        run = run_id(project, name, chosen, ordinal)
    return Identity(
        run=run,
        writer=writer_id(attempt_key(chosen, elastic, requeued, ordinal), rank),
        world_size=size,
        host=socket.gethostname(),
        launch=chosen,
        restarts=elastic + requeued,
        rendezvous=rendezvous,
    )


def launch_id(environ: Mapping[str, str]) -> str:
    """torchrun's id, else the Slurm job step, else "" (this launch has no name of its own)."""
    elastic = environ.get("TORCHELASTIC_RUN_ID", "")
    if elastic and elastic != "none":
        return elastic
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", environ.get("SLURM_STEPID", ""))
    return f"{job}.{step}" if job and step else job


def run_id(project: str, name: str, launch: str, ordinal: int) -> str:
    """Equal on all ranks and restarts of a launch: a hash of project, name, launch and ordinal."""
    text = "\0".join((project, name, launch, str(ordinal)))
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def attempt_key(launch: str, elastic: int, requeued: int, ordinal: int) -> str:
    """Launch id and restart counts; a later watch of the same process is an attempt of its own.

    Without the ordinal two watches that share a run (``resume=``, ``TOCSIN_RUN_ID``) would be one
    writer to the server, which would take the second one's records for a resend.
    """
    key = f"{launch}:{elastic}:{requeued}"
    return key if ordinal == 0 else f"{key}:{ordinal}"


def writer_id(attempt: str, rank: int) -> WriterId:
    """This process: (attempt key, rank, boot id, pid, process start)."""
    return WriterId(attempt, rank, boot_id(), os.getpid(), _process_start_ns())


def world(environ: Mapping[str, str]) -> tuple[int, int]:
    """(rank, world size) as the launcher's environment says; (0, 1) without one."""
    rank = next((_number(environ, key) for key in _RANKS if key in environ), 0)
    size = next((_number(environ, key) for key in _SIZES if key in environ), 1)
    return rank, max(size, 1)


def _rendezvous(environ: Mapping[str, str]) -> str:
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    return f"{address}:{port}" if address else ""


def _number(environ: Mapping[str, str], key: str) -> int:
    try:
        return max(int(environ.get(key, "0")), 0)
    except ValueError:
        return 0


def boot_id() -> str:
    """The kernel's name for this boot of the machine (Linux), else the machine's."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return f"{uuid.getnode():x}"


def _process_start_ns() -> int:
    """Start of this process since boot in ns (Linux), else the time of our import.

    With the boot id and the pid it names one process for ever: pids are used again. What the kernel
    leaves open, the part of its tick, is that of our import: a script that replaces itself (``exec``)
    keeps pid and start, and begins to number its records anew.
    """
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return ticks * tick_ns + _IMPORTED_NS % tick_ns
    except (OSError, ValueError, IndexError):
        return _IMPORTED_NS
