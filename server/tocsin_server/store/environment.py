"""What events of a run add to its facts: optimizers, scalers and schedules that hello did not know yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KINDS = ("attached", "schedule")
"""Events that say what hello says, of what the script made later."""
KEPT = 64
"""Optimizers, scalers, schedules of one run at most; a script that always makes new ones keeps its newest."""


def learned(environment: Mapping[str, Any], kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """``environment`` with what an event of one of KINDS says; what is no list of mappings adds nothing."""
    if kind == "schedule":
        reported = _joined(environment.get("schedulers"), [data], ("optimizer", "scheduler"))
        return {**environment, "schedulers": reported}
    names = ("optimizers", "scalers")
    return {
        **environment,
        **{name: _joined(environment.get(name), data.get(name), ("name",)) for name in names},
    }


def _joined(before: Any, after: Any, key: Sequence[str]) -> list[Any]:
    """Both lists, each thing once, as it was told last."""
    found: dict[tuple[str, ...], Any] = {}
    for one in (*_mappings(before), *_mappings(after)):
        found[tuple(str(one.get(name)) for name in key)] = one
    return list(found.values())[-KEPT:]


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def storable(value: Any) -> Any:
    """Configuration as JSON can hold it: what msgpack has and JSON has not becomes its text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): storable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(item) for item in value]
    return str(value)
