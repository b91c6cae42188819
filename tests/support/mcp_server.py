"""A small MCP server, for tests to start: `python mcp_server.py [stdio | http]`.

Over HTTP it writes its port to the standard output. What a test has to know of a call that goes on it learns
from the progress that the call reports.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

server = MCPServer("tests", log_level="CRITICAL")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True), structured_output=False)
def greet(name: str) -> str:
    """A prompt that greets a person."""
    return f"Hello {name}!"


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """A picture and what it shows."""
    return ["a dot", Image(data=b"\x89PNG", format="png")]


@server.tool()
def fail(why: str) -> str:
    """Nothing but a failure."""
    raise ToolError(why)


@server.tool()
def environment() -> list[str]:
    """The names of all variables of the environment."""
    return sorted(os.environ)


@server.tool()
def crash() -> str:
    """The end of the server."""
    os.write(2, b"the end of it\n")
    os._exit(1)


cancelled: defaultdict[str, anyio.Event] = defaultdict(anyio.Event)


@server.tool()
async def wait(key: str, context: Context[Any, Any]) -> str:
    """Nothing, until the call is cancelled."""
    try:
        await context.report_progress(1, 2, "waiting")  # after which the cancellation may come at once
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        cancelled[key].set()
        raise
    return "never"


@server.tool()
async def was_cancelled(key: str) -> bool:
    """True, once the call of `wait` with this key has been cancelled."""
    await cancelled[key].wait()
    return True


@server.tool()
def elsewhere(x: Annotated[int, Field(json_schema_extra={"$ref": "https://example.com/x.json"})]) -> int:
    """A tool that must not be offered: its schema is in another document."""
    return x


@server.tool(structured_output=False)
def pid() -> int:
    """The id of the process."""
    return os.getpid()


async def over_http() -> None:
    """Serve on a free port of this machine, and print it."""
    import uvicorn

    serving = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), port=0, log_level="critical"))
    async with anyio.create_task_group() as group:
        group.start_soon(serving.serve)
        while not serving.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await anyio.sleep(0.01)
        print(serving.servers[0].sockets[0].getsockname()[1], flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        anyio.run(over_http)
    else:
        server.run("stdio")
