"""Update a run's environment from events: optimizers, scalers and schedules created after the handshake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KINDS = ("attached", "schedule")
"""Events that describe objects created after the handshake."""
KEPT = 64
"""Maximum optimizers, scalers or schedules of a run; the newest are kept."""


def learned(environment: Mapping[str, Any], kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``environment`` updated by an event of one of KINDS; malformed data is ignored."""
    if kind == "schedule":
        reported = _joined(environment.get("schedulers"), [data], ("optimizer", "scheduler"))
        return {**environment, "schedulers": reported}
    names = ("optimizers", "scalers")
    return {
        **environment,
        **{name: _joined(environment.get(name), data.get(name), ("name",)) for name in names},
    }


def _joined(before: Any, after: Any, key: Sequence[str]) -> list[Any]:
    """Return both lists without duplicates; the later entry wins."""
    found: dict[tuple[str, ...], Any] = {}
    for one in (*_mappings(before), *_mappings(after)):
        found[tuple(str(one.get(name)) for name in key)] = one
    return list(found.values())[-KEPT:]


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
