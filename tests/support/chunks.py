"""Answers in OpenAI's chat-completions form, made by hand for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from support.albums import SEA


def sse(*payloads: Any, done: bool = True) -> list[bytes]:
    """One server-sent event per payload, and `[DONE]`."""
    events = [f"data: {json.dumps(payload)}\n\n".encode() for payload in payloads]
    return [*events, b"data: [DONE]\n\n"] if done else events


def delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk."""
    return {"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_deltas(arguments: str, name: str = "Album", id: str = "call_1", index: int = 0) -> Iterable[dict[str, Any]]:
    """The chunks of one tool call, four characters of arguments each."""
    function = {"name": name, "arguments": ""}
    yield delta(tool_calls=[{"index": index, "id": id, "type": "function", "function": function}])
    for start in range(0, len(arguments), 4):
        piece = {"arguments": arguments[start : start + 4]}
        yield delta(tool_calls=[{"index": index, "function": piece}])


USAGE = {"id": "c1", "model": "m-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


def album_stream(arguments: str | None = None, finish: str = "tool_calls") -> list[bytes]:
    """A stream that makes `SEA`, one event a piece."""
    return sse(*call_deltas(arguments or SEA.model_dump_json()), delta(finish), USAGE)


def album_body(arguments: str | None = None, finish: str = "tool_calls", **choice: Any) -> bytes:
    """A whole answer that makes `SEA`."""
    function = {"name": "Album", "arguments": arguments or SEA.model_dump_json()}
    message = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    return json.dumps(
        {
            "id": "c1",
            "model": "m-1",
            "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        }
    ).encode()


def text_body(text: str, finish: str = "stop") -> bytes:
    """A whole answer in words."""
    message = {"role": "assistant", "content": text}
    return json.dumps({"model": "m-1", "choices": [{"message": message, "finish_reason": finish}]}).encode()
