"""``tocsin mcp``: a real process, asked by the official client, that asks a real server."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.http.api.test_mcp import token
from tocsin.cli.commands import main
from tocsin.mcp.tools import TOOLS

if TYPE_CHECKING:
    from mcp import Client

COMMAND = ["-m", "tocsin.cli", "mcp"]


def talked(url: str, secret: str, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Return what ``work`` returns in one session with the process."""
    from mcp import Client, StdioServerParameters  # not while tests are collected: only one worker needs it

    async def main() -> Any:
        environ = {"TOCSIN_URL": url, "TOCSIN_TOKEN": secret, "PYTHONPATH": ":".join(sys.path)}
        parameters = StdioServerParameters(command=sys.executable, args=COMMAND, env=environ)
        async with Client(parameters) as client:
            return await work(client)

    return asyncio.run(main())


async def said(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of an answer."""
    answer = await client.call_tool(tool, arguments)
    return str(answer.content[0].text)  # type: ignore[union-attr] # tools answer with text


def test_an_agent_reads_and_acknowledges(server: Any, trainer: Callable[..., Any]) -> None:
    run = trainer(name="over stdio")
    run.records({"loss": [1.0] * 20 + [math.nan] * 10})
    (incident,) = server.get("/incidents", run=run.run)["items"]

    async def work(client: Client) -> list[Any]:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        texts = [
            await said(client, "explain", id="over stdio"),
            await said(client, "read_series", run=run.run),
            await said(client, "compare_runs", runs=[run.run, "over stdio"]),
        ]
        return [tools, *texts, await said(client, "acknowledge", id=incident["id"])]

    tools, explained, values, compared, acknowledged = talked(server.base, token(server, "write"), work)
    assert tools == [tool.name for tool in TOOLS]
    assert f'run "{run.run}", name "over stdio"' in explained
    assert "since step 20" in explained
    assert "\n19,1\n20,NaN\n" in values
    assert compared.count("last NaN at step 29, min 1 at step 0") == 2
    assert "Acknowledged the incident, with 2 alerts." in acknowledged


def test_a_reader_has_no_tool_that_writes_and_gets_the_reason(
    server: Any, trainer: Callable[..., Any]
) -> None:
    run = trainer()
    run.records({"loss": [1.0] * 20 + [math.nan] * 10})
    (incident,) = server.get("/incidents", run=run.run)["items"]

    async def work(client: Client) -> tuple[list[str], str]:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        return tools, await said(client, "acknowledge", id=incident["id"])

    tools, refused = talked(server.base, token(server, "read"), work)
    assert "acknowledge" not in tools
    assert "scope write" in refused


def test_a_wrong_token_and_a_missing_server_are_explained(server: Any) -> None:
    async def work(client: Client) -> str:
        return await said(client, "list_runs")

    assert "token" in talked(server.base, "tcn_wrong", work)
    assert "127.0.0.1:9" in talked("http://127.0.0.1:9", "tcn_wrong", work)


def test_a_wrong_address_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--url", "ftp://x"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith("tocsin: ")) == ("", True)
