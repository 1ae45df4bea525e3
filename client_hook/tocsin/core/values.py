"""Numbers out of what a script hands in: Python numbers, NumPy, tensors. Never waits for a CUDA device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..protocol import MOST_STEP

DEEP = 8
"""Of mappings within mappings so many levels."""


def whole(value: Any) -> int | None:
    """``value`` as an ``int`` of 64 bits (floats, NumPy and tensors too), or None for what is none."""
    try:
        found = int(value)
    except Exception:
        return None
    return found if -(1 << 63) <= found < 1 << 63 else None


def step_of(value: Any) -> int | None:
    """Return ``value`` as the number of a step, or None for what is none or beyond ``MOST_STEP``.

    Negative ones are returned: the server refuses them by name.
    """
    found = whole(value)
    return found if found is not None and -MOST_STEP <= found <= MOST_STEP else None


def wholes(given: Any) -> list[int]:
    """The steps of one, of several, or of none; what else is among them is left out."""
    try:
        alone = isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0
        found = [step_of(one) for one in ([given] if alone else given)]
    except Exception:
        return []
    return [one for one in found if one is not None]


def text(value: Any) -> str:
    """``value`` as text that can be sent: half of a surrogate pair becomes a question mark."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def kind_of(value: Any) -> str:
    """What a value is, for a sentence: ``a str``, ``a Tensor of shape (3, 4)``."""
    shape = getattr(value, "shape", None)
    try:
        of = f" of shape {tuple(shape)}" if shape is not None else ""
    except TypeError:
        of = ""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}{of}"


def within(pairs: Iterable[tuple[str, Any]], deep: int = DEEP) -> Iterator[tuple[str, Any]]:
    """The pairs, mappings in them laid out flat: ``a`` of ``{"b": 1.0}`` is ``a/b``; empty ones vanish."""
    for name, value in pairs:
        if isinstance(value, Mapping) and deep:
            yield from within([(f"{name}/{key}", one) for key, one in value.items()], deep - 1)
        else:
            yield name, value
