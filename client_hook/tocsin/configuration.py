"""A script's configuration as plain data: bounded in depth, in size and in text. Pure; never raises."""

from __future__ import annotations

import dataclasses
import enum
import numbers
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

DEPTH = 12
ITEMS = 10_000
TEXT = 4_096
ARRAY = 64
"""Deeper, more, longer than this is cut, and the cut says so; larger arrays are told by shape."""

_INT64 = 1 << 63


def plain(value: Any) -> Any:
    """``value`` as None, bool, int, float, str, list and dict with str keys.

    Takes argparse namespaces, dataclasses, omegaconf and other mappings, paths, enums, arrays
    and tensors (small ones in host memory by value, others by shape), anything else by its
    ``repr``. At most DEPTH levels, ITEMS leaves and TEXT characters a string.
    """
    return _Reading().of(value, DEPTH)


def words(given: Iterable[Any]) -> tuple[str, ...]:
    """The texts among ``given`` and in the lists among it."""
    flat = (one for some in given for one in (some if isinstance(some, (list, tuple, set)) else [some]))
    return tuple(one for one in flat if isinstance(one, str))


class _Reading:
    """One pass over a configuration; counts what it has taken and knows the containers it is in."""

    def __init__(self) -> None:
        self.left = ITEMS
        self.inside: set[int] = set()

    def of(self, value: Any, depth: int) -> Any:
        try:
            return self._of(value, depth)
        except Exception as error:
            return f"<{type(value).__name__}: could not be read: {type(error).__name__}>"

    def _of(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            return "..."
        known, leaf = _leaf(value)
        if known:
            return leaf
        if depth <= 0 or id(value) in self.inside:
            return "..."
        self.inside.add(id(value))
        try:
            return self._container(value, depth - 1)
        finally:
            self.inside.discard(id(value))

    def _container(self, value: Any, depth: int) -> Any:
        pairs = _pairs(value)
        if pairs is not None:
            return {_cut(str(key)): self.of(item, depth) for key, item in self._bounded(pairs)}
        if _is_array(value):
            return self.of(value.tolist(), depth) if _is_small(value) else _shape(value)
        if isinstance(value, (list, tuple, set, frozenset, range)) or _is_list_config(value):
            return [self.of(item, depth) for item in self._bounded(value)]
        return _cut(_repr(value))

    def _bounded(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self.left <= 0:
                return
            yield item


def _leaf(value: Any) -> tuple[bool, Any]:
    """(True, plain value) for what has no parts."""
    if isinstance(value, enum.Enum):
        return True, value.name
    if isinstance(value, str):
        return True, _cut(str(value))
    if value is None or isinstance(value, bool):
        return True, value
    if isinstance(value, int):
        return True, int(value) if -_INT64 <= value < _INT64 else _cut(hex(value))
    if isinstance(value, numbers.Real):
        return True, float(value)
    if isinstance(value, (PurePath, bytes)):
        return True, _cut(str(value))
    return False, None


def _pairs(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Keys and values of what is like a mapping, else None."""
    if isinstance(value, Mapping):
        return value.items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if isinstance(value, type):
        return None
    for reading in ("items", "model_dump"):
        if callable(getattr(value, reading, None)):
            got = getattr(value, reading)()
            return got.items() if isinstance(got, Mapping) else list(got)
    if any(cls.__name__.endswith("Namespace") for cls in type(value).__mro__):
        return list(vars(value).items())
    return None


def _is_list_config(value: Any) -> bool:
    """omegaconf's ListConfig and its like."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, type)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and callable(getattr(value, "tolist", None))


def _is_small(value: Any) -> bool:
    """Few values, in host memory: reading a device tensor would wait for the device."""
    device = getattr(value, "device", "cpu")
    size = 1
    for length in value.shape:
        size *= int(length)
    return size <= ARRAY and str(getattr(device, "type", device)) == "cpu"


def _shape(value: Any) -> str:
    return f"{type(value).__name__}{tuple(value.shape)} {value.dtype}"


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _cut(text: str) -> str:
    text = text if len(text) <= TEXT else text[:TEXT] + "..."
    return text.encode("utf-8", "replace").decode("utf-8")
