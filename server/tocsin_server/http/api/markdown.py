"""``POST /markdown``: parse Markdown into a tree of nodes for the pages."""

from __future__ import annotations

from typing import Annotated, Any

import anyio.to_thread
from pydantic import StringConstraints
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core import markdown
from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import Body, resource

router = resource("runs")

AT_ONCE = 2
"""Number of texts parsed at once; others wait without holding a thread."""


class MarkdownText(Body):
    """The Markdown source."""

    text: Annotated[str, StringConstraints(max_length=markdown.LONGEST)]


class MarkdownTree(TypedDict):
    """Nodes: a ``kind`` and, where applicable, ``text``, ``level``, ``href`` and ``children``.

    Kinds of blocks: heading, paragraph, quote, list, ordered_list, item, table, row, head_cell, cell,
    code_block, rule; within a line: text, code, strong, em, link, break.
    """

    nodes: list[dict[str, Any]]


@router.post("/markdown", response_model=MarkdownTree)
async def parse_markdown(request: Request, wanted: MarkdownText, _identity: Reader) -> ExactJSON:
    """Parse CommonMark with tables. HTML is kept as text; links may use http, https and mailto only."""
    limiter = request.app.state.parsing
    nodes = await anyio.to_thread.run_sync(markdown.parse, wanted.text, limiter=limiter)
    return ExactJSON({"nodes": [node.plain() for node in nodes]})
