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
class Facts:
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


def hello(facts: Facts) -> protocol.Hello:
    """Return the present handshake. The sender thread calls this, so it must be fast."""
    who = settle(facts)
    described = facts.described
    return protocol.Hello(
        version=protocol.VERSION,
        token=facts.token,
        project=facts.project,
        name=facts.name,
        run=who.run,
        writer=who.writer,
        world_size=who.world_size,
        host=who.host,
        time_ns=time.time_ns(),
        launch=who.launch,
        restarts=who.restarts,
        rendezvous=who.rendezvous,
        versions=facts.versions,
        optimizers=described.get("optimizers", []),
        scalers=described.get("scalers", []),
        schedulers=described.get("schedulers", []),
        planned_steps=facts.planned_steps,
        config=facts.config,
        tags=facts.tags,
        notes=facts.notes,
        wants=list(facts.wants),
    )


def settle(facts: Facts) -> Identity:
    """Return the identity, completed by torch's process group.

    The first call is when delivery starts: a rank that joined its process group after ``watch`` is known by
    then. Later only the world size may grow, since the server knows the writer.
    """
    found = settled(facts.identity)
    if not facts.is_settled:
        facts.identity, facts.is_settled = found, True
    elif found.world_size > facts.identity.world_size:
        facts.identity = replace(facts.identity, world_size=found.world_size)
    return facts.identity


def versions() -> dict[str, str]:
    """Return versions of the hook, Python, and the imported libraries that matter to a diagnosis."""
    out = {"python": platform.python_version(), "platform": platform.platform()}
    for name in _REPORTED:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            out[name] = str(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return {**out, "cuda": str(cuda)} if cuda else out
