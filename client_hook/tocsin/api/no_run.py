"""A run that reports nothing: ``TOCSIN_DISABLE=1``, another rank, or a failed ``watch``."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any


class NoRun:
    """Stand-in for ``Run``. Every method does nothing."""

    id = ""
    url = ""
    problems = None
    reports_steps = False
    requested = ""
    current_step = 0
    in_phase = False
    planned_steps: Any = None

    def __init__(self, project: str = "", name: str = "", config: Any = None) -> None:
        self.project = project
        self.name = name
        self._given = config

    def _nothing(self, *args: Any, **values: Any) -> None:
        return None

    log = step = alert = evaluate = event = data = checkpoint = expect = batch = check = _nothing
    finish = load_state_dict = on_end = announce_steps = scale_losses = _nothing

    def captures(self, series: str = "") -> bool:
        """Return False: nothing is captured."""
        return False

    @functools.cached_property
    def config(self) -> Any:
        """The configuration, which the script may read and change as usual."""
        return self._facts({} if self._given is None else self._given)

    @functools.cached_property
    def summary(self) -> Any:
        """Results that are not reported."""
        return self._facts({})

    def _facts(self, values: Any) -> Any:
        """Return the values as facts; as they are if that cannot be imported (too many open files)."""
        try:
            from .facts import Facts
        except Exception:
            return values
        return Facts(values, self._nothing)

    def state_dict(self) -> dict[str, int]:
        """Return a state without steps."""
        return {"step": 0}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Do nothing."""
        yield

    def on_alert(self, *given: Any, rules: Any = (), severity: str | None = None) -> Any:
        """Return the function unchanged: no alert will arrive."""
        return given[0] if len(given) == 1 and callable(given[0]) else lambda handler: handler

    def on_request(self, action: str) -> Any:
        """Return the function unchanged: no request will arrive."""
        return lambda handler: handler

    def __enter__(self) -> NoRun:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    async def __aenter__(self) -> NoRun:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None
