"""A double of Anthropic's Messages API with its prompt cache, as platform.claude.com documents it.

A prompt is a list of blocks: the tools, the system prompt, the blocks of the messages. At each mark, the prompt up to
it is looked up, and so are those that end up to 20 blocks earlier; the longest one that is stored is read. What is
marked beyond it is written, if the prompt up to the mark has at least 1,024 tokens. A changed tool choice changes all
prompts that reach into the messages. More than four marks, a mark of an hour after one of 5 minutes, and a mark on a
thought or an empty text are refused. A block has a token for every four characters of its JSON.

Source: platform.claude.com/docs/en/build-with-claude/prompt-caching, as of November 2026.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from support.loopback import Piece, whole
from support.service_double import Received, Refused, ServiceDouble, as_json

LEAST = 1_024
LOOKBACK = 20
MOST = 4
SECONDS = {"5m": 300.0, "1h": 3_600.0}


@dataclass(frozen=True)
class Block:
    """A block of a prompt: its content, its tokens, and the time for which its mark stores the prompt up to it."""

    content: str
    tokens: int
    ttl: str | None


@dataclass(frozen=True)
class Counts:
    """The input tokens of one request."""

    total: int
    read: int
    written_5m: int
    written_1h: int
    marks: int

    @property
    def written(self) -> int:
        return self.written_5m + self.written_1h


class PromptCache:
    """The cache: `count` returns what a request reads and writes. `now` is the time in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._expiry: dict[tuple[str, ...], tuple[float, str]] = {}

    def count(self, body: Mapping[str, Any]) -> Counts:
        """Return the counts of a request, and store what it marks. Raise `Refused` for marks against the rules."""
        blocks = list(_blocks(body))
        marks = [at for at, block in enumerate(blocks) if block.ttl is not None]
        _check(blocks, marks)
        keys: list[tuple[str, ...]] = []
        key: tuple[str, ...] = (str(body["model"]),)
        for block in blocks:
            key = (*key, block.content)
            keys.append(key)
        read = -1
        for mark in marks:
            for at in range(mark, max(mark - LOOKBACK, -1), -1):
                if self._expiry.get(keys[at], (0.0, ""))[0] > self.now:
                    read = max(read, at)
                    break
        if read >= 0:
            _, ttl = self._expiry[keys[read]]
            self._expiry[keys[read]] = self.now + SECONDS[ttl], ttl
        written = {"5m": 0, "1h": 0}
        begin = read + 1
        for mark in marks:
            if mark >= begin and _tokens(blocks[: mark + 1]) >= LEAST:
                ttl = blocks[mark].ttl or "5m"
                written[ttl] += _tokens(blocks[begin : mark + 1])
                self._expiry[keys[mark]] = self.now + SECONDS[ttl], ttl
                begin = mark + 1
        return Counts(_tokens(blocks), _tokens(blocks[: read + 1]), written["5m"], written["1h"], len(marks))


def _tokens(blocks: Sequence[Block]) -> int:
    return sum(block.tokens for block in blocks)


def _blocks(body: Mapping[str, Any]) -> Iterator[Block]:
    for tool in body.get("tools", ()):
        yield _block("tool", tool)
    system = body.get("system", [])
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield _block("system", block)
    chosen = json.dumps([body.get("tool_choice"), body.get("thinking")])
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield _block(f"{message['role']} {chosen}", block)


def _block(where: str, block: Mapping[str, Any]) -> Block:
    content = json.dumps({name: value for name, value in block.items() if name != "cache_control"}, sort_keys=True)
    control = block.get("cache_control")
    if control is None:
        return Block(where + content, len(content) // 4, None)
    if block.get("type") in ("thinking", "redacted_thinking") or block.get("text") == "":
        raise _refused("cache_control cannot be set for this block")
    if control.get("type") != "ephemeral" or control.get("ttl", "5m") not in SECONDS or set(control) - {"type", "ttl"}:
        raise _refused(f"cache_control: {control}")
    return Block(where + content, len(content) // 4, control.get("ttl", "5m"))


def _check(blocks: Sequence[Block], marks: Sequence[int]) -> None:
    if len(marks) > MOST:
        raise _refused(f"A maximum of {MOST} blocks with cache_control may be provided. Found {len(marks)}.")
    ttls = [blocks[at].ttl for at in marks]
    if "1h" in ttls[ttls.index("5m") :] if "5m" in ttls else False:
        raise _refused("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")


def _refused(message: str) -> Refused:
    return Refused(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})


class CachingService(ServiceDouble):
    """The service: `reply(*blocks)` adds an answer, `counts` and `bodies` are those of the requests."""

    routes: ClassVar[tuple[tuple[str, str], ...]] = ((r"POST /v1/messages", "_create"),)

    def __init__(self) -> None:
        super().__init__()
        self.cache = PromptCache()
        self.counts: list[Counts] = []
        self.bodies: list[Any] = []
        self._replies: list[Sequence[Mapping[str, Any]]] = []

    def reply(self, *blocks: Mapping[str, Any]) -> None:
        """Answer the next request with these blocks."""
        self._replies.append(blocks)

    def _create(self, request: Received) -> tuple[Piece, ...]:
        body = request.json
        counts = self.cache.count(body)
        self.bodies.append(body)
        self.counts.append(counts)
        blocks = self._replies.pop(0)
        message = {
            "id": f"msg_{len(self.bodies)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": list(blocks),
            "stop_reason": "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": counts.total - counts.read - counts.written,
                "cache_read_input_tokens": counts.read,
                "cache_creation_input_tokens": counts.written,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": counts.written_5m,
                    "ephemeral_1h_input_tokens": counts.written_1h,
                },
                "output_tokens": 10,
            },
        }
        if not body["stream"]:
            return as_json(message)
        events = b"".join(
            b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in _events(message)
        )
        return (whole(events, 200, "content-type: text/event-stream"),)


def _events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield {"type": "content_block_start", "index": index, "content_block": {**block, "input": {}}}
        else:
            delta = {"type": "text_delta", "text": block["text"]}
            yield {"type": "content_block_start", "index": index, "content_block": {**block, "text": ""}}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}
