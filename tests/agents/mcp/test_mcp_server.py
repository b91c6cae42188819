"""mcp.py: real servers, over stdio and HTTP, called in every way; and what goes wrong with them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import to_thread

from support.silent_mcp_transport import silent
from support.sync_and_async import API
from toolcast import ToolCallPart, ValidationError
from toolcast.agents.engine.engine import Engine
from toolcast.agents.mcp import mcp_server as mcp
from toolcast.agents.mcp.mcp_connection import ConnectOptions
from toolcast.agents.mcp.mcp_server import MCPServer, _list_all_tools
from toolcast.agents.mcp.mcp_tools import MAX_TEXT
from toolcast.errors import MCPError, MCPToolError, OutputTypeError, ToolTimeout, TurnCancelled
from toolcast.tools.callable_tool import CallableTool, as_tools
from toolcast.tools.tool_context import ToolContext

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
ROUGH = str(Path(__file__).parents[2] / "support" / "mcp_rough_server.py")

Tools = dict[str, CallableTool]


@pytest.fixture(scope="module")
def server() -> Generator[MCPServer]:
    with MCPServer.stdio(sys.executable, [SERVER], env={"EXTRA": "1"}, name="t") as server:
        yield server
    assert mcp_threads() == []


@pytest.fixture
def tools(server: MCPServer) -> Tools:
    return {tool.name: tool for tool in server.tools()}


@pytest.fixture(scope="module")
def http_process() -> Generator[tuple[subprocess.Popen[str], str]]:
    with subprocess.Popen([sys.executable, SERVER, "http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


def mcp_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mcp ")]


def program(code: str) -> MCPServer:
    return MCPServer.stdio(sys.executable, ["-c", code], name="broken")


# Tools.


def test_what_a_server_offers(tools: Tools) -> None:
    add = tools["t_add"]
    assert add.description == "The sum of two numbers."
    assert add.parameters == {
        "properties": {
            "a": {"title": "A", "type": "integer"},
            "b": {"default": 1, "title": "B", "type": "integer"},
        },
        "required": ["a"],
        "title": "addArguments",
        "type": "object",
    }
    assert {(tool.read_only, tool.destructive, tool.idempotent) for tool in tools.values()} == {(False, True, False)}


def test_hints_count_where_the_server_is_trusted(server: MCPServer) -> None:
    trusted = {tool.name: tool for tool in server.tools(prefix=False, trust_hints=True)}
    known = {name: (tool.read_only, tool.destructive, tool.idempotent) for name, tool in trusted.items()}
    assert known["add"] == (True, False, True)
    assert known["greet"] == (False, False, True)
    assert known["crash"] == (False, True, False)


def test_what_cannot_be_offered_is_left_out(server: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    assert "t_elsewhere" not in {tool.name for tool in server.tools()}
    assert "left out the tool 'elsewhere': its schema refers to another document" in caplog.text


@pytest.mark.fault(142)
def test_names_that_collide_are_refused(server: MCPServer) -> None:
    with pytest.raises(OutputTypeError, match="several tools are named"):
        as_tools([*server.tools(), *server.tools()])


@pytest.mark.parametrize(
    ("server", "name"),
    [
        (MCPServer.stdio("uvx", ["--quiet", "mcp-server-git", "/tmp"]), "mcp-server-git"),
        (MCPServer.stdio("npx", ["-y", "@modelcontextprotocol/server-everything"]), "server-everything"),
        (MCPServer.stdio("/usr/bin/files.exe"), "files"),
        (MCPServer.http("https://mcp.example.com/mcp", headers={"authorization": "Bearer s3cret"}), "mcp_example_com"),
        (MCPServer.http("nonsense"), "mcp"),
    ],
)
def test_a_server_is_named_by_what_you_wrote(server: MCPServer, name: str) -> None:
    assert server.name == name
    assert repr(server) == f"MCPServer({name!r})"


# Calls.


def test_a_call(api: API, tools: Tools) -> None:
    output = api.method(tools["t_add"], "call", '{"a": "1", "b": 2}')
    assert (output.content, output.raw_output, output.is_error) == ("3", {"result": 3}, False)
    assert output.tool_name == "t_add"


def test_the_tools_are_listed_in_every_way(api: API, server: MCPServer) -> None:
    assert "add" in {tool.name for tool in api.method(server, "tools", prefix=False)}


def test_a_picture(tools: Tools) -> None:
    part = tools["t_picture"].call({}).part()
    assert part.content == "a dot"
    assert [(image.data, image.media_type) for image in part.images] == [(b"\x89PNG", "image/png")]


def test_arguments_that_do_not_fit_are_not_sent(tools: Tools) -> None:
    with pytest.raises(ValidationError, match="a: Field required"):
        tools["t_add"].call({"b": 2})


def test_a_tool_that_fails(tools: Tools) -> None:
    output = tools["t_fail"].call({"why": "No such file."})
    assert output.is_error
    assert "No such file." in output.content
    assert isinstance(output.error, MCPToolError)


def test_a_server_sees_little_of_the_environment(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tools["t_environment"].call({}).content.splitlines()
    assert "EXTRA" in seen
    assert "PATH" in seen
    assert not [name for name in seen if name.startswith("PYTEST")]


def test_an_engine_calls(api: API, tools: Tools) -> None:
    from toolcast.testing import ScriptedLLM

    calls = [ToolCallPart("c1", "t_add", '{"a": 1, "b": 2}'), ToolCallPart("c2", "t_fail", '{"why": "Never."}')]
    engine = Engine(ScriptedLLM(calls, "3"), tools.values())
    assert api.method(engine, "submit", "1 + 2?").text == "3"
    first, second = [part for message in engine.history if message.role == "tool" for part in message.parts]
    assert (first.content, first.is_error) == ("3", False)
    assert second.is_error
    assert "Never." in second.content


# Breaking off.


async def test_a_cancelled_caller_cancels_the_call(tools: Tools, anyio_backend: str) -> None:
    wait, key = tools["t_wait"], {"key": anyio_backend}
    began = threading.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(wait.arun, wait.read(key).value, ToolContext(on_progress=lambda _: began.set()))
        await to_thread.run_sync(began.wait)
        group.cancel_scope.cancel()
    assert (await tools["t_was_cancelled"].acall(key)).raw_output == {"result": True}


def test_a_cancelled_turn_cancels_the_call(tools: Tools) -> None:
    wait, text = tools["t_wait"], []

    def on_progress(progress: Any) -> None:
        text.append(progress.data)
        context.cancellation.cancel()

    context = ToolContext[None](on_progress=on_progress)
    with pytest.raises(TurnCancelled):
        wait.run(wait.read({"key": "turn"}).value, context)
    assert text == [{"progress": 1.0, "total": 2.0, "message": "waiting"}]
    assert tools["t_was_cancelled"].call({"key": "turn"}).content == "true"


@pytest.mark.skipif(os.name == "nt", reason="Windows does not interrupt a thread that waits")
def test_ctrl_c_cancels_the_call(tools: Tools) -> None:
    wait, main = tools["t_wait"], threading.get_ident()
    context = ToolContext[None](on_progress=lambda _: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        wait.run(wait.read({"key": "ctrl-c"}).value, context)
    assert tools["t_was_cancelled"].call({"key": "ctrl-c"}).content == "true"


def test_ctrl_c_before_the_answer_is_waited_for_cancels_the_call(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be so quick, or this thread so slow, that the call runs before its future is known here."""
    runs = threading.Event()

    def struck(*waiting: Any) -> Any:
        assert runs.wait(60)
        raise KeyboardInterrupt

    wait, context = tools["t_wait"], ToolContext[None](on_progress=lambda _: runs.set())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mcp, "wait_blocking", struck)
        wait.run(wait.read({"key": "early ctrl-c"}).value, context)
    assert tools["t_was_cancelled"].call({"key": "early ctrl-c"}).content == "true"


def test_a_call_is_cancelled_once() -> None:
    """A second cancellation would break the first off, which is telling the server."""
    cancels: list[int] = []

    async def call() -> None:
        cancel = mcp._canceller()
        for _ in range(3):
            cancel()
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(0)
            task = asyncio.current_task()
            assert task is not None
            cancels.append(task.cancelling())

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(call())
    assert cancels == [1]


def test_what_ends_a_call_does_not_mind_a_closed_loop() -> None:
    async def make() -> Any:
        return mcp._canceller()

    asyncio.run(make())()


def test_a_call_that_takes_too_long(api: API, server: MCPServer, tools: Tools) -> None:
    impatient = {tool.name: tool for tool in server.tools(timeout=0.05)}
    with pytest.raises(ToolTimeout, match=r"wait took longer than 0\.05 s, without an answer or progress"):
        api.method(impatient["t_wait"], "call", {"key": "whatever"})
    hurried = {tool.name: tool for tool in server.tools(timeout=None, total_timeout=0.05)}
    with pytest.raises(ToolTimeout, match=r"wait took longer than 0\.05 s in all"):
        api.method(hurried["t_wait"], "call", {"key": "whatever"})


def test_progress_moves_the_time_limit(api: API, server: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is counted from the last report, so that it is over where that was long ago."""
    wait = {tool.name: tool for tool in api.method(server, "tools", timeout=900)}["t_wait"]
    monkeypatch.setattr(anyio, "current_time", lambda: -900.0)
    with pytest.raises(ToolTimeout, match=r"wait took longer than 900 s, without an answer or progress"):
        api.method(wait, "call", {"key": "whatever"})


def test_a_call_whose_time_is_up_is_cancelled_on_the_server(
    api: API, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is up as soon as the server reports that the call has begun."""
    scopes: list[anyio.CancelScope] = []

    async def within(limit: float | None, work: Any, late: Exception) -> Any:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            return await work
        raise late

    wait, key = tools["t_wait"], f"late {api.name}"
    context = ToolContext[None](on_progress=lambda _: scopes[0].cancel())
    with monkeypatch.context() as patch, pytest.raises(ToolTimeout, match=r"wait took longer than 3600\.0 s in all"):
        patch.setattr(mcp, "_with_timeout", within)
        api.method(wait, "run", wait.read({"key": key}).value, context)
    assert tools["t_was_cancelled"].call({"key": key}).content == "true"


# Servers that go.


def test_a_server_that_ends_during_a_call_is_started_again(tools: Tools) -> None:
    before = tools["t_pid"].call({}).content
    with pytest.raises(MCPError, match=r"the MCP server t was lost .* it wrote 'the end of it' to its standard error"):
        tools["t_crash"].call({})
    assert tools["t_pid"].call({}).content != before


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_a_server_that_ends_between_calls_is_started_again(server: MCPServer, tools: Tools) -> None:
    before = int(tools["t_pid"].call({}).content)
    os.kill(before, signal.SIGKILL)
    server._connections[-1].join()
    assert int(tools["t_pid"].call({}).content) != before


@pytest.mark.parametrize("words", ["Session terminated", "Connection closed"])
def test_a_lost_session_is_begun_again(server: MCPServer, tools: Tools, words: str) -> None:
    from mcp import MCPError as Refusal

    async def lose(client: Any) -> None:
        raise Refusal(-32600, words)

    link = server._connections[-1]
    with pytest.raises(MCPError, match=rf"was lost during the call \({words}\), .* The next call connects anew"):
        server._submit(lose).result()
    assert tools["t_add"].call({"a": 1}).content == "2"
    assert server._connections[-1] is not link


def test_a_lost_answer_is_no_lost_connection(server: MCPServer, tools: Tools) -> None:
    from mcp import MCPError as Refusal

    async def lose(client: Any) -> None:
        raise Refusal(-32000, "SSE stream ended without a response")

    link = server._connections[-1]
    with pytest.raises(
        MCPError, match=r"the answer of the MCP server t to the call was lost \(SSE stream .*, which may"
    ):
        server._submit(lose).result()
    assert tools["t_add"].call({"a": 1}).content == "2"
    assert server._connections[-1] is link


def test_what_a_server_refuses(server: MCPServer) -> None:
    async def ask(client: Any) -> None:
        await client.session.call_tool("add", {"a": 1}, read_timeout_seconds=0)

    with pytest.raises(MCPError, match=r"answered with an error: .*timed out"):
        server._submit(ask).result()


def test_what_is_closed_stays_closed(api: API) -> None:
    server = MCPServer.stdio(sys.executable, [SERVER])
    api.method(server, "close")
    with pytest.raises(MCPError, match=r"the MCP server mcp_server is closed; start\(\) opens it again"):
        api.method(server, "tools")
    assert "mcp mcp_server" not in mcp_threads()


async def test_the_async_with() -> None:
    async with MCPServer.stdio(sys.executable, [SERVER]) as server:
        tools = {tool.name: tool for tool in await server.atools(prefix=False)}
        pid = int((await tools["pid"].acall({})).content)
        await server.aclose()
    assert "mcp mcp_server" not in mcp_threads()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_closed_during_a_call_and_started_again() -> None:
    with MCPServer.stdio(sys.executable, [SERVER]) as server:
        wait = next(tool for tool in server.tools() if tool.name.endswith("_wait"))
        closing = threading.Thread(target=server.close)
        context = ToolContext[None](on_progress=lambda _: closing.start())
        with pytest.raises(MCPError, match="mcp_server was closed during the call"):
            wait.run(wait.read({"key": "x"}).value, context)
        closing.join()
        server.start()
        assert wait.name in {tool.name for tool in server.tools()}


# Servers that do not start.


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (MCPServer.stdio("no-such-program-anywhere"), "No such file|cannot find"),
        (program("print('no JSON'); raise SystemExit(3)"), r"could not be started: Connection closed\. Does"),
        (program("import no_such_module"), r"Connection closed, after it wrote \"ModuleNotFoundError: No module named"),
        (program("import sys; sys.exit('\\n\\nno licence')"), "after it wrote 'no licence' to its standard error"),
        (MCPServer.http("http://127.0.0.1:1/mcp"), r"All connection attempts failed\. Is it running"),
    ],
    ids=["no program", "no server", "no module", "no licence", "refused"],
)
def test_a_server_that_does_not_start(api: API, server: MCPServer, why: str) -> None:
    with pytest.raises(MCPError, match=why):
        api.method(server, "start")
    api.method(server, "close")


def test_a_server_that_does_not_start_in_time(api: API) -> None:
    server = MCPServer(ConnectOptions(silent, "Wait."), "slow")
    with pytest.raises(MCPError, match=r"the MCP server slow did not start in time; .* 0\.01 s\. Wait\."):
        api.method(server, "start", timeout=0.01)
    api.method(server, "close")


async def test_a_list_without_an_end() -> None:
    class Client:
        async def list_tools(self, cursor: str | None = None) -> Any:
            return SimpleNamespace(tools=[cursor], next_cursor=f"{cursor or ''}x")

    with pytest.raises(MCPError, match="more than 100 pages"):
        await _list_all_tools(Client())  # type: ignore[arg-type]  # as much of a client as is needed


# Servers that are rough.


def test_an_unreadable_answer_ends_its_call(api: API, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing else would end it but its time limit."""
    with MCPServer.stdio(sys.executable, [ROUGH], name="rough") as server:
        tools = {tool.name: tool for tool in server.tools(prefix=False, timeout=60)}
        assert api.method(tools["surrogate"], "call", {}).content == "a\ufffdb"
        with pytest.raises(MCPError, match="its answer cannot be read: it is no JSON-RPC message"):
            api.method(tools["wrong"], "call", {})
        caplog.clear()
        assert api.method(tools["noise"], "call", {}).content == "received"
        assert caplog.text.count("the MCP server rough sent a message that cannot be read: ") == 3


@pytest.fixture(scope="module")
def rough() -> Generator[Tools]:
    with MCPServer.stdio(sys.executable, [ROUGH], name="rough") as server:
        yield {tool.name: tool for tool in server.tools(prefix=False)}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("contentless", '{"n":1}'),
        ("nothing", ""),
        ("null", "it gives no reason"),
        ("bare", "just text"),
        ("unknown", 'seen\n{"type":"video","length":3}'),
        ("annotated", "seen"),
        ("listed", "[1, 2]\n[1,2]"),
        ("partly", '{"type":"video","length":3}\n{"n":1}'),
        ("undecided", "x"),
        ("odd", "1\ntwo"),
        ("word", "hello"),
        ("unfit", 'seen\n{"m":1}'),
    ],
)
def test_a_result_that_the_protocol_does_not_allow_reaches_the_model(rough: Tools, name: str, content: str) -> None:
    """The tool has run, so an error would have the model call it again."""
    output = rough[name].call({})
    assert (output.content, output.is_error) == (content, name == "null")


def test_a_result_that_asks_for_input_is_no_empty_result(rough: Tools) -> None:
    with pytest.raises(MCPError, match="the MCP server rough answered with an error"):
        rough["unfinished"].call({})


def test_a_call_has_a_time_limit_by_default(api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    async def within(limit: float | None, work: Any, late: Exception) -> Any:
        limits.append(limit)
        return await work

    monkeypatch.setattr(mcp, "_with_timeout", within)
    with MCPServer.stdio(sys.executable, [SERVER], name="t") as server:
        for timeout in ({}, {"total_timeout": None}, {"total_timeout": 7}):
            tools = {tool.name: tool for tool in api.method(server, "tools", prefix=False, **timeout)}
            api.method(tools["add"], "call", {"a": 1})
    assert limits[1::2] == [3600.0, None, 7]


def test_a_rough_server(api: API, caplog: pytest.LogCaptureFixture) -> None:
    server = MCPServer.stdio(sys.executable, [ROUGH], name="rough")
    refuse, fail, listing, flood, *_ = api.method(server, "tools", prefix=False)
    assert (refuse.name, fail.name, listing.name, flood.name) == ("refuse", "fail", "listing", "flood")
    left_out = [record.getMessage() for record in caplog.records if record.name == "toolcast"]
    about = "the MCP server rough: left out the tool"
    assert left_out[:2] == [
        f"{about} 'nullable': inputSchema.type: Input should be 'object'",
        f"{about} None: name: Field required",
    ]
    assert left_out[2].startswith(f"{about} 'nonsense': ")
    link = server._connections[-1]
    with pytest.raises(MCPError) as refused:
        api.method(refuse, "call", {})
    assert str(refused.value) == "the MCP server rough answered with an error: [31mno such CRITICAL row"
    failed = api.method(fail, "call", {})
    assert str(failed.error) == "[2Jno such file"
    flooded = api.method(flood, "call", {}).content
    assert flooded.count("x") == MAX_TEXT
    assert flooded.endswith("[500000 characters left out]")
    assert server._connections == [link]
    api.method(server, "close")


# Over HTTP.


def test_over_http(api: API, http_process: tuple[subprocess.Popen[str], str]) -> None:
    server = MCPServer.http(http_process[1], headers={"x-key": "1"}, name="web")
    add = next(tool for tool in api.method(server, "tools") if tool.name == "web_add")
    assert api.method(add, "call", {"a": 1}).content == "2"
    api.method(server, "close")


async def test_a_cancelled_caller_cancels_the_call_over_http(
    http_process: tuple[subprocess.Popen[str], str], anyio_backend: str
) -> None:
    async with MCPServer.http(http_process[1]) as server:
        tools = {tool.name: tool for tool in await server.atools(prefix=False)}
        await test_a_cancelled_caller_cancels_the_call(
            {f"t_{name}": tool for name, tool in tools.items()}, anyio_backend
        )


def test_an_http_server_that_ends_during_a_call(http_process: tuple[subprocess.Popen[str], str]) -> None:
    process, url = http_process
    with MCPServer.http(url) as server:
        tools = {tool.name: tool for tool in server.tools(prefix=False)}
        wait = tools["wait"]
        context = ToolContext[None](on_progress=lambda _: process.kill())
        with pytest.raises(MCPError, match="was lost"):
            wait.run(wait.read({"key": "x"}).value, context)
        process.wait()
        with pytest.raises(MCPError):
            tools["add"].call({"a": 1})


def test_a_server_knows_whether_it_runs_and_its_secrets() -> None:
    server = MCPServer.stdio(sys.executable, [SERVER], env={"A_KEY": "k3y-of-it"}, name="t")
    assert not server.is_running
    server.start()
    assert server.is_running
    assert server.mask("its k3y-of-it") == "its [key]"
    server.close()
    assert not server.is_running
