"""What FSDP's first version hides: its own clip, and that a gradient is only this rank's part.

It is looked for where a script has imported it, never imported for its own sake. Nothing here
communicates: a part's norm is told as ``local``.
"""

from __future__ import annotations

import sys
from typing import Any


def fsdp1() -> Any:
    """``FullyShardedDataParallel``, if the script has it; else None."""
    module = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
    return getattr(module, "FullyShardedDataParallel", None)


def is_part(params: list[Any]) -> bool:
    """Whether FSDP1 has spread these parameters (lists with a gradient each) over ranks.

    A flat parameter knows its whole size. Original parameters lie in it as flat pieces while they are
    spread, in their own shapes where they are not (NO_SHARD, one rank).
    """
    if fsdp1() is None:
        return False
    flattened = [one for one in params if getattr(one, "_fsdp_flattened", False)]
    whole = [one for one in flattened if hasattr(one, "_unpadded_unsharded_size")]
    if whole:
        return any(one.numel() < one._unpadded_unsharded_size.numel() for one in whole)
    return bool(flattened) and all(one.ndim == 1 for one in flattened)


def is_whole(grad: Any) -> bool:
    """Whether a DTensor's local part is all of it: replicated, not spread."""
    return all(place.is_replicate() for place in getattr(grad, "placements", ()))
