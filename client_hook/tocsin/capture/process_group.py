"""Make room for gloo's threads before a process group is destroyed.

torch 2.13 hands the Python context of a backward to the collectives that it starts, so that a gloo thread
needs the GIL to release the last of them. ``~ProcessGroupGloo`` joins that thread with the GIL held: a
script that ends right after its last backward hangs if the thread has not had its turn. The hook's own
threads compete for the GIL and make that likelier, so the main thread lets go of it once, here.
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
            patching.trouble("destroy_process_group", error)
        return original(*args, **kwargs)

    return destroy_process_group


def _has_gloo() -> bool:
    """Whether the default group may use gloo: on its own, or for the host beside another backend."""
    distributed = sys.modules["torch.distributed"]
    return bool(distributed.is_initialized() and distributed.get_backend() != "nccl")
