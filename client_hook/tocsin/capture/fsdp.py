"""FSDP1: its gradient clipping, and gradients that are only one rank's shard.

It is used only if the script has imported it. Nothing here communicates: the norm of a shard is reported as
``local``.
"""

from __future__ import annotations

import sys
from typing import Any


def fsdp1() -> Any:
    """Return ``FullyShardedDataParallel`` if the script has imported it, else None."""
    module = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
    return getattr(module, "FullyShardedDataParallel", None)


def is_part(params: list[Any]) -> bool:
    """Return whether FSDP1 has sharded these parameters, which all have a gradient.

    A flat parameter stores its unsharded size. Original parameters are flat pieces of it while they are
    sharded, and otherwise keep their own shapes (NO_SHARD, one rank).
    """
    if fsdp1() is None:
        return False
    flattened = [one for one in params if getattr(one, "_fsdp_flattened", False)]
    whole = [one for one in flattened if hasattr(one, "_unpadded_unsharded_size")]
    if whole:
        return any(one.numel() < one._unpadded_unsharded_size.numel() for one in whole)
    return bool(flattened) and all(one.ndim == 1 for one in flattened)


def is_whole(grad: Any) -> bool:
    """Return whether a DTensor's local part is all of it: replicated, not sharded."""
    return all(place.is_replicate() for place in getattr(grad, "placements", ()))
