"""What the tools need of a tocsin server: its HTTP API, on whichever way it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote


class ApiError(Exception):
    """The server rejected a request, or did not answer (status 0). The text is a sentence for the caller."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        super().__init__(detail)


class Api(Protocol):
    """The HTTP API of one server with the token of one caller. Paths begin below ``/api/v1``."""

    async def get(self, path: str, params: Mapping[str, Any]) -> Any:
        """Return the JSON that a GET returns. A parameter may be a list. Raises ApiError."""

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON that a POST returns, a list if it returns JSON Lines. Raises ApiError."""


def named(given: str) -> str:
    """Return an id as one segment of a path, whatever it contains."""
    return quote(given, safe="")
