"""Convert a script's configuration to plain data of bounded depth and size. Pure; never raises."""

from __future__ import annotations

import dataclasses
import enum
import numbers
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

DEPTH = 12
ITEMS = 10_000
TEXT = 4_096
ARRAY = 64
"""Limits. What exceeds them is truncated and marked; larger arrays are described by their shape."""

READINGS = ("items", "model_dump", "_asdict", "to_dict")
"""Methods to read mappings, pydantic models, named tuples and configurations of transformers."""

_INT64 = 1 << 63


def plain(value: Any) -> Any:
    """Return ``value`` as None, bool, int, float, str, list and dict with str keys.

    Supports argparse namespaces, dataclasses, omegaconf and other mappings, paths, enums, arrays and tensors
    (small ones in host memory by value, others by shape); everything else by its ``repr``. At most DEPTH
    levels, ITEMS leaves and TEXT characters per string.
    """
    return _Reading().of(value, DEPTH)


def settings_of(config: Any) -> Any:
    """Return a script's configuration as plain data; for a class, module or plain object, its attributes.

    Objects in it are read the same way if their class is from the same module. A class in it is shown by its
    name (``optimizer = AdamW``), unless it is nested: ``class Config: class Model: ...``.
    """
    try:
        found = _attributes(config)
    except Exception:
        found = None
    cls = config if isinstance(config, type) else type(config)
    reading = _Reading("" if found is None else cls.__module__)
    return reading.of(found or config, DEPTH)


def keyed(settings: Any) -> Any:
    """Return ``settings`` as a mapping; a value without keys is put under ``value``."""
    return settings if settings is None or isinstance(settings, dict) else {"value": settings}


def words(given: Iterable[Any]) -> tuple[str, ...]:
    """Return the texts in ``given`` and in lists in it."""
    flat = (one for some in given for one in (some if isinstance(some, (list, tuple, set)) else [some]))
    return tuple(one for one in flat if isinstance(one, str))


class _Reading:
    """One conversion: counts its leaves, and knows the containers that it is in."""

    def __init__(self, module: str = "") -> None:
        self.module = module
        """Plain objects of classes of this module are read by their attributes."""
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
        cls = value if isinstance(value, _Nested) else type(value)
        if self.module and cls.__module__ == self.module:
            found = _attributes(value.cls if isinstance(value, _Nested) else value)
            if found:
                return self._container(found, depth)
        return _cut(_repr(value.cls if isinstance(value, _Nested) else value))

    def _bounded(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self.left <= 0:
                return
            yield item


def _leaf(value: Any) -> tuple[bool, Any]:
    """Return (True, plain value) for a value without parts, else (False, None)."""
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
    """Return keys and values of a mapping or a similar object, else None."""
    if isinstance(value, Mapping):
        return items_of(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if isinstance(value, type):
        return None
    for reading in READINGS:
        if callable(getattr(value, reading, None)):
            got = getattr(value, reading)()
            return got.items() if isinstance(got, Mapping) else list(got)
    if any(cls.__name__.endswith("Namespace") for cls in type(value).__mro__):
        return list(vars(value).items())
    return None


def items_of(value: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the items one by one. In a DictConfig, some may be missing or refer to what is not there."""
    for key in value:
        try:
            item = value[key]
        except Exception as error:
            kind = type(error).__name__
            item = "???" if kind == "MissingMandatoryValue" else f"<could not be read: {kind}>"
        yield key, item


class _Nested:
    """A class that is defined in another one, and is part of the configuration."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.__module__ = cls.__module__


def _attributes(config: Any) -> dict[str, Any] | None:
    """Return the public settings of a class, a module or a plain object; None for other values."""
    if isinstance(config, type):
        found = _defaults(config)
    elif isinstance(config, types.ModuleType):
        found = {name: one for name, one in vars(config).items() if not isinstance(one, type)}
    elif (
        _leaf(config)[0]
        or isinstance(config, (list, tuple, set, frozenset, range))
        or _is_array(config)
        or _is_list_config(config)
        or callable(config)
        or _pairs(config) is not None
    ):
        return None
    else:
        slots = [name for cls in type(config).__mro__ for name in _slots(cls) if hasattr(config, name)]
        own = {name: getattr(config, name) for name in slots}
        found = {**_defaults(type(config)), **own, **getattr(config, "__dict__", {})}
    return {name: one for name, one in found.items() if name[:1] != "_" and not isinstance(one, _NO_SETTINGS)}


def _defaults(cls: type) -> dict[str, Any]:
    """Return the attributes of a class and its bases, and the defaults of dataclasses and pydantic models."""
    found: dict[str, Any] = {}
    if cls.__module__ in ("builtins", "typing"):
        return found
    for base in reversed(cls.__mro__[:-1]):
        for name, one in vars(base).items():
            is_nested = isinstance(one, type) and one.__qualname__ == f"{base.__qualname__}.{name}"
            found[name] = _Nested(one) if is_nested else one
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        if field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    fields = getattr(cls, "model_fields", None)
    for name, field in fields.items() if isinstance(fields, Mapping) else ():
        if not field.is_required():
            found[name] = field.get_default(call_default_factory=True)
    if fields:
        found = {name: one for name, one in found.items() if name in fields}
    return found


def _slots(cls: type) -> tuple[str, ...]:
    slots = getattr(cls, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


_NO_SETTINGS = (
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
    *(types.MemberDescriptorType, types.GetSetDescriptorType, property, classmethod, staticmethod),
)


def _is_list_config(value: Any) -> bool:
    """Return whether it is similar to a list, such as omegaconf's ListConfig."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, type)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and callable(getattr(value, "tolist", None))


def _is_small(value: Any) -> bool:
    """Return whether it has few values in host memory. Reading a device tensor would wait."""
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
