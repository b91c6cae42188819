"""Each real server that the tests lean on answers, asked with nothing but httpx."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from servers.aimock_server import Aimock
from servers.llama_server import LlamaServer

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = pytest.mark.networked

HELLO = [{"role": "user", "content": "hello"}]


def data_lines(text: str) -> list[dict[str, Any]]:
    """The JSON of the `data:` lines of an event stream, without the end marker."""
    payloads = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(payload) for payload in payloads if payload != "[DONE]"]


def test_llmock_streams_what_it_was_reported_to_say(llmock: LLMock) -> None:
    llmock.reply("Good morning")
    reply = httpx.post(
        f"{llmock.base_url('openai')}/chat/completions",
        json={"model": "gpt-4o", "messages": HELLO, "stream": True},
        headers={"authorization": "Bearer any"},
    )
    assert reply.headers["content-type"].startswith("text/event-stream")
    deltas = [choice["delta"] for event in data_lines(reply.text) for choice in event["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Good morning"


def test_llmock_fails_when_reported_to(llmock: LLMock) -> None:
    llmock.rate_limit(retry_after=3)
    reply = httpx.post(
        f"{llmock.base_url('openai')}/chat/completions",
        json={"model": "gpt-4o", "messages": HELLO},
        headers={"authorization": "Bearer any"},
    )
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "3")


def test_aimock_speaks_ollamas_json_lines(aimock: Aimock) -> None:
    aimock.reply("hello", "Hi there, how are you?")
    reply = httpx.post(f"{aimock.url}/api/chat", json={"model": "llama3.2", "messages": HELLO})
    lines = [json.loads(line) for line in reply.text.splitlines()]
    assert len(lines) > 2
    assert "".join(line["message"]["content"] for line in lines) == "Hi there, how are you?"
    assert lines[-1]["done"] is True


def test_aimock_calls_a_tool_and_tells_what_it_was_asked(aimock: Aimock) -> None:
    aimock.call("Album", {"title": "Sea"})
    tool = {"type": "function", "function": {"name": "Album", "parameters": {"type": "object"}}}
    reply = httpx.post(
        f"{aimock.url}/api/chat",
        json={"model": "llama3.2", "messages": HELLO, "tools": [tool], "stream": False},
    )
    assert reply.json()["message"]["tool_calls"][0]["function"] == {
        "name": "Album",
        "arguments": {"title": "Sea"},
    }
    assert [entry["path"] for entry in aimock.requests()] == ["/api/chat"]


def test_aimock_forgets_between_tests(aimock: Aimock) -> None:
    assert aimock.requests() == []
    assert not httpx.post(f"{aimock.url}/api/chat", json={"model": "x", "messages": HELLO}).is_success


def ask_llama(llama: LlamaServer, **more: Any) -> httpx.Response:
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is the capital of France?"},
    ]
    body = {"messages": messages, "temperature": 0, "max_tokens": 30, "cache_prompt": False, **more}
    headers = {"authorization": f"Bearer {llama.key}"}
    return httpx.post(f"{llama.base_url}/chat/completions", json=body, headers=headers, timeout=30)


def test_llama_knows_a_capital(llama: LlamaServer) -> None:
    assert "Paris" in ask_llama(llama).json()["choices"][0]["message"]["content"]


def test_llama_streams(llama: LlamaServer) -> None:
    events = data_lines(ask_llama(llama, stream=True).text)
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert "Paris" in "".join(delta.get("content") or "" for delta in deltas)


def test_llama_is_closed_to_strangers(llama: LlamaServer) -> None:
    assert ask_llama(LlamaServer(llama.url, "another key")).status_code == 401
