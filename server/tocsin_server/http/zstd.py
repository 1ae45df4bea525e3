"""Compress responses with zstd: the values of a chart get a quarter smaller than with gzip.

It takes an eighth of the time of gzip. Browsers accept it over HTTPS and from localhost; others get gzip, by
the middleware around this one.
"""

from __future__ import annotations

import anyio.to_thread
import zstandard
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEVEL = 3
FEWEST = 1000
"""Bytes of the smallest response that is compressed."""
IN_THREAD = 1 << 20
"""Bytes from which a body is compressed in a thread; fewer take less than 2 ms."""
TEXT = ("application/json", "application/problem+json", "application/x-ndjson", "image/svg+xml")
"""Types that are compressed, besides ``text/*``."""
STREAM = "text/event-stream"


class Zstd:
    """ASGI middleware: compress responses for clients that accept zstd."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and accepts_zstd(Headers(scope=scope)):
            send = _Compressed(send)
        await self._app(scope, receive, send)


def accepts_zstd(headers: Headers) -> bool:
    """Return whether the client that sent these headers accepts zstd."""
    return "zstd" in headers.get("accept-encoding", "")


class _Compressed:
    """Sends one response, compressed if it is long and of a text type."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._compressor: zstandard.ZstdCompressionObj | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message  # its headers depend on the body
            return
        if message["type"] == "http.response.body":
            if self._start is not None:
                self._begin(self._start, message)
            if self._compressor is not None:
                message = {**message, "body": await self._compress(message)}
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)
        await self._send(message)

    def _begin(self, start: Message, first: Message) -> None:
        """Choose whether to compress the response, from its headers and the first part of its body."""
        headers = MutableHeaders(raw=start.setdefault("headers", []))
        media_type = headers.get("content-type", "").partition(";")[0]
        is_text = media_type in TEXT or (media_type.startswith("text/") and media_type != STREAM)
        is_long = first.get("more_body", False) or len(first.get("body", b"")) >= FEWEST
        if is_text and is_long and "content-encoding" not in headers and start["status"] != 206:
            headers["content-encoding"] = "zstd"
            headers.add_vary_header("Accept-Encoding")
            del headers["content-length"]
            self._compressor = zstandard.ZstdCompressor(level=LEVEL).compressobj()

    async def _compress(self, message: Message) -> bytes:
        body = message.get("body", b"")
        if len(body) >= IN_THREAD:
            return await anyio.to_thread.run_sync(self._part, body, message.get("more_body", False))
        return self._part(body, message.get("more_body", False))

    def _part(self, body: bytes, more: bool) -> bytes:
        assert self._compressor is not None
        end = zstandard.COMPRESSOBJ_FLUSH_BLOCK if more else zstandard.COMPRESSOBJ_FLUSH_FINISH
        return self._compressor.compress(body) + self._compressor.flush(end)
