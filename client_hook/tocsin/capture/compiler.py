"""What of the hook a ``torch.compile`` meets, and how it stays out of its way.

Inlined into a graph, a wrapper is nothing but the function it wraps: no extra graph break, no guard on
the hook's own state, so no recompilation when a run begins or ends. Called from between two graphs, it
runs as always, and neither it nor what it calls is compiled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _nothing(callback: Any) -> None:
    return None


def _set_eval_frame() -> Callable[[Any], Any]:
    """torch's switch of its compiler for this thread; older and newer ones may lack it."""
    try:
        frames = importlib.import_module("torch._C._dynamo.eval_frame")
        switch: Callable[[Any], Any] = frames.set_eval_frame
        return switch
    except Exception:
        return _nothing


def _compiler(name: str) -> Callable[..., Any]:
    """``torch.compiler``'s function; torch 2.0 and partly 2.1 have it in ``torch._dynamo``."""
    try:
        found: Callable[..., Any] = getattr(importlib.import_module("torch.compiler"), name)
    except (ImportError, AttributeError):
        found = getattr(importlib.import_module("torch._dynamo"), name)
    return found


is_compiling = _compiler("is_compiling")
disable = _compiler("disable")
switch = _set_eval_frame()
"""``before = switch(None)`` turns the compiler off on this thread, ``switch(before)`` back to what it was."""


class Traced:
    """Written to by code that is compiled together with the script: a store costs no graph break."""

    __slots__ = ("clipped",)

    def __init__(self) -> None:
        self.clipped = False
        """A compiled clip ran since this was last looked at."""


traced = Traced()


def leave_out(hook: Callable[..., Any]) -> Callable[..., Any]:
    """``hook`` is called and never traced: traced into a graph it would not fire any more.

    It turns the compiler off by itself (``switch``): torch's own ``disable`` does it in a wrapper that
    costs microseconds at each call, and is taken where torch has no such switch.
    """
    if switch is _nothing:
        return importlib.import_module("torch._dynamo").disable(hook)  # type: ignore[no-any-return]
    hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    keep_out(hook)
    return hook


def keep_out(wrapper: Callable[..., Any]) -> None:
    """``wrapper`` is never compiled by itself. That it is inlined into what is compiled stays possible."""
    try:
        importlib.import_module("torch._dynamo.eval_frame").skip_code(wrapper.__code__)
    except Exception:
        pass
