"""What is secret of an MCP server - headers, URL, environment - shows in no error, no traceback and no log."""

from __future__ import annotations

import json
import logging
import sys
import traceback

import pytest

from support.loopback import CLOSE, Loopback, whole
from toolcast import MCPServer
from toolcast.errors import MCPError

HALVES = ("sk-mcp-", "4f8b2c6e9d")


def canary() -> str:
    return "".join(HALVES)


def everything(error: BaseException) -> str:
    """What `error` and all that led to it show, without the frames of the tests."""
    tree = traceback.TracebackException.from_exception(error, capture_locals=True)
    texts: list[str] = []
    ahead: list[traceback.TracebackException | None] = [tree]
    while ahead:
        if (link := ahead.pop()) is not None:
            link.stack = traceback.StackSummary.from_list([e for e in link.stack if "/tests/" not in e.filename])
            texts += list(link.format(chain=False))
            ahead += [link.__cause__, link.__context__, *(link.exceptions or ())]
    return "".join(texts) + repr(vars(error))


def refused(id: int) -> bytes:
    """A response that refuses the client's request `id`, and repeats the key."""
    message = {"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": f"{canary()} is no key"}}
    return whole(json.dumps(message).encode(), 200, "content-type: application/json")


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("way", ["login", "query", "header"])
@pytest.mark.parametrize("fault", ["401", "closed", "refused", "error"])
def test_over_http(way: str, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Loopback() as server:
        answers = {
            "401": [whole(f"no: {canary()}".encode(), 401, "content-type: text/plain")],
            "closed": [CLOSE],
            "error": [refused(1), refused(2)],  # the answers to server/discover and to initialize
        }
        for answer in answers.get(fault, ()):
            server.answer(answer)
        login = f"u:{canary()}@" if way == "login" else ""
        query = f"?token={canary()}" if way == "query" else ""
        headers = {"X-Auth-Token": canary()} if way == "header" else {}
        port = server.port if fault in answers else 9
        mcp = MCPServer.http(f"http://{login}127.0.0.1:{port}/mcp{query}", headers=headers)
        with pytest.raises(MCPError) as caught:
            mcp.start()
        mcp.close()
    assert canary() not in everything(caught.value)
    assert canary() not in caplog.text + repr(mcp) + repr(vars(mcp))


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_of_a_program(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    program = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    error = {"code": -32000, "message": f"the key {os.environ['SERVICE_KEY']} is wrong"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "error": error}), flush=True)
"""
    mcp = MCPServer.stdio(sys.executable, ["-c", program], env={"SERVICE_KEY": canary()}, name="odd")
    with pytest.raises(MCPError, match=r"the key \[key\] is wrong") as caught:
        mcp.start()
    mcp.close()
    assert canary() not in everything(caught.value) + caplog.text + repr(vars(mcp))


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["--api-key", canary(), "server.py"], "server"),
        (["--header", f"Authorization: Bearer {canary()}"], "run"),
        (["--token", canary()], "run"),
        (["--token=x", "notes"], "notes"),
        (["-y", "@scope/notes"], "notes"),
    ],
)
def test_no_name_is_the_value_of_a_secret_option(args: list[str], name: str) -> None:
    assert MCPServer.stdio("run", args).name == name
