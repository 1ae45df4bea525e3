"""What hello says: who, which versions, which optimizers, scalers and schedulers, which configuration."""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any

from . import protocol
from .identity import Identity

VERSION = "0.1.0"

_VERSIONS = {"torch": "torch", "numpy": "numpy", "lightning": "lightning", "transformers": "transformers"}


@dataclass
class Facts:
    """What the script said of a run, and where it is to go."""

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
    described: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """``optimizers``, ``scalers``, ``schedulers`` as last seen by the training thread."""


def hello(facts: Facts) -> protocol.Hello:
    """The hello of this moment. The sender's thread asks for it, so it must cost next to nothing."""
    who = with_group(facts.identity)
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


def with_group(who: Identity) -> Identity:
    """World size of torch's process group where it is larger than the environment says."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return who
        return replace(who, world_size=max(who.world_size, int(distributed.get_world_size())))
    except Exception:
        return who


def versions() -> dict[str, str]:
    """Versions of the hook, Python, and what is imported of what matters to a diagnosis."""
    out = {"tocsin": VERSION, "python": platform.python_version(), "platform": platform.platform()}
    for name, module in _VERSIONS.items():
        version = getattr(sys.modules.get(module), "__version__", None)
        if version is not None:
            out[name] = str(version)
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    return {**out, "cuda": str(cuda)} if cuda else out
