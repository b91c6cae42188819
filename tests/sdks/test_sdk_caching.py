"""Prompt caches through the official clients and through toolcast: the same requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import toolcast
from support.cached_contents import CachedContents
from support.loopback import Loopback, whole
from toolcast import LLMError, OpenAIResponses, Settings, ToolCallPart, assistant, system, tool_result, user
from toolcast.messages import CachePoint

pytestmark = pytest.mark.networked

FIVE: Any = {"type": "ephemeral"}
HOUR: Any = {"type": "ephemeral", "ttl": "1h"}
SCHEMA: Any = {
    "additionalProperties": False,
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "type": "object",
}
MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"


def weather(city: str) -> str:
    """The weather in a city."""
    return city


def anthropic(url: str) -> None:
    from anthropic import Anthropic

    with Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        client.messages.create(
            model="claude-sonnet-5",
            max_tokens=9,
            tools=[
                {
                    "name": "weather",
                    "description": "The weather in a city.",
                    "input_schema": SCHEMA,
                    "cache_control": HOUR,
                }
            ],
            system=[{"type": "text", "text": "Be kind.", "cache_control": HOUR}],
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Document", "cache_control": FIVE},
                        {"type": "text", "text": "Question"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "4 degrees", "cache_control": FIVE}
                    ],
                },
            ],
            stream=False,
        )


CALL = ToolCallPart("t1", "weather", '{"city": "Oslo"}')
CONVERSATION = [
    system("Be kind.", CachePoint("1h")),
    user("Document", CachePoint(), "Question"),
    assistant(CALL),
    tool_result(CALL, "4 degrees"),
    user(CachePoint()),
]


def bedrock(url: str) -> None:
    session = __import__("boto3").Session("AKIAIOSFODNN7EXAMPLE", "secret", region_name="us-east-1")
    client = session.client("bedrock-runtime", endpoint_url=url)
    hour = {"cachePoint": {"type": "default", "ttl": "1h"}}
    point = {"cachePoint": {"type": "default"}}
    client.converse(
        modelId=MODEL,
        inferenceConfig={"maxTokens": 9},
        toolConfig={
            "tools": [
                {
                    "toolSpec": {
                        "name": "weather",
                        "description": "The weather in a city.",
                        "inputSchema": {"json": SCHEMA},
                    }
                },
                hour,
            ]
        },
        system=[{"text": "Be kind."}, hour],
        messages=[
            {"role": "user", "content": [{"text": "Document"}, point, {"text": "Question"}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Oslo"}}}],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "4 degrees"}]}}, point],
            },
        ],
    )


def openai_chat(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        client.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "user", "content": "Hi"}],
            prompt_cache_key="u1",
            prompt_cache_retention="24h",
            stream=False,
        )


def openai_responses(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        client.responses.create(
            model="gpt-4o",
            input=[{"role": "user", "content": "Hi"}],
            prompt_cache_key="u1",
            prompt_cache_retention="24h",
            store=False,
            stream=False,
        )


def mistral(url: str) -> None:
    from mistralai.client import Mistral

    with Mistral(server_url=url, api_key="any") as client:
        client.chat.complete(
            model="m", messages=[{"role": "user", "content": "Hi"}], prompt_cache_key="u1", stream=False
        )


BREAK: Any = {"mode": "explicit"}
AT_LEAST_AN_HOUR: Any = {"ttl": "12h"}


def openai_chat_breakpoints(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        client.chat.completions.create(
            model="gpt-5.6",
            prompt_cache_options=AT_LEAST_AN_HOUR,
            messages=[
                {
                    "role": "system",
                    "content": [{"type": "text", "text": "Be kind.", "prompt_cache_breakpoint": BREAK}],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Document", "prompt_cache_breakpoint": BREAK},
                        {"type": "text", "text": "Question"},
                    ],
                },
            ],
            stream=False,
        )


def openai_responses_breakpoints(url: str) -> None:
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        client.responses.create(
            model="gpt-5.6",
            prompt_cache_options=AT_LEAST_AN_HOUR,
            input=[
                {
                    "role": "system",
                    "content": [{"type": "input_text", "text": "Be kind.", "prompt_cache_breakpoint": BREAK}],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Document", "prompt_cache_breakpoint": BREAK},
                        {"type": "input_text", "text": "Question"},
                    ],
                },
            ],
            include=["reasoning.encrypted_content"],
            store=False,
            stream=False,
        )


KEY = Settings(prompt_cache_key="u1", prompt_cache_retention="24h")
CASES: list[tuple[str, Callable[[str], None], Callable[[str], Any], Any, Any]] = [
    (
        "anthropic",
        anthropic,
        lambda url: toolcast.Anthropic("claude-sonnet-5", base_url=url, api_key="any"),
        CONVERSATION,
        {"tools": [weather, CachePoint("1h")], "settings": Settings(max_tokens=9)},
    ),
    (
        "bedrock",
        bedrock,
        lambda url: toolcast.Bedrock(MODEL, base_url=url, api_key="any"),
        CONVERSATION,
        {"tools": [weather, CachePoint("1h")], "settings": Settings(max_tokens=9)},
    ),
    (
        "openai breakpoints",
        openai_chat_breakpoints,
        lambda url: toolcast.llm("openai:gpt-5.6", base_url=f"{url}/v1", api_key="any"),
        CONVERSATION[:2],
        {},
    ),
    (
        "responses breakpoints",
        openai_responses_breakpoints,
        lambda url: OpenAIResponses("gpt-5.6", base_url=f"{url}/v1", api_key="any"),
        CONVERSATION[:2],
        {},
    ),
    (
        "openai",
        openai_chat,
        lambda url: toolcast.llm("openai:gpt-4o", base_url=f"{url}/v1", api_key="any"),
        "Hi",
        {"settings": KEY},
    ),
    (
        "responses",
        openai_responses,
        lambda url: OpenAIResponses("gpt-4o", base_url=f"{url}/v1", api_key="any"),
        "Hi",
        {"settings": KEY},
    ),
    (
        "mistral",
        mistral,
        lambda url: toolcast.llm("mistral:m", base_url=f"{url}/v1", api_key="any"),
        "Hi",
        {"settings": Settings(prompt_cache_key="u1")},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_marks_and_keys(case: Any) -> None:
    _, official, llm, messages, options = case
    with Loopback() as server:
        url = f"http://127.0.0.1:{server.port}"
        for _ in range(2):
            server.answer(whole(b'{"error": {"message": "enough"}}', 400, "content-type: application/json"))
        with suppress(Exception):  # each client has an error class of its own
            official(url)
        with pytest.raises(LLMError):
            llm(url).chat(messages, **options)
        theirs, ours = (json.loads(request.body) for request in server.requests)
    assert {name: value for name, value in ours.items() if value} == {
        name: value for name, value in theirs.items() if value
    }


LONG = "x" * 4 * 1_100


def test_cached_content() -> None:
    from google import genai

    with CachedContents() as theirs, CachedContents() as ours:
        options: Any = {"base_url": theirs.base, "api_version": "v1beta"}
        with genai.Client(api_key="key", http_options=options) as client:
            cache = client.caches.create(
                model="gemini-2.5-flash",
                config={"contents": [LONG], "system_instruction": "Be short.", "ttl": "300s", "display_name": "a"},
            )
            name = str(cache.name)
            client.caches.get(name=name)
            client.caches.update(name=name, config={"ttl": "600s"})
            theirs_read = client.models.generate_content(
                model="gemini-2.5-flash", contents="Why?", config={"cached_content": name}
            )
            client.caches.delete(name=name)
        llm = toolcast.Google("gemini-2.5-flash", api_key="key", base_url=ours.base)
        mine = llm.create_cache([system("Be short."), user(LONG)], ttl=300, name="a")
        llm.describe_cache(mine)
        llm.renew_cache(mine, ttl=600)
        response = llm.chat("Why?", settings=Settings(cached_content=mine))
        llm.delete_cache(mine)
        assert ours.log == theirs.log
        assert _plain(ours.bodies) == _plain(theirs.bodies)
        assert _plain(ours.created) == _plain(theirs.created)
        assert theirs_read.usage_metadata is not None
        assert theirs_read.usage_metadata.cached_content_token_count == theirs.tokens_read[-1]
        assert response.usage.cache_read_tokens == mine.tokens == ours.tokens_read[-1]


def _plain(value: Any) -> Any:
    """Return a request without empty fields and the role of its system instruction, which the client adds."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        found = {name: _plain(each) for name, each in value.items() if each}
        if "systemInstruction" in found:
            found["systemInstruction"].pop("role", None)
        return found
    return value
