"""Let gloo's threads finish before a process group is destroyed.

torch 2.13 passes the Python context of a backward to the collectives that it starts, so a gloo thread needs
the GIL to release the last of them. ``~ProcessGroupGloo`` joins that thread while holding the GIL: a script
that ends right after its last backward hangs if the thread has not run yet. The hook's threads compete for
the GIL and make that more likely, so the main thread releases it once.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from time import sleep
from typing import Any

from . import patching

PAUSE_S = 0.1


def install() -> None:
    """Watch the end of the process group."""
    distributed = sys.modules.get("torch.distributed")
    if hasattr(distributed, "destroy_process_group"):
        patching.replace(distributed, "destroy_process_group", _watch_destroy)


def _watch_destroy(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        try:
            if patching.attached and _has_gloo():
                sleep(PAUSE_S)
        except Exception as error:
            patching.report_error("destroy_process_group", error)
        return original(*args, **kwargs)

    return destroy_process_group


def _has_gloo() -> bool:
    """Return whether the default group may use gloo, alone or for the host next to another backend."""
    distributed = sys.modules["torch.distributed"]
    return bool(distributed.is_initialized() and distributed.get_backend() != "nccl")
