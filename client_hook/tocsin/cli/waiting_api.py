"""The API for commands: on a terminal, it shows that it waits for the server."""

from __future__ import annotations

from typing import Any

from ..read import Api
from .progress import progress


class WaitingApi(Api):
    """An ``Api`` with progress while a request has no answer, unless the command shows its own."""

    is_shown = True
    """False for a command that draws in place itself."""

    def _carried_out(self, step: Any) -> Any:
        if not self.is_shown:
            return super()._carried_out(step)
        with progress("Waiting for the server"):
            return super()._carried_out(step)
