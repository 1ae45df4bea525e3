"""Record the code, the command line, packages and hardware of an attempt, once, when its delivery starts.

This runs on the sampler's thread, so nothing here delays a step. Only rank 0 reports.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from ..core.environment_options import KIND
from ..core.handshake import RunInfo, versions
from ..core.identity import settled
from . import git
from .system_metrics import installed_gpus

CONFIG_BYTES = 48 << 10
"""A larger configuration is not repeated for each attempt."""
PACKAGES_BYTES = 48 << 10
ENTRIES = 20_000
"""Maximum number of directory entries that are read to find the installed packages."""
ARGUMENTS, TEXT = 200, 1_000
"""Maximum number of arguments of the command line, and of characters of one of them or of a variable."""
FINISH_S = 0.5
"""Longest time that the end of a run waits for this."""
VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING"),
    *("CUBLAS_WORKSPACE_CONFIG", "CUDNN_*", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
    *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_NCCL_*"),
    *("TORCHINDUCTOR_*", "TORCHDYNAMO_*", "TORCH_COMPILE_*", "TORCH_CUDA_ARCH_LIST", "TORCH_LOGS"),
    *("NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_*", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_BUFFSIZE"),
    *("NCCL_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_DEBUG", "NCCL_NVLS_ENABLE"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED", "PYTHONOPTIMIZE"),
    *("TOKENIZERS_PARALLELISM", "XLA_FLAGS", "ACCELERATE_MIXED_PRECISION", "FSDP_*", "HIP_VISIBLE_DEVICES"),
    *("HSA_OVERRIDE_GFX_VERSION", "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES"),
)
"""Environment variables that are recorded: they change how a training computes."""


class EnvironmentRecorder:
    """Report the environment of this attempt once, as events of the reporter."""

    def __init__(self, reporter: Any, run_info: RunInfo, parts: Collection[str]) -> None:
        self._reporter = reporter
        self._run_info = run_info
        self._parts = frozenset(parts)
        self._lock = threading.Lock()
        self._left = [self._record, self._record_gpus] if parts else []
        self._done = threading.Event()

    def sample(self) -> None:
        """Record everything but GPUs at the first call, and the GPUs at the second one. Never raises.

        Called by the sampler's thread. A driver may hang, so everything else is recorded before.
        """
        with self._lock:  # held throughout, so that the end of the run waits for a reading in progress
            record = self._left.pop(0) if self._left else None
            if record is None:
                return
            try:
                if settled(self._run_info.identity).writer.rank == 0:
                    record()
            except Exception as error:
                self._reporter.report_error("environment", error)
            if not self._left:
                self._done.set()

    def finish(self) -> None:
        """At the end of a run that has sent something, record the rest; takes at most ``FINISH_S``."""
        if not self._reporter.has_started or not self._parts or self._done.is_set():
            return
        with suppress(RuntimeError):  # no thread can be started while the interpreter shuts down
            threading.Thread(target=self._rest, name="tocsin-environment", daemon=True).start()
            self._done.wait(FINISH_S)

    def _rest(self) -> None:
        self.sample()
        self.sample()

    def _put(self, data: dict[str, Any]) -> None:
        self._reporter.add_event_later(KIND, data)

    def _record(self) -> None:
        parts, clean, config = self._parts, self._reporter.redact, self._run_info.config
        first: dict[str, Any] = {"versions": self._run_info.versions or versions()}
        if isinstance(config, Mapping) and len(msgspec.msgpack.encode(config)) <= CONFIG_BYTES:
            first["config"] = config
        # The handshake has them too, but that of a later attempt replaces it.
        self._put(first | {name: listed for name, listed in self._run_info.described.items() if listed})
        found: dict[str, Any] = {}
        if "command" in parts:
            found["command"] = clean.data(command_line())
        if "variables" in parts:
            found["variables"] = clean.data(variables(os.environ))
        state = git.read(folders(), diff="diff" in parts) if parts & {"git", "diff"} else None
        if state is not None:
            if "diff" in state:
                state["diff"] = clean.text(state["diff"])
            found["git"] = state
        if found:
            self._put(found)
        if "packages" in parts:
            self._put({"packages": packages(sys.path)})

    def _record_gpus(self) -> None:
        found = installed_gpus(os.environ) if "gpu" in self._parts else {}
        if found:
            self._put(found)


def command_line() -> list[str]:
    """Return the script or module with its arguments."""
    words = [str(each)[:TEXT] for each in sys.argv[:ARGUMENTS]]
    original = list(getattr(sys, "orig_argv", ()))
    if "-m" in original[1 : -len(sys.argv) or None]:
        place = original.index("-m")
        words[:1] = [f"-m {original[place + 1]}"[:TEXT]] if place + 1 < len(original) else words[:1]
    return words


def folders() -> list[str]:
    """Return the folder of the script and the working directory."""
    found = []
    script = sys.argv[0] if sys.argv else ""
    if script and script not in ("-c", "-m") and os.path.exists(script):
        found.append(os.path.dirname(os.path.realpath(script)) or ".")
    with suppress(OSError):  # it was deleted
        found.append(os.getcwd())
    return found


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables on the allow-list and those that the user added."""
    more = environ.get("TOCSIN_ENVIRONMENT_VARIABLES", "").split(",")
    allowed = [*VARIABLES, *(name.strip() for name in more if name.strip())]
    return {
        name: value[:TEXT]
        for name, value in sorted(environ.items())
        if any(fnmatchcase(name, pattern) for pattern in allowed)
    }


def packages(paths: Iterable[str]) -> dict[str, str]:
    """Return the installed packages and their versions, by the names of their metadata folders.

    Nothing is opened: reading the metadata of 300 packages would take a training process 100 ms.
    """
    found: dict[str, str] = {}
    left = ENTRIES
    for path in dict.fromkeys(paths):
        for name in _entries(path or "."):
            left -= 1
            if left < 0:
                break
            package, version = _package(name)
            if package and version:
                found.setdefault(package, version)
    size, kept = 0, {}
    for package, version in sorted(found.items()):
        size += len(package) + len(version) + 8
        if size > PACKAGES_BYTES:
            break
        kept[package] = version
    return kept


def _entries(path: str) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                yield entry.name
    except OSError:
        return


def _package(name: str) -> tuple[str, str]:
    """Return package and version of ``torch-2.6.0.dist-info``; empty texts for another entry."""
    stem, _, kind = name.rpartition(".")
    if kind == "egg-info":
        stem = stem.partition("-py")[0]
    elif kind != "dist-info":
        return "", ""
    package, _, version = stem.rpartition("-")
    return package.lower().replace("_", "-"), version
