"""The MCP server of the official SDK, with tocsin's tools. Import this module late: it imports the SDK."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from .. import __version__
from .api import Api, ApiError
from .text import MOST_CHARACTERS, NOTICE
from .tool import Tool
from .tools import TOOLS

INSTRUCTIONS = (
    "tocsin monitors PyTorch training runs and alerts when one goes wrong. Begin with list_runs, then "
    f"explain a run or an incident. An answer has at most {MOST_CHARACTERS} characters. {NOTICE}"
)
WRITERS = ("write", "admin")

log = logging.getLogger("tocsin.mcp")
Context = ServerRequestContext[Any, Any]


def make_server(api_of: Callable[[Context], Api]) -> Server[Any]:
    """Return an MCP server.

    Args:
        api_of: Returns the HTTP API to ask, with the token of the caller of this request.
    """

    async def list_tools(
        context: Context, _page: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        writes = await _may_write(api_of(context))
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS if writes or not tool.writes])

    async def call_tool(context: Context, wanted: types.CallToolRequestParams) -> types.CallToolResult:
        tool = next((tool for tool in TOOLS if tool.name == wanted.name), None)
        if tool is None:
            known = ", ".join(tool.name for tool in TOOLS)
            raise MCPError(types.INVALID_PARAMS, f"There is no tool of that name. Tools: {known}.")
        text, is_error = await tool.call(api_of(context), wanted.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    return Server(
        "tocsin",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _may_write(api: Api) -> bool:
    """Return whether the token may change something; True if the server cannot be asked now."""
    try:
        return (await api.get("/session", {}))["scope"] in WRITERS
    except ApiError:
        return True


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.schema, annotations=hints
    )
