"""Shorten and compress the files of ``web/`` once, for the addresses that name their version.

A quarter of what a first visit would transfer is comments and types. Lines stay, so that a stack trace names
those of the sources.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

import anyio
from starlette.requests import Request
from starlette.responses import Response

GZIP_LEVEL = 9
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*(?:(?!\*/).)*\*/[ \t]*)$", re.MULTILINE | re.DOTALL)
"""A comment that has its lines to itself; as nearly all have. No text of a module looks like one."""
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}


@dataclass(frozen=True, slots=True)
class Packed:
    """A file as it is sent: its text, and that compressed with gzip."""

    text: bytes
    gzipped: bytes


class PackedFiles:
    """The scripts and style sheets of one version, each packed at its first request."""

    def __init__(self, web: Path) -> None:
        self._web = web
        self._version = ""
        self._files: dict[str, Packed] = {}

    async def response(self, request: Request, version: str, path: str) -> Response | None:
        """Return the response with a script or style sheet, or None for files of other kinds.

        Args:
            request: The request, which says whether gzip is accepted.
            version: The version of ``web/``; files of another one are forgotten.
            path: Of an existing file, relative to ``web/``.
        """
        media_type = MEDIA_TYPES.get(Path(path).suffix)
        if media_type is None:
            return None
        if version != self._version:
            self._version, self._files = version, {}
        packed = self._files.get(path)
        if packed is None:
            packed = self._files[path] = await anyio.to_thread.run_sync(packed_file, self._web / path)
        headers = {"vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(packed.text, media_type=media_type, headers=headers)
        headers["content-encoding"] = "gzip"
        return Response(packed.gzipped, media_type=media_type, headers=headers)


def packed_file(path: Path) -> Packed:
    """Read a script or style sheet; the lines of a script's comments are returned empty."""
    text = path.read_text("utf-8")
    body = (without_comments(text) if path.suffix == ".js" else text).encode("utf-8")
    return Packed(body, gzip.compress(body, GZIP_LEVEL, mtime=0))


def without_comments(script: str) -> str:
    """Return a module with as many lines, and empty ones where comments have lines to themselves."""
    return _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), script)
