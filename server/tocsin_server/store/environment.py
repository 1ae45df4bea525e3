"""Update a run's environment from events: what the handshake does not contain, or was created after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RECORDED = "environment"
"""Event about the code, the command line, packages, hardware and data of an attempt."""
KINDS = ("attached", "schedule", RECORDED)
"""Events that describe objects created after the handshake, and the environment of an attempt."""
SHOWN = ("git", "command", "gpus", "driver", "data", "summary")
"""Members of such an event that the row of a run contains. The others are large and stay in the event."""
_LISTS = {"optimizers": ("name",), "scalers": ("name",), "schedulers": ("optimizer", "scheduler")}
"""Lists of descriptions -> what identifies one."""
KEPT = 64
"""Maximum optimizers, scalers or schedules of a run; the newest are kept."""
ADDED = ("data", "summary", "config")
"""Mappings that an event adds to."""
NAMES = 4096
"""Maximum number of names of such a mapping; the newest are kept."""


def learned(
    environment: Mapping[str, Any], kind: str, data: Mapping[str, Any], *, everything: bool = False
) -> dict[str, Any]:
    """Return ``environment`` updated by an event of one of KINDS; malformed data is ignored.

    Args:
        environment: What is known.
        kind: Kind of the event.
        data: Its data.
        everything: Also add what the row of a run does not contain, such as packages.
    """
    if kind == RECORDED:
        return _recorded(environment, data, everything)
    if kind == "schedule":
        reported = _joined(environment.get("schedulers"), [data], _LISTS["schedulers"])
        return {**environment, "schedulers": reported}
    names = ("optimizers", "scalers")
    return {
        **environment,
        **{name: _joined(environment.get(name), data.get(name), _LISTS[name]) for name in names},
    }


def _recorded(environment: Mapping[str, Any], data: Mapping[str, Any], everything: bool) -> dict[str, Any]:
    found = {name: value for name, value in data.items() if everything or name in SHOWN}
    if isinstance(found.get("git"), Mapping) and not everything:
        found["git"] = {name: value for name, value in found["git"].items() if name != "diff"}
    for name in ADDED:
        if isinstance(found.get(name), Mapping):
            found[name] = added(environment.get(name), found[name])
    for name, key in _LISTS.items():
        if name in found:
            found[name] = _joined(environment.get(name), found[name], key)
    return {**environment, **found}


def added(before: Any, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return both mappings as one; the later value of a name wins."""
    both = {**(before if isinstance(before, Mapping) else {}), **after}
    return dict(list(both.items())[-NAMES:])


def _joined(before: Any, after: Any, key: Sequence[str]) -> list[Any]:
    """Return both lists without duplicates; the later entry wins.

    An optimizer has its name from its first step on. The descriptions from before it are left out then.
    """
    found: dict[tuple[str, ...], Any] = {}
    for one in (*_mappings(before), *_mappings(after)):
        found[tuple(str(one.get(name)) for name in key)] = one
    named = {of: one for of, one in found.items() if of[0]}
    return list((named or found).values())[-KEPT:]


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def storable(value: Any) -> Any:
    """Return configuration as JSON data; msgpack types without a JSON equivalent become text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(item) for item in value]
    return str(value)
