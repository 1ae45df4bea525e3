"""Keep the hook out of ``torch.compile``.

Inlined into a graph, a wrapper is only the function that it wraps: there is no additional graph break and no
guard on the hook's state, so no recompilation when a run begins or ends. Between two graphs it runs as usual,
and neither it nor what it calls is compiled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _nothing(callback: Any) -> None:
    return None


def _set_eval_frame() -> Callable[[Any], Any]:
    """Return torch's switch of the compiler for this thread. Some versions have none."""
    try:
        frames = importlib.import_module("torch._C._dynamo.eval_frame")
        switch: Callable[[Any], Any] = frames.set_eval_frame
        return switch
    except Exception:
        return _nothing


def _compiler(name: str) -> Callable[..., Any]:
    """Return a function of ``torch.compiler``, which torch 2.0 and partly 2.1 have in ``torch._dynamo``."""
    try:
        found: Callable[..., Any] = getattr(importlib.import_module("torch.compiler"), name)
    except (ImportError, AttributeError):
        found = getattr(importlib.import_module("torch._dynamo"), name)
    return found


is_compiling = _compiler("is_compiling")
disable = _compiler("disable")
switch = _set_eval_frame()
"""``before = switch(None)`` disables the compiler on this thread, ``switch(before)`` restores it."""


used = True
"""Whether Dynamo may have compiled anything in this process (see ``compiler_use.py``). As long as it has not,
the wrappers neither ask whether they are being compiled nor switch the compiler off."""


class Traced:
    """Flags that compiled code sets. A store causes no graph break."""

    __slots__ = ("clipped",)

    def __init__(self) -> None:
        self.clipped = False
        """Whether a compiled clip ran since the last check."""


traced = Traced()


def leave_out(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``hook`` run outside of compiled graphs, because traced into a graph it would not be called.

    The hook disables the compiler itself with ``switch``. torch's own ``disable`` costs microseconds at each
    call, and is used only if there is no such switch.
    """
    if switch is _nothing:
        return importlib.import_module("torch._dynamo").disable(hook)  # type: ignore[no-any-return]
    hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    keep_out(hook)
    return hook


def keep_out(wrapper: Callable[..., Any]) -> None:
    """Never compile ``wrapper`` by itself. It can still be inlined."""
    try:
        importlib.import_module("torch._dynamo.eval_frame").skip_code(wrapper.__code__)
    except Exception:
        pass
