"""Notice whether the script uses ``torch.compile``, so that other scripts do not pay for it.

Dynamo calls ``TorchPatcher.patch`` whenever a function is about to be compiled. torch caches its result, so
the cache shows whether that has happened before.
"""

from __future__ import annotations

from typing import Any

from . import compiler, patching


def install() -> None:
    """Set ``compiler.used`` from now on."""
    compiler.used = True
    try:
        from torch._dynamo.eval_frame import TorchPatcher

        known: Any = TorchPatcher.patch
        was_used = known.cache_info().currsize > 0
        patching.replace(TorchPatcher, "patch", _watch_patch)
    except (ImportError, AttributeError):
        return  # another version of torch: assume that it is used
    compiler.used = was_used


def _watch_patch(original: Any) -> Any:
    def patch() -> None:
        compiler.used = True
        original.__func__()

    return staticmethod(patch)
