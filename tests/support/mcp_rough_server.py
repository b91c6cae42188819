"""An MCP server that keeps to the protocol's letter only where it must, for tests to start; it speaks over stdio.

The first tool that it lists is in order. What it answers to a call depends on the tool that is called.
"""

from __future__ import annotations

import json
import sys
from typing import Any

OBJECT = {"type": "object"}
UNKNOWN = {"type": "video", "length": 3}
RESULTS: dict[str, Any] = {
    "contentless": {"structuredContent": {"n": 1}},
    "nothing": {},
    "null": {"content": None, "isError": True},
    "bare": {"content": "just text"},
    "unknown": {"content": [{"type": "text", "text": "seen"}, UNKNOWN]},
    "annotated": {"content": [{"type": "text", "text": "seen", "annotations": {"priority": 9}}]},
    "listed": {"content": [{"type": "text", "text": "[1, 2]"}], "structuredContent": [1, 2]},
    "partly": {"content": [UNKNOWN], "structuredContent": {"n": 1}},
    "undecided": {"content": [{"type": "text", "text": "x"}], "isError": None},
    "odd": [1, "two"],
    "word": "hello",
    "unfit": {"content": [{"type": "text", "text": "seen"}], "structuredContent": {"m": 1}},
}
TOOLS: list[Any] = [
    {"name": "refuse", "inputSchema": OBJECT},
    {"name": "nullable", "inputSchema": {"type": ["object", "null"]}},
    {"name": "fail", "inputSchema": OBJECT},
    {"name": "listing", "inputSchema": OBJECT, "outputSchema": {"type": "array"}},
    {"inputSchema": OBJECT},
    {"name": "flood", "inputSchema": OBJECT},
    {"name": "surrogate", "inputSchema": OBJECT},
    {"name": "wrong", "inputSchema": OBJECT},
    {"name": "noise", "inputSchema": OBJECT},
    {"name": "unfinished", "inputSchema": OBJECT},
    *({"name": name, "inputSchema": OBJECT, "outputSchema": {**OBJECT, "required": ["n"]}} for name in RESULTS),
    "nonsense",
]


def text_result(text: str, failed: bool = False) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": text}], "isError": failed}}


CALLS: dict[str, dict[str, Any]] = {
    "refuse": {"error": {"code": -32000, "message": "\x1b[31mno such\r\nCRITICAL row\u202e"}},
    "fail": text_result("\x1b[2Jno such\r\n\r\nfile", failed=True),
    "flood": text_result("x" * 1_500_000),
    "surrogate": text_result("a\ud800b"),
    "wrong": {"error": "no object"},
    "noise": text_result("received"),
    "unfinished": {"result": {"resultType": "input_required", "inputRequests": {}}},
    **{name: {"result": result} for name, result in RESULTS.items()},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        about = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "rough", "version": "1"}}
        return {"result": {**about, "capabilities": {"tools": {}}}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "tools/call":
        return CALLS[params["name"]]
    return {"error": {"code": -32601, "message": "Method not found"}}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        reply = {"jsonrpc": "2.0", "id": request["id"], **answer(request["method"], request.get("params", {}))}
        if request.get("params", {}).get("name") == "noise":
            print('nonsense\n{"id": null, "error": 1}\n[1]', flush=True)
        print(json.dumps(reply), flush=True)
