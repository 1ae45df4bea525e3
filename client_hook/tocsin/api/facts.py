"""``run.config`` and ``run.summary``: settings and results of a run, which a script may change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from ..core.config import items_of, keyed, settings_of
from ..core.values import text

MOST = 4096
"""Maximum number of names that are reported."""


class Facts(MutableMapping[str, Any]):
    """A mapping whose values are attributes too.

    The script reads what it stored. What changes is reported as plain data; what is removed stays reported.
    """

    def __init__(self, values: Any, report: Callable[[dict[str, Any]], None]) -> None:
        object.__setattr__(self, "_values", _named(values))
        object.__setattr__(self, "_plain", dict(list(_plain(self._values).items())[:MOST]))
        object.__setattr__(self, "_report", report)

    def update(self, *given: Any, **values: Any) -> None:
        """Add and replace values.

        Args:
            given: A mapping, a namespace, a dataclass or an object with attributes.
            values: Further values by name. W&B's ``allow_val_change`` is accepted and has no effect.
        """
        values.pop("allow_val_change", None)
        found: dict[str, Any] = {}
        for one in (*given, values):
            found.update(_named(one))
        self._values.update(found)
        with suppress(Exception):
            self._report_changes(found)

    def _report_changes(self, found: dict[str, Any]) -> None:
        known: dict[str, Any] = self._plain
        changed = {
            name: value
            for name, value in _plain(found).items()
            if name not in known or type(known[name]) is not type(value) or known[name] != value
        }
        room = MOST - len(known)
        new = [name for name in changed if name not in known][max(room, 0) :]
        for name in new:
            del changed[name]
        known.update(changed)
        if changed:
            self._report(changed)

    def setdefaults(self, given: Any) -> None:
        """Add the values whose names are missing, as W&B's configuration does."""
        self.update({name: value for name, value in _named(given).items() if name not in self})

    def as_dict(self) -> dict[str, Any]:
        """Return a copy as a plain dictionary."""
        return dict(self._values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "none"
            raise AttributeError(f"There is no value named {name!r}. Known names: {known}.") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        return repr(self._values)


def _named(given: Any) -> dict[str, Any]:
    """Return the values of a mapping, namespace or object with attributes by name, as they are."""
    try:
        if isinstance(given, Mapping):
            return {text(name): value for name, value in items_of(given)}
        found = getattr(given, "__dict__", None)
        if isinstance(found, dict) and found and not callable(given):
            return dict(found)
        return _plain(given)
    except Exception:  # a fault of ours must not reach the script, which gets back what it stores
        return given if isinstance(given, dict) else {}


def _plain(given: Any) -> dict[str, Any]:
    """Return the values as plain data."""
    return keyed(settings_of(given)) or {}
