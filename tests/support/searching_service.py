"""A double of Anthropic's Messages API with server tools, as platform.claude.com documents them.

It answers with prepared content blocks, streamed or whole. As the service does, it refuses a request in which a block
that it has sent comes back changed, or in which a call of a server tool has no result before another message. Code that
waits for the results of the caller's tools goes on in its `container`, which the request has to name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from support.loopback import Piece, whole
from support.service_double import Received, Refused, ServiceDouble, as_json

Blocks = Sequence[Mapping[str, Any]]


def search(number: int, query: str) -> dict[str, Any]:
    """Return the call of a web search."""
    return {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search", "input": {"query": query}}


def results(number: int, *urls: str) -> dict[str, Any]:
    """Return the results of a web search, which only the service can read."""
    found = [
        {
            "type": "web_search_result",
            "url": url,
            "title": f"Page {at}",
            "encrypted_content": f"EqgfCioIARgB{at}+/=",
            "page_age": None,
        }
        for at, url in enumerate(urls)
    ]
    return {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": found}


def text(words: str) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": words}


def call(name: str, arguments: Mapping[str, Any], id: str = "toolu_1") -> dict[str, Any]:
    """Return a call of the caller's tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


class SearchingService(ServiceDouble):
    """The service: `reply(blocks)` adds an answer, `bodies` are the requests.

    `container` is the one in which code of its answers runs; other ones have expired.
    """

    routes: ClassVar[tuple[tuple[str, str], ...]] = ((r"POST /v1/messages", "_create"),)

    def __init__(self) -> None:
        super().__init__()
        self.container: str | None = None
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self._replies: list[tuple[Blocks, str]] = []
        self._sent: dict[tuple[str, str], Mapping[str, Any]] = {}

    def reply(self, *blocks: Mapping[str, Any], stop: str = "end_turn") -> None:
        """Answer the next request with these blocks."""
        self._replies.append((blocks, stop))

    def _create(self, request: Received) -> tuple[Piece, ...]:
        body = request.json
        self.bodies.append(body)
        self._check(body["messages"], body.get("container"))
        self.headers.append(request.headers)
        blocks, stop = self._replies.pop(0)
        for block in blocks:
            if block["type"] not in ("text", "tool_use"):
                self._sent[_key(block)] = block
        message = {
            "id": f"msg_{len(self.bodies)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": list(blocks),
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 10},
            "container": self.container and {"id": self.container, "expires_at": "2026-12-24T12:00:00Z"},
        }
        if not body["stream"]:
            return as_json(message)
        events = b"".join(
            b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in _events(message)
        )
        return (whole(events, 200, "content-type: text/event-stream"),)

    def _check(self, messages: Sequence[Any], container: str | None) -> None:
        if container not in (None, self.container):
            raise _refused(f"container: Container {container} has expired.")
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            content = message["content"]
            waited = content[-1]["type"] == "tool_use"  # the result follows those of the caller's tools
            later = [block for other in messages[at : None if waited else at + 1] for block in other["content"]]
            answered = {block.get("tool_use_id") for block in later if isinstance(block, dict)}
            for block in content:
                if block["type"] in ("text", "tool_use", "thinking"):
                    continue
                if self._sent.get(_key(block)) != block:
                    raise _refused(f"messages.{at}: the block {_key(block)} was changed")
                waits = waited and container is not None and at == len(messages) - 2
                if "input" in block and block["id"] not in answered and at < len(messages) - 1 and not waits:
                    raise _refused(f"messages.{at}: `{block['name']}` tool use without a corresponding result block")


def _key(block: Mapping[str, Any]) -> tuple[str, str]:
    return block["type"], block.get("id") or block.get("tool_use_id") or ""


def _refused(why: str) -> Refused:
    return Refused(400, {"type": "error", "error": {"type": "invalid_request_error", "message": why}})


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    start = {
        **message,
        "content": [],
        "stop_reason": None,
        "container": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    yield {"type": "message_start", "message": start}
    for at, block in enumerate(message["content"]):
        if block["type"] == "text":
            yield {"type": "content_block_start", "index": at, "content_block": {"type": "text", "text": ""}}
            deltas = [{"type": "text_delta", "text": block["text"]}]
        elif "input" in block:
            yield {"type": "content_block_start", "index": at, "content_block": {**block, "input": {}}}
            written = json.dumps(block["input"])
            pieces = [written[i : i + 5] for i in range(0, len(written), 5)]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        else:
            yield {"type": "content_block_start", "index": at, "content_block": block}
            deltas = []
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    delta = {name: message[name] for name in ("stop_reason", "stop_sequence", "container")}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}
