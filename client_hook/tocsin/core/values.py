"""Convert values that a script passes: integers, step numbers, text, nested mappings; write counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..protocol import MOST_STEP

DEEP = 8
"""Maximum depth of nested mappings."""


def whole(value: Any) -> int | None:
    """Return ``value`` as a 64-bit ``int`` (also floats, NumPy, tensors), or None if it is not a number."""
    try:
        found = int(value)
    except Exception:
        return None
    return found if -(1 << 63) <= found < 1 << 63 else None


def step_of(value: Any) -> int | None:
    """Return ``value`` as a step number, or None if it is not one or is beyond ``MOST_STEP``.

    Negative numbers are returned, because the server rejects them with a reason.
    """
    found = whole(value)
    return found if found is not None and -MOST_STEP <= found <= MOST_STEP else None


def wholes(given: Any) -> list[int]:
    """Return the step numbers in a value or a collection of values; anything else is omitted."""
    try:
        alone = isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0
        found = [step_of(one) for one in ([given] if alone else given)]
    except Exception:
        return []
    return [one for one in found if one is not None]


def text(value: Any) -> str:
    """Return ``value`` as text that can be encoded. Unpaired surrogates become question marks."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def kind_of(value: Any) -> str:
    """Return the type of a value for messages, such as ``a str`` or ``a Tensor of shape (3, 4)``."""
    shape = getattr(value, "shape", None)
    try:
        of = f" of shape {tuple(shape)}" if shape is not None else ""
    except TypeError:
        of = ""
    name = type(value).__name__
    if type(value) is int and value.bit_length() > 64:
        of = " of more than 64 bits"
    if "complex" in str(getattr(value, "dtype", "")) and "complex" not in name:
        name = f"complex {name}"
    return "None" if value is None else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}{of}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 step``, ``1,200 steps``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def within(pairs: Iterable[tuple[str, Any]], deep: int = DEEP) -> Iterator[tuple[str, Any]]:
    """Yield the pairs with nested mappings flattened: ``a`` of ``{"b": 1.0}`` becomes ``a/b``."""
    for name, value in pairs:
        if isinstance(value, Mapping) and deep:
            yield from within([(f"{name}/{key}", one) for key, one in value.items()], deep - 1)
        else:
            yield name, value
