"""The path under which a proxy serves this server, such as ``/tocsin``.

Inside the server, every path begins at ``/``. This module strips the root from requests unless the proxy has
done so already; pages, redirects, cookies and links add it again.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class RootPath:
    """ASGI middleware: strip the root from the path of a request or WebSocket."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._root and scope["type"] in ("http", "websocket"):
            scope = {**scope, "path": bare(scope["path"], self._root)}
            if scope.get("raw_path"):
                scope["raw_path"] = bare(scope["raw_path"].decode("latin-1"), self._root).encode("latin-1")
        await self._app(scope, receive, send)


def bare(path: str, root: str) -> str:
    """Return ``path`` without the root, whether or not a proxy has removed it already."""
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(f"{root}/") else path
