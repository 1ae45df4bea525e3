"""Serve the tools over standard input and output; they ask a server by URL and token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from mcp.server.stdio import stdio_server

from ..read import AsyncApi
from ..read import errors as read_errors
from .api import ApiError
from .server import make_server


class RemoteApi:
    """The API of a server at a URL (:class:`tocsin.mcp.api.Api`)."""

    def __init__(self, api: AsyncApi) -> None:
        self._api = api

    async def get(self, path: str, params: Mapping[str, Any]) -> Any:
        """Return the JSON of a GET. Raises ApiError."""
        return await _answered(self._api.get(path, **params))

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON of a POST. Raises ApiError."""
        return await _answered(self._api.post(path, body))


async def _answered(asking: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await asking
    except read_errors.NotFoundError as error:
        raise ApiError(404, str(error)) from error
    except read_errors.ApiError as error:
        raise ApiError(0, str(error)) from error


def serve(url: str | None, token: str | None) -> None:
    """Answer an agent until it closes standard input.

    Raises:
        ValueError: ``url`` is not an address.
    """
    api = AsyncApi(url, token, retries=1)
    logging.basicConfig(level=logging.WARNING)  # to standard error; standard output carries the protocol
    asyncio.run(_serve(api))


async def _serve(api: AsyncApi) -> None:
    server = make_server(lambda _context: RemoteApi(api))
    async with api, stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
