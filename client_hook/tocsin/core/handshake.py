"""Build the handshake: identity, versions, optimizers, scalers, schedulers, configuration."""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any

from .. import protocol
from .identity import Identity, settled

_REPORTED = (
    "tocsin", "torch", "numpy", "lightning", "transformers", "accelerate", "deepspeed",
    "gymnasium", "gym", "stable_baselines3", "torchrl", "tianshou", "pettingzoo", "dm_env",
)  # fmt: skip
"""Libraries whose versions matter to a diagnosis. Those of the second row indicate reinforcement learning."""


@dataclass
class RunInfo:
    """What is known about a run and where it is sent."""

    project: str
    name: str
    identity: Identity
    token: str = ""
    config: Any = None
    tags: list[str] = field(default_factory=list)
    notes: str = ""
    planned_steps: int | None = None
    start_step: int | None = None
    wants: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    is_settled: bool = False
    """Whether the server or the spool knows this writer."""
    described: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """``optimizers``, ``scalers`` and ``schedulers`` as last seen by the training thread."""


def hello(run_info: RunInfo) -> protocol.Hello:
    """Return the current handshake. The sender thread calls this, so it must be fast."""
    who = settle(run_info)
    described = run_info.described
    return protocol.Hello(
        version=protocol.VERSION,
        token=run_info.token,
        project=run_info.project,
        name=run_info.name,
        run=who.run,
        writer=who.writer,
        world_size=who.world_size,
        host=who.host,
        time_ns=time.time_ns(),
        launch=who.launch,
        restarts=who.restarts,
        rendezvous=who.rendezvous,
        versions=run_info.versions,
        optimizers=described.get("optimizers", []),
        scalers=described.get("scalers", []),
        schedulers=described.get("schedulers", []),
        planned_steps=run_info.planned_steps,
        config=run_info.config,
        tags=run_info.tags,
        notes=run_info.notes,
        wants=list(run_info.wants),
    )


def settle(run_info: RunInfo) -> Identity:
    """Return the identity, completed by torch's process group.

    The first call is when delivery starts: a rank that joined its process group after ``watch`` is known by
    then. Later only the world size may grow, since the server knows the writer.
    """
    found = settled(run_info.identity)
    if not run_info.is_settled:
        run_info.identity, run_info.is_settled = found, True
    elif found.world_size > run_info.identity.world_size:
        run_info.identity = replace(run_info.identity, world_size=found.world_size)
    return run_info.identity


def versions() -> dict[str, str]:
    """Return versions of the hook, Python, and the imported libraries that matter to a diagnosis."""
    out = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _REPORTED:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            out[name] = str(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return {**out, "cuda": str(cuda)} if cuda else out
