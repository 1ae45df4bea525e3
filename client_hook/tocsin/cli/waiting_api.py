"""The API for commands: on a terminal, it shows that it waits for the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..read import Api
from ..read.exchange import Wait
from .progress import progress


class WaitingApi(Api):
    """An ``Api`` with progress while a request has no answer, unless the command shows its own."""

    is_shown = True
    """False for a command that draws in place itself."""
    on_pause: Callable[[bool], None] | None = None
    """Called before each pause of such a command, with whether the server answered the last request."""
    _is_answered = True

    def _carried_out(self, step: Any) -> Any:
        if self.is_shown:
            with progress("Waiting for the server"):
                return super()._carried_out(step)
        if isinstance(step, Wait) and self.on_pause is not None:
            self.on_pause(self._is_answered)
        answer = super()._carried_out(step)
        if answer is not None:
            self._is_answered = bool(answer.status)
        return answer
