"""Name optimizers after the part of the model that they train, instead of ``opt2``.

The name is that of an attribute (``self.generator`` of a module or a trainer), of a variable of the main
script, or of the model's class. Optimizers of the same part are distinguished by their classes, or else by
numbers.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 40
PLAIN = {
    "module", "model", "net", "network", "main", "layers", "self", "policy", "modules", "backbone",
    "sequential", "module_list", "module_dict", "data_parallel", "distributed_data_parallel", "linear",
    "optimized_module",
}  # fmt: skip
"""Names that do not describe the purpose of a part."""
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
_RESERVED = re.compile(r"(?:g|opt)?\d+\Z")
"""``g1`` is a parameter group, ``opt2`` the second optimizer without a name."""

Place = tuple[int, tuple[str, ...]]
"""The outermost module that contains a parameter, and the path to the module that holds it."""


def labels(optimizers: Iterable[Any], modules: Iterable[Any]) -> dict[int, str]:
    """Return id of an optimizer -> its name; optimizers without a specific name are omitted.

    Args:
        optimizers: All that the run knows.
        modules: Every live module.
    """
    every = list(optimizers)
    roots = outermost(modules)
    places = _places(roots)
    held = {id(one): _held(one, places) for one in every}
    count: dict[int, int] = {}
    for where in held.values():
        for root in {root for root, _ in where}:
            count[root] = count.get(root, 0) + 1
    found = {key: _label(where, roots, count) for key, where in held.items()}
    for name, shared in _groups(found):
        if not name:
            continue
        for key in shared:
            found[key] = next((_snake(type(one).__name__) for one in every if id(one) == key), "")
        if len({found[key] for key in shared}) < len(shared):
            found.update(dict.fromkeys(shared, ""))
    unique = _groups(found, all_of=True)
    return {keys[0]: name for name, keys in unique if len(keys) == 1 and name}


def outermost(modules: Iterable[Any]) -> list[Any]:
    """Return the ``modules`` that are not part of another one."""
    every = list(modules)
    inner = {id(child) for module in every for child in module._modules.values() if child is not None}
    return [module for module in every if id(module) not in inner]


def _places(roots: list[Any]) -> dict[int, Place]:
    found: dict[int, Place] = {}
    for number, root in enumerate(roots):
        for path, module in root.named_modules():
            parts = tuple(path.split(".")) if path else ()
            for param in module._parameters.values():
                if param is not None:
                    found.setdefault(id(param), (number, parts))
    return found


def _held(optimizer: Any, places: Mapping[int, Place]) -> dict[Place, int]:
    """Return where its parameters are, and the number of elements there."""
    found: dict[Place, int] = {}
    for group in optimizer.param_groups:
        for param in group["params"]:
            place = places.get(id(param))
            if place is not None and not hasattr(param, "materialize"):
                found[place] = found.get(place, 0) + param.numel()
    return found


def _label(held: Mapping[Place, int], roots: list[Any], count: Mapping[int, int]) -> str:
    """Return the innermost part that has all; if others train parts of it, the one with most elements."""
    inside = sorted({root for root, _ in held})
    if not inside:
        return ""
    if len(inside) > 1:
        return _common([_name_of(roots[root]) for root in inside])
    root = inside[0]
    paths = [path for _, path in held]
    shared = _prefix(paths)
    if not any(_is_specific(part) for part in shared) and count[root] > 1:
        children: dict[str, int] = {}
        for (_, path), size in held.items():
            rest = path[len(shared) :]
            if rest:
                children[rest[0]] = children.get(rest[0], 0) + size
        shared = (*shared, *([max(children, key=lambda name: children[name])] if children else []))
    name = next((part for part in reversed(shared) if _is_specific(part)), "")
    return name or _name_of(roots[root])


def _name_of(root: Any) -> str:
    """Return a variable of the main script, or an attribute of an object, or the class of ``root``."""
    script = vars(sys.modules.get("__main__", sys))
    variable = next((name for name, value in tuple(script.items()) if value is root), "")
    if _is_specific(variable):
        return variable
    return next(
        (name for name in (*_attributes_of(root), _snake(type(root).__name__)) if _is_specific(name)), ""
    )


def _attributes_of(root: Any) -> list[str]:
    """Return the attributes of other objects that contain it, such as ``netG`` of a trainer."""
    holders = [one for one in gc.get_referrers(root) if one is not root]
    held = [one if type(one) is dict else getattr(one, "__dict__", None) for one in holders]
    return sorted(
        name
        for one in held
        if type(one) is dict
        for name, value in tuple(one.items())
        if value is root and type(name) is str
    )


def _prefix(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    first, last = min(paths), max(paths)
    length = next((k for k, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    return first[:length] if length is not None else first[: min(len(first), len(last))]


def _common(names: list[str]) -> str:
    """Return the common beginning of several names: ``qf`` of ``qf1`` and ``qf2``."""
    first, last = min(names), max(names)
    length = next((k for k, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    name = (first if length is None else first[:length]).strip("_0123456789")
    return name if len(name) > 1 and _is_specific(name) else ""


def _is_specific(name: str) -> bool:
    plain = name.strip("_").lower()
    return (
        bool(_WORD.match(name)) and len(name) <= LONGEST and plain not in PLAIN and not _RESERVED.match(plain)
    )


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _groups(found: Mapping[int, str], *, all_of: bool = False) -> list[tuple[str, list[int]]]:
    """Return the groups with the same name. ``all_of``: also names that occur once."""
    by_name: dict[str, list[int]] = {}
    for key, name in found.items():
        by_name.setdefault(name, []).append(key)
    return [(name, keys) for name, keys in by_name.items() if all_of or len(keys) > 1]
