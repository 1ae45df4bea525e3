"""Watch what writes to tensors without increasing their version counters: collectives and CUDA graphs.

Losses and norms on a device are kept by reference until they are copied to the host (``device_values.py``).
``dist.all_reduce(loss)`` after the backward, or the replay of a graph, would change them unnoticed, so the
values are copied before.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from . import patching
from .reading import before_replay, before_write

IN_PLACE = ("all_reduce", "broadcast", "reduce", "recv", "irecv", "scatter")
"""Collectives that write to their first argument. Others write to outputs that the script allocates for them.
"""


def install() -> None:
    """Watch the collectives that the script has imported, and CUDA graphs."""
    distributed = sys.modules.get("torch.distributed.distributed_c10d")
    for name in IN_PLACE:
        collective = getattr(distributed, name, None)
        if collective is not None:
            patching.replace_within(collective, _watch_collective)
    graph = getattr(torch.cuda, "CUDAGraph", object)
    for name in ("capture_begin", "replay"):
        if name in vars(graph):
            patching.replace(graph, name, _watch_graph)


def _watch_collective(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if patching.attached:
            try:
                before_write(args[0] if args else kwargs.get("tensor"))
            except Exception as error:
                patching.report_error("collective", error)
        return original(*args, **kwargs)

    return collective


def _watch_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            before_replay()
        except Exception as error:
            patching.report_error("CUDA graph", error)
        return original(self, *args, **kwargs)

    return call
