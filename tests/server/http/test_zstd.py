"""Responses that are compressed with zstd."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager

import httpx
import pytest
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tocsin_server.http.zstd import IN_THREAD, Zstd


async def body(request: Request) -> Response:
    """Return as many bytes of a type as asked for, in several parts if asked for."""
    asked = request.query_params
    text, media_type = b"a" * int(asked["size"]), asked.get("type", "application/json")
    if "parts" not in asked:
        return Response(text, media_type=media_type)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(int(asked["parts"])):
            yield text

    return StreamingResponse(parts(), media_type=media_type)


@pytest.fixture
def client(serve_app: Callable[[FastAPI], AbstractContextManager[str]]) -> Iterator[httpx.Client]:
    app = FastAPI(middleware=[Middleware(GZipMiddleware), Middleware(Zstd)])
    app.add_route("/body", body)
    with serve_app(app) as where, httpx.Client(base_url=where) as client:
        yield client


@pytest.mark.parametrize("size", [2_000, 2 * IN_THREAD])
def test_a_long_response_is_compressed(size: int, client: httpx.Client) -> None:
    answer = client.get("/body", params={"size": size})
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("zstd", "Accept-Encoding")
    assert answer.text == "a" * size


def test_a_stream_is_compressed(client: httpx.Client) -> None:
    answer = client.get("/body", params={"size": 10, "parts": 3, "type": "application/x-ndjson"})
    assert answer.headers["content-encoding"] == "zstd"
    assert answer.text == "a" * 30


@pytest.mark.parametrize(("size", "kind"), [(100, "application/json"), (2_000, "image/png")])
def test_short_responses_and_pictures_stay_as_they_are(size: int, kind: str, client: httpx.Client) -> None:
    assert "content-encoding" not in client.get("/body", params={"size": size, "type": kind}).headers


def test_a_client_without_zstd_gets_gzip(client: httpx.Client) -> None:
    answer = client.get("/body", params={"size": 2_000}, headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
